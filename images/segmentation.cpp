#include "images/segmentation.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "kernels/arithmetic.h"
#include "kernels/dice_loss.h"
#include "kernels/judged.h"
#include "kernels/losses.h"
#include "kernels/mask_score.h"
#include "kernels/pixel_cross_entropy.h"

namespace accrue {

void detail::ignore_value(Field& masks, uint8_t value) {
  if (masks.unjudged_value) return;
  check(masks.encoding == Encoding::index,
        "{} as the value that is not judged: the masks are of foreground and background: expected "
        "masks of classes, or no such value",
        value);
  const Tensor judged =
      Tensor::empty(masks.values.shape(), DType::i32, Device::cpu, Category::data);
  judged.copy_from(masks.values);
  const auto classes = judged.span<int32_t>();
  std::ranges::replace(classes, int32_t{value}, not_judged);
  masks.values = judged;
  masks.classes = classes.empty() ? 0 : int64_t{*std::ranges::max_element(classes)} + 1;
  masks.unjudged_value = value;
}

namespace {

// The mean of quotients. It leaves out 0 / 0, which is NaN, and is NaN if nothing is left.
class Mean {
 public:
  double add(double numerator, double denominator) {
    if (denominator == 0) return std::nan("");
    ++count_;
    sum_ += numerator / denominator;
    return numerator / denominator;
  }
  double value() const { return count_ == 0 ? std::nan("") : sum_ / double(count_); }

 private:
  double sum_ = 0;
  int64_t count_ = 0;
};

std::string in_words(double score) {
  return std::isnan(score) ? "-" : fmt::format("{:.4f}", score);
}

class Segmentation : public Objective {
 public:
  Segmentation(const Field& masks, SegmentationOptions options)
      : field_(masks.name),
        K_(masks.class_count()),
        unjudged_(masks.unjudged_value),
        may_be_unjudged_(masks.unjudged_value || masks.has_not_judged),
        options_(std::move(options)) {
    for (int64_t k = 0; k < K_; ++k) names_.push_back(masks.class_name(k));
  }

  std::string name() const override {
    std::string text = "segmentation";
    if (options_.losses.size() > 1 || options_.losses.front() == MaskLoss::dice)
      for (const MaskLoss loss : options_.losses) text += ", " + name_of(loss);
    if (!options_.class_weights.empty())
      text += fmt::format(", weights {}", fmt::join(options_.class_weights, " "));
    if (unjudged_) text += fmt::format(", {} not judged", *unjudged_);
    return text;
  }
  std::vector<std::string> targets() const override { return {field_}; }

  Tensor loss(const Tensor& logits, const Samples& samples) const override {
    Tensor sum;
    const Tensor &masks = samples[field_], judged = weight(samples);
    for (const MaskLoss kind : options_.losses) {
      const Tensor loss = kind == MaskLoss::bce ? bce_with_logits(logits, masks)
                          : kind == MaskLoss::dice
                              ? dice_loss(logits, masks, options_.class_weights, judged)
                              : pixel_cross_entropy(logits, masks, options_.class_weights, judged);
      sum = sum.defined() ? add(sum, loss) : loss;
    }
    return sum;
  }

  Tensor weight(const Samples& samples) const override {
    return may_be_unjudged_ ? judged_weight(samples[field_]) : Tensor();
  }
  Terms terms_in(const Dataset& data) const override {
    if (!may_be_unjudged_) return {};
    return {"judged pixels", double(data.field(field_).shape_of(1).numel())};
  }

  // The loss, then the sums of add_mask_score().
  int64_t sums() const override { return 1 + 3 * K_; }
  void add_score(const Tensor& sums, const Tensor& logits, const Samples& samples) const override {
    add_mask_score(sums.slice(1, this->sums()), logits, samples[field_]);
    const Tensor mean = loss(logits, samples), total = sums.slice(0, 1);
    if (may_be_unjudged_) add_weighted(total.view(), mean.view(), weight(samples).view());
    else add_mean(total, mean, samples.size());
  }

