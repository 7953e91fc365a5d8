#pragma once

#include <string>

#include "data/samples.h"
#include "layers/module.h"

namespace accrue {

// Where the two tasks differ: cross-entropy and accuracy for labels; for masks the mean logistic
// loss of the pixels, and Dice and IoU (kernels/mask_score.h) over all pixels of all images.

// What a model's answer costs, as a mean over the samples.
Tensor loss_of(const Tensor& logits, const Samples& samples);

struct Score {
  double loss = 0;
  int64_t samples = 0;
  // Of labels:
  int64_t correct = 0;
  double accuracy() const { return 100.0 * double(correct) / double(samples); }
  // Of masks, 1 where there is neither an answer nor a mask:
  bool of_masks = false;
  double dice = 0, iou = 0;

  // "accuracy 97.25 % (1945 of 2000), loss 0.0871", or "Dice 0.9712, IoU 0.9440, loss 0.0871"
  std::string describe() const;
};

// The score of a model that computes in `dtype` on `device` over a data set, in eval mode, in
// pieces of `micro_batch`.
Score evaluate(const Module& model, const Dataset& data, int64_t micro_batch, DType dtype,
               Device device);

}  // namespace accrue
