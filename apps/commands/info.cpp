#include "apps/commands/info.h"

#include "apps/cli/averages.h"
#include "apps/cli/processor.h"
#include "core/cuda.h"
#include "kernels/parallel.h"
#include "train/build.h"
#include "train/flops.h"

namespace accrue::app {

void info(const Options& options) {
  fmt::print("accrue {} | compiled for {} | matrix products: {} | {} threads\nCUDA: {}\n\n",
             version(), compiled_isa(), matrix_products(), thread_count(), cuda::describe_device());
  const ModelFactory new_model = model_factory(options.network);
  const auto model = new_model();
  const Parameters parameters = place(*model, DType::f32, Device::meta, options.seed);
  fmt::print("{}: {} parameters, {:.2f} MFLOP a training sample\n{}\n", name(options.network.kind),
             parameters.count(), training_flops_per_sample(new_model, {1, 1, 28, 28}) / 1e6,
             model->describe());
  for (const auto& entry : parameters.entries())
    fmt::print("  {:<24} {}\n", entry.name, entry.tensor.shape());
  for (const auto& buffer : parameters.buffer_entries())
    fmt::print("  {:<24} {} (buffer)\n", buffer.name, buffer.tensor.shape());
  fmt::print("\nlearning rate: {}\n", Schedule(options.schedule).describe());
  TrainingOptions training = options;
  training.batches.effective = options.effective_batch.value_or(default_effective_batch);
  for (const std::string& line : describe_averages(training)) fmt::print("{}\n", line);
}

}  // namespace accrue::app
