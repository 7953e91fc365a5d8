#include "train/score.h"

#include "data/loader.h"
#include "kernels/cross_entropy.h"
#include "kernels/losses.h"
#include "kernels/mask_score.h"

namespace accrue {

Tensor loss_of(const Tensor& logits, const Samples& samples) {
  return samples.masks.defined() ? bce_with_logits(logits, samples.masks)
                                 : cross_entropy(logits, samples.labels);
}

std::string Score::describe() const {
  const std::string what =
      of_masks ? fmt::format("Dice {:.4f}, IoU {:.4f}", dice, iou)
               : fmt::format("accuracy {:.2f} % ({} of {})", accuracy(), correct, samples);
  return fmt::format("{}, loss {:.4f}", what, loss);
}

namespace {

Score score_of_labels(std::span<const double> sums, const Dataset& data) {
  return {.loss = sums[0] / double(data.size()),
          .samples = data.size(),
          .correct = static_cast<int64_t>(sums[1])};
}

Score score_of_masks(std::span<const double> sums, const Dataset& data) {
  const double both = sums[1], found_and_wanted = sums[2] + sums[3];
  const bool nothing = found_and_wanted == 0;
  return {.loss = sums[0] / double(data.masks.numel()),
          .samples = data.size(),
          .of_masks = true,
          .dice = nothing ? 1 : 2 * both / found_and_wanted,
          .iou = nothing ? 1 : both / (found_and_wanted - both)};
}

}  // namespace

Score evaluate(const Module& model, const Dataset& data, int64_t micro_batch, DType dtype,
               Device device) {
  const NoGrad no_grad;
  const MemoryScope scope(Phase::evaluate, "evaluation");
  const bool masks = data.masks.defined();
  const int64_t size = std::min(micro_batch, data.size());
  Loader loader(data, {.effective_batch_size = size,
                       .micro_batch_size = size,
                       .shuffle = Shuffle::off,
                       .device = device,
                       .dtype = dtype,
                       .prefetch = Prefetch::off});
  const Tensor sums = Tensor::full({masks ? 4 : 2}, 0, DType::f64, device, Category::workspace);
  loader.start_epoch(0);
  while (const MicroBatch* part = loader.next()) {
    const Tensor logits = model(part->images, Pass::eval());
    if (masks) add_mask_score(sums, logits, part->masks);
    else add_score(sums, logits, part->labels);
  }
  const Tensor result = sums.to(Device::cpu, Category::workspace);
  return masks ? score_of_masks(result.span<double>(), data)
               : score_of_labels(result.span<double>(), data);
}

}  // namespace accrue
