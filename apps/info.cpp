#include "apps/info.h"

#include "apps/averages.h"
#include "apps/flops.h"
#include "apps/processor.h"
#include "core/cuda.h"
#include "kernels/parallel.h"

namespace accrue::app {

void info(const TrainOptions& options) {
  fmt::print("accrue {} | compiled for {} | matrix products: {} | {} threads\nCUDA: {}\n\n",
             ACCRUE_VERSION, compiled_isa(), ACCRUE_GEMM, thread_count(), cuda::describe_device());
  const auto model = make_model(options.model);
  const Parameters parameters = place(*model, DType::f32, Device::meta, options.seed);
  fmt::print("{}: {} parameters, {:.2f} MFLOP a training sample\n{}\n", name(options.model.kind),
             parameters.count(), training_flops_per_sample(options.model) / 1e6, model->describe());
  for (const auto& entry : parameters.entries())
    fmt::print("  {:<24} {}\n", entry.name, entry.tensor.shape());
  for (const auto& buffer : parameters.buffer_entries())
    fmt::print("  {:<24} {} (buffer)\n", buffer.name, buffer.tensor.shape());
  fmt::print("\nlearning rate: {}\n", Schedule(options.schedule).describe());
  const int64_t effective = options.effective_batch.value_or(default_effective_batch);
  for (const std::string& line : describe_averages(options, effective)) fmt::print("{}\n", line);
}

}  // namespace accrue::app
