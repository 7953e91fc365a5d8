#include "job/averages.h"

#include <cmath>
#include <filesystem>

namespace accrue {

std::vector<std::string> describe_averages(const TrainingOptions& o) {
  std::vector<std::string> lines;
  if (o.beta2_half_life)
    lines.push_back(
        fmt::format("beta2 {:.6g} at an effective batch of {}: a half-life of {:g} samples",
                    o.chosen_beta2(o.batches.effective), o.batches.effective, *o.beta2_half_life));
  if (o.ema)
    lines.push_back(
        fmt::format("average of the weights: step t keeps min({:g}, t / (9 + t)) of it", *o.ema));
  if (o.noise_scale)
    lines.push_back("gradient noise scale: estimated in every window of several micro-batches");
  return lines;
}

std::string describe_noise_scale(double noise_scale, double effective, std::string_view terms) {
  if (!std::isfinite(noise_scale))
    return "gradient noise scale unknown: it needs windows of several micro-batches, and more "
           "windows if gradients are noisier";
  const double ratio = noise_scale / effective;
  const std::string unit = terms == "samples" ? "" : fmt::format(" {}", terms);
  return fmt::format(
      "gradient noise scale {:.0f} {}: at an effective batch of {:.0f}{} a run takes {:.2g}x the "
      "steps of exact gradients, and {:.2g}x the {} of the smallest batches",
      noise_scale, terms, effective, unit, 1 + ratio, 1 + 1 / ratio, terms);
}

std::string average_path(const std::string& path) {
  const std::filesystem::path weights(path);
  return (weights.parent_path() / weights.stem()).string() + ".ema" + weights.extension().string();
}

}  // namespace accrue
