#include "apps/eval.h"

#include "apps/training.h"
#include "apps/weights.h"

namespace accrue::app {

void eval(const TrainOptions& options) {
  const Device device = apply_machine_options(options);
  check(!options.init.empty(), "eval needs weights: --init FILE.safetensors");
  check(options.micro_batch > 0, "--micro-batch is {}: expected 1 or more samples",
        options.micro_batch);
  const Datasets data = place_data(find_dataset(options.data, options.data_dir), device);
  const auto model = make_model(options.model);
  Parameters parameters = place(*model, DType::f32, device, options.seed);
  load_weights(options.init, parameters);
  for (const auto& [split, set] : {std::pair{"training", &data.train}, {"test", &data.test}}) {
    const Score score = evaluate(*model, *set, options.micro_batch, device);
    fmt::print("{} accuracy {:.2f} % ({} of {}), loss {:.4f}\n", split, score.accuracy(),
               score.correct, score.samples, score.loss);
  }
}

}  // namespace accrue::app
