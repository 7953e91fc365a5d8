#pragma once

#include <map>
#include <string>
#include <vector>

#include "train/objective.h"

namespace accrue {

// The cost of masks: bce (bce_with_logits(), kernels/losses.h) where each plane of logits says if
// something is there, cross_entropy (kernels/pixel_cross_entropy.h) where each pixel has one class;
// dice (dice_loss(), kernels/dice_loss.h) of both.
enum class MaskLoss { bce, cross_entropy, dice };
const std::map<std::string, MaskLoss>& mask_loss_names();

struct SegmentationOptions {
  std::vector<MaskLoss> losses{};       // their sum; without, the one that fits the masks
  std::vector<double> class_weights{};  // of cross_entropy and dice: one for each class, or none
};

// Masks [N, K, H, W], a plane for each of K classes that a pixel can have or not, or classes
// [N, 1, H, W], of which each pixel has one. The score is the loss, and Dice and IoU of each class
// (kernels/mask_score.h) over all pixels of all images, 1 where there is neither answer nor mask,
// and of several classes their means.
// Throws Error for losses that do not fit the masks, and for weights with bce or of another number
// than the classes.
ObjectivePtr segmentation(const Field& masks, SegmentationOptions options = {});
// Of one plane.
ObjectivePtr segmentation();

}  // namespace accrue
