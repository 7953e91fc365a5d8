#pragma once

#include <map>
#include <string>
#include <vector>

#include "train/objective.h"

namespace accrue {

// The cost of masks: bce (bce_with_logits(), kernels/losses.h) if each plane of logits says whether
// something is there, cross_entropy (kernels/pixel_cross_entropy.h) if each pixel has one class,
// dice (dice_loss(), kernels/dice_loss.h) for both.
enum class MaskLoss { bce, cross_entropy, dice };
namespace detail {
const std::map<std::string, MaskLoss>& mask_loss_names();
}  // namespace detail

// The losses of masks, and the weights of classes.
struct SegmentationOptions {
  std::vector<MaskLoss> losses{};       // summed; if none, bce or cross_entropy, as fits the masks
  std::vector<double> class_weights{};  // of cross_entropy and dice: one for each class, or none
};

namespace detail {

// Makes `value` that of pixels that nobody has judged (Field::unjudged_value) in masks of classes
// that have no such value yet; the others keep their numbers. Throws Error for masks of planes.
void ignore_value(Field& masks, uint8_t value);

}  // namespace detail

// For masks [N, K, H, W], a plane for each of K classes that a pixel can have or not, or classes
// [N, 1, H, W], of which each pixel has one, or none where nobody has judged it
// (Field::unjudged_value). Such a pixel counts nowhere: the losses are means over the others. The
// score is the loss, and Dice and IoU of each class
// (kernels/mask_score.h) over all pixels of all images, 1 if there is neither answer nor mask, and
// with several classes also their means.
// Throws Error for losses that do not fit the masks, and for weights with bce or of another number
// than the classes.
ObjectivePtr segmentation(const Field& masks, SegmentationOptions options = {});
// For masks of one plane.
ObjectivePtr segmentation();

}  // namespace accrue
