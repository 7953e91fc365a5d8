#include "apps/commands/convolutions.h"

#include <chrono>

#include "apps/cli/messages.h"
#include "core/cuda.h"
#include "core/limit_scope.h"
#include "train/memory_prediction.h"

namespace accrue::app {
namespace {

// Makes the samples of a micro-batch on the meta device, for prediction only.
Dataset planned_samples(const DomainModel& model, const SampleSpec& sample, int64_t N) {
  const Shape& seen = sample.input().shape;
  const auto shape_of = [&](Encoding encoding) -> Shape {
    if (encoding == Encoding::pixel) return {N, seen[0], seen[1], seen[2]};
    return encoding == Encoding::mask ? Shape{N, sample.classes(), seen[1], seen[2]} : Shape{N};
  };
  Dataset data{"planned", "shapes"};
  for (const SampleSpec::Field& field : model.sample.fields)
    data.fields.push_back({field.name,
                           Tensor::empty(shape_of(field.encoding), stored_dtype(field.encoding),
                                         Device::meta_cuda, Category::data),
                           field.encoding,
                           field.encoding == Encoding::index ? sample.classes() : 0});
  return data;
}

// A training fails if cuDNN cannot compute a convolution; this list must still show the others.
ConvolutionChoice choice_or_none(const Convolution& convolution) {
  try {
    return choice_of(convolution);
  } catch (const Error&) {
    return {.algorithm = "none", .math = {}};
  }
}

}  // namespace

std::vector<ChosenConvolution> chosen_convolutions(const Request& options, const SampleSpec& sample,
                                                   double seconds_to_time) {
  using Clock = std::chrono::steady_clock;
  check(options.micro_batch != auto_micro_batch,
        "--micro-batch auto: info runs nothing; expected a number");
  cuda::require_device();
  cuda::allow_tf32(options.precision == Precision::tf32);
  Request alone = options;
  alone.accum = 1;
  alone.effective_batch.reset();
  alone.noise_scale = false;
  const Dataset data =
      planned_samples(options.domains.model(options.model_name), sample, options.micro_batch);
  const ConvolutionTrace trace;
  peak_of_windows(alone.training(data), data, Device::meta_cuda);
  std::vector<ChosenConvolution> result;
  for (const auto& [convolution, count] : std::vector(trace.entries()))
    result.push_back({convolution, count, choice_or_none(convolution)});
  const auto start = Clock::now();
  for (ChosenConvolution& each : result) {
    if (std::chrono::duration<double>(Clock::now() - start).count() >= seconds_to_time) break;
    if (each.choice.parts == 0) continue;
    each.seconds = seconds_of(each.convolution);
    each.choice = choice_or_none(each.convolution);
  }
  return result;
}

void print(const std::vector<ChosenConvolution>& convolutions) {
  say("\n{:<15} {:>3} {:<34} {:<22} {:<15} {:>10} {:>10} {:>5} {:>8}\n", "convolution", "",
      "image and weights", "algorithm", "math", "workspace", "of scratch", "parts", "ms");
  for (const auto& [c, count, choice, seconds] : convolutions) {
    const ConvGeometry& g = c.geometry;
    say("{:<15} {:>3} {:<34} {:<22} {:<15} {:>10} {:>10} {:>5} {:>8}\n", name(c.product),
        fmt::format("{}x", count),
        fmt::format("{}x{}x{}x{} {}x{}x{}x{} /{}", c.N, g.C, g.H, g.W, g.O, g.group_channels(),
                    g.KH, g.KW, g.stride),
        choice.algorithm, choice.math, format_bytes(choice.workspace_bytes),
        format_bytes(choice.scratch_bytes),
        fmt::format("{}{}", choice.parts, choice.padded ? " padded" : ""),
        seconds ? fmt::format("{:.3f}", *seconds * 1e3) : "");
  }
}

}  // namespace accrue::app
