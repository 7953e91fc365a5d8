#pragma once

#include <map>
#include <string>
#include <vector>

#include "train/objective.h"

namespace accrue {

// The losses of masks: bce (bce_with_logits(), kernels/losses.h) if each plane of logits says
// whether something is there, cross_entropy (kernels/pixel_cross_entropy.h) if each pixel has one
// class, and dice (dice_loss(), kernels/dice_loss.h) for both kinds.
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

// Makes `value` the value of pixels that nobody has judged (Field::unjudged_value), in masks of
// classes that have no such value yet. The other classes keep their numbers. Throws Error for masks
// of planes.
void ignore_value(Field& masks, uint8_t value);

}  // namespace detail

// For masks [N, K, H, W], with a plane for each of K classes that a pixel may have or not, or for
// classes [N, 1, H, W]. A pixel of classes has one class, or none if nobody has judged it
// (Field::unjudged_value). Such a pixel counts nowhere: the losses are means over the others.
// The score has the loss, and Dice and IoU (kernels/mask_score.h) over all pixels of all images.
// With several classes it has both for each class and their means over the classes. Dice and IoU of
// a class are NaN if it occurs neither in the answers nor in the masks; the means leave such
// classes out.
// Throws Error for losses that do not fit the masks, for class weights with bce, and unless there
// are no class weights or one for each class.
ObjectivePtr segmentation(const Field& masks, SegmentationOptions options = {});
// For masks of one plane.
ObjectivePtr segmentation();

}  // namespace accrue
