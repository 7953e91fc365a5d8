#include "apps/cli/load_data.h"

#include <sstream>

#include "data/safetensors.h"

namespace accrue::app {
namespace {

// The numbers of "1x64x64"; none if the file does not say it.
std::vector<int64_t> numbers_of(const Metadata& said, const std::string& key) {
  std::vector<int64_t> numbers;
  const auto found = said.find(key);
  std::istringstream text(found == said.end() ? "" : found->second);
  for (int64_t number = 0; text >> number; text.ignore()) numbers.push_back(number);
  return numbers;
}

}  // namespace

Datasets load_data(const Options& options) {
  Datasets data = find_dataset(options.data_name(), options.data_dir, options.image_size);
  const std::string model = name(options.network.kind), set = data.train.name;
  for (Dataset* each : {&data.train, &data.test})
    for (Field& field : each->fields) field.normalization = options.pixels;
  if (task_of(options.network.kind) == Task::drawing) {
    check(options.pixels.mean == 0.5 && options.pixels.std == 0.5,
          "--mean {} --std {}: --model {} draws pixels from -1 to 1, as its last layer gives them: "
          "expected neither option",
          options.pixels.mean, options.pixels.std, model);
    check(
        data.train.has("sources"),
        "--model {} draws the glyphs of one font in the style of another, but the data set {} has "
        "{}: expected --data strokes, or a directory of accrue font prepare",
        model, set, data.train.fields.front().name);
    return data;
  }
  const bool has_masks = data.train.has("masks");
  check(has_masks || data.train.has("labels"),
        "--model {} needs images with labels or masks, but the data set {} has {}: expected --data "
        "digits, shapes, mnist, fashion or a directory of IDX files",
        model, set, data.train.fields.front().name);
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

Options with_options_of_weights(const Options& options) {
  Options result = options;
  if (options.init.empty()) return result;
  const Metadata said = read_safetensors_metadata(options.init);
  const Settings settings = settings_of(result);
  std::string problems;
  for (const char* name : settings_of_weights) {
    const auto found = said.find(name);
    if (found == said.end()) continue;
    const Setting& setting = settings.at(name);
    if (!options.given.contains(name)) setting.set(found->second);
    else if (setting.text() != found->second)
      problems += fmt::format("\n  --{} is {}, but they were trained with {}", name, setting.text(),
                              found->second);
  }
  if (const auto image = numbers_of(said, "image"); image.size() == 3) {
    result.network.image = {image[0], image[1], image[2]};
    // The built-in strokes can be of any size.
    const bool draws = task_of(result.network.kind) == Task::drawing;
    if (draws && !options.given.contains("image-size")) result.image_size = image[1];
  }
  if (const auto classes = numbers_of(said, "classes"); classes.size() == 1)
    result.network.classes = classes[0];
  check(problems.empty(), "{} holds weights of another network; leave out what the file says:{}",
        options.init, problems);
  return result;
}

}  // namespace accrue::app