  Score score(std::span<const double> sums, const Dataset& data) const override {
    const double weight = weight_of(sums, data);
    Score score{.loss = sums[0] / weight, .samples = data.size()};
    if (weight == 0) {
      score.loss = std::nan("");
      score.metrics = {{"dice", std::nan("")}, {"iou", std::nan("")}};
      score.text = "no pixel is judged";
      return score;
    }
    Mean dice, iou;
    std::vector<std::string> of_classes;
    std::vector<Score::Metric> more;
    for (int64_t k = 0; k < K_; ++k) {
      const double* const of_class = &sums[static_cast<size_t>(1 + 3 * k)];
      const double both = of_class[0], found_and_wanted = of_class[1] + of_class[2];
      // 0 / 0 if the class is in no mask and in no answer.
      const double own_dice = dice.add(2 * both, found_and_wanted),
                   own_iou = iou.add(both, found_and_wanted - both);
      const std::string& name = names_[static_cast<size_t>(k)];
      of_classes.push_back(name + " " + in_words(own_dice));
      more.push_back({"dice." + name, own_dice});
      more.push_back({"iou." + name, own_iou});
    }
    score.metrics = {{"dice", dice.value()}, {"iou", iou.value()}};
    score.text = "Dice " + in_words(dice.value());
    if (K_ > 1) {
      score.metrics.insert(score.metrics.end(), more.begin(), more.end());
      score.text += fmt::format(" ({})", fmt::join(of_classes, ", "));
    }
    score.text += ", IoU " + in_words(iou.value());
    return score;
  }

 private:
  // The weight of all samples. The masks have each judged pixel in one class.
  double weight_of(std::span<const double> sums, const Dataset& data) const {
    if (!may_be_unjudged_) return double(data.size());
    double judged = 0;
    for (int64_t k = 0; k < K_; ++k) judged += sums[static_cast<size_t>(3 + 3 * k)];
    const Shape& masks = data[field_].shape();
    return judged / double(masks[2] * masks[3]);
  }
  static std::string name_of(MaskLoss loss) {
    for (const auto& [name, value] : mask_loss_names())
      if (value == loss) return name;
    return "?";
  }

  const std::string field_;
  const int64_t K_;
  const std::optional<uint8_t> unjudged_;  // in files
  const bool may_be_unjudged_;
  std::vector<std::string> names_;
  const SegmentationOptions options_;
};

}  // namespace

const std::map<std::string, MaskLoss>& detail::mask_loss_names() {
  static const std::map<std::string, MaskLoss> names{
      {"bce", MaskLoss::bce}, {"cross-entropy", MaskLoss::cross_entropy}, {"dice", MaskLoss::dice}};
  return names;
}

ObjectivePtr segmentation(const Field& masks, SegmentationOptions options) {
  const bool planes = masks.encoding == Encoding::mask;
  if (options.losses.empty()) options.losses = {planes ? MaskLoss::bce : MaskLoss::cross_entropy};
  const auto has = [&](MaskLoss loss) { return std::ranges::count(options.losses, loss) > 0; };
  check(planes || !has(MaskLoss::bce),
        "the loss bce is for masks of foreground and background, but each pixel has one of {} "
        "classes: expected cross-entropy, dice, or both",
        masks.classes);
  check(!planes || !has(MaskLoss::cross_entropy),
        "the loss cross-entropy is for pixels that have one of several classes each, but the data "
        "set has masks of foreground and background: expected bce, dice, or both");
  const auto& weights = options.class_weights;
  check(weights.empty() || !has(MaskLoss::bce),
        "there are {} class weights, which the loss bce does not take: expected none, or dice",
        weights.size());
  check(weights.empty() || std::ssize(weights) == masks.class_count(),
        "there are {} class weights for {} classes: expected one for each", weights.size(),
        masks.class_count());
  return std::make_shared<Segmentation>(masks, std::move(options));
}

ObjectivePtr segmentation() {
  return segmentation({.name = "masks",
                       .values = Tensor::empty({1, 1, 1, 1}, DType::u8, Device::meta),
                       .encoding = Encoding::mask});
}

}  // namespace accrue
