#include "apps/cli/load_data.h"

namespace accrue::app {

Datasets load_data(const Options& options) {
  Datasets data = find_dataset(options.data_name(), options.data_dir);
  const std::string model = name(options.network.kind), set = data.train.name;
  const bool has_masks = data.train.has("masks");
  if (task_of(options.network.kind) == Task::segmentation)
    check(has_masks,
          "--model {} answers with a mask for each image, but the data set {} has labels: expected "
          "--data shapes",
          model, set);
  else
    check(!has_masks,
          "--model {} answers with a class, but the data set {} has masks: expected --data digits, "
          "mnist or fashion (--data shapes is for --model unet)",
          model, set);
  return data;
}

}  // namespace accrue::app
