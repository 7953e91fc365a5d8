#include "kernels/weighted_cross_entropy.h"

#include <algorithm>
#include <numeric>

#include "core/ceil_div.h"
#include "kernels/cross_entropy.h"
#include "kernels/detail/class_terms.h"
#include "kernels/detail/constants.h"
#include "kernels/detail/cross_entropy_kernels.h"
#include "kernels/detail/elements_per_block.h"
#include "kernels/detail/loss_seed.h"

namespace accrue {
namespace cpu {
namespace {

template <class T>
RowSoftmax<Wide<T>> softmax_of(const T* x, int64_t C, int32_t label) {
  const Wide<T> maximum = *std::max_element(x, x + C);
  Wide<T> rest = 0;
  for (int64_t c = 0; c < C; ++c) rest += RowSoftmax<Wide<T>>::term(x[c], maximum, c == label);
  return {maximum, rest};
}

void check_judged_labels(std::string_view op, View labels, int64_t C) {
  const int32_t* label = labels.as<const int32_t>();
  for (int64_t n = 0; n < labels.numel(); ++n)
    check((0 <= label[n] && label[n] < C) || label[n] == not_judged,
          "[{}] label {} of sample {} is outside [0, {})", op, label[n], n, C);
}

// sum_c q[n, c] * -log p[n, c] / s[n]
template <class T, class W = Wide<T>>
double row_loss(const ClassTerms& terms, const T* row, int64_t C, int32_t label) {
  const RowSoftmax<W> softmax = softmax_of(row, C, label);
  double sum = terms.of_label(label) * double(softmax.loss(row[label]));
  if (!terms.smooths()) return sum;
  sum += terms.of_all_classes() * double(std::log1p(softmax.rest));
  for (int64_t c = 0; c < C; ++c)
    sum += terms.of_class(c) * double(softmax.maximum - widen(row[c]));
  return sum;
}

}  // namespace

void sum_of_weights(View weight, View block_sums, View labels, View class_weights,
                    View sample_weights, int64_t C) {
  check_judged_labels("cross_entropy", labels, C);
  check_each_sample_weight("cross_entropy", sample_weights);
  const int32_t* label = labels.as<const int32_t>();
  const ClassTerms terms(class_weights, 0, 0, C);
  const SampleWeights s(sample_weights);
  double* sums = block_sums.as<double>();
  parallel_each(block_sums.numel(), elements_per_block, [&](int64_t b) {
    sums[b] = 0;
    const int64_t begin = b * elements_per_block,
                  end = std::min(labels.numel(), begin + elements_per_block);
    for (int64_t n = begin; n < end; ++n)
      if (label[n] != not_judged) sums[b] += s[n] * terms.weight(label[n]);
  });
  *weight.as<double>() = std::accumulate(sums, sums + block_sums.numel(), 0.0);
}

void weighted_cross_entropy(View loss, View block_sums, View x, View labels, View sample_weights,
                            View weight, const ClassTerms& terms) {
  const int64_t N = x.shape[0], C = x.shape[1], rows = rows_per_block(C);
  const int32_t* label = labels.as<const int32_t>();
  const SampleWeights s(sample_weights);
  dispatch_floating(x.dtype, [&]<class T>() {
    double* sums = block_sums.as<double>();
    parallel_each(block_sums.numel(), rows * C, [&](int64_t b) {
      sums[b] = 0;
      for (int64_t n = b * rows; n < std::min(N, (b + 1) * rows); ++n)
        if (label[n] != not_judged && s[n] > 0)
          sums[b] += s[n] * row_loss(terms, x.as<const T>() + n * C, C, label[n]);
    });
    const double sum = std::accumulate(sums, sums + block_sums.numel(), 0.0);
    *loss.as<Wide<T>>() = static_cast<Wide<T>>(mean_over(sum, *weight.as<const double>()));
  });
}

// dx may be x.
void weighted_cross_entropy_backward(GradTarget dx, const LossSeed& from, View x, View labels,
                                     View sample_weights, View weight, const ClassTerms& terms) {
  const int64_t N = x.shape[0], C = x.shape[1];
  const int32_t* label = labels.as<const int32_t>();
  const SampleWeights s(sample_weights);
  dispatch_floating(x.dtype, [&]<class T>() {
    using W = Wide<T>;
    const Seed<W> seed(from);
    seed.add_loss();
    const double scale = mean_over(double(seed.dloss()), *weight.as<const double>());
    with_beta(dx.beta, [&](auto accumulate) {
      parallel_for(N, C, [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n) {
          const T* row = x.as<const T>() + n * C;
          T* out = dx.grad.as<T>() + n * C;
          if (label[n] == not_judged || s[n] == 0) {
            for (int64_t c = 0; c < C; ++c) store(out[c], W(0), accumulate);
            continue;
          }
          const auto softmax = softmax_of(row, C, label[n]);
          const double factor = scale * s[n];
          const auto of_row = W(factor * terms.of_row(label[n])),
                     of_label = W(factor * terms.of_label(label[n]));
          for (int64_t c = 0; c < C; ++c) {
            const W q = W(factor * terms.of_class(c)) + (c == label[n] ? of_label : W(0));
            store(out[c], of_row * softmax.probability(row[c]) - q, accumulate);
          }
        }
      });
    });
  });
}

void add_class_score(View score, View is_right, View x, View labels) {
  const int64_t N = x.shape[0], C = x.shape[1];
  check_judged_labels("add_class_score", labels, C);
  const int32_t* label = labels.as<const int32_t>();
  int32_t* right = is_right.as<int32_t>();
  dispatch_floating(x.dtype, [&]<class T>() {
    parallel_for(N, C, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        right[n] = label[n] != not_judged;
        const T* row = x.as<const T>() + n * C;
        for (int64_t c = 0; c < C && right[n]; ++c)
          right[n] = !outdoes<Wide<T>>(row[c], row[label[n]], c, label[n]);
      }
    });
  });
  double* sums = score.as<double>();
  for (int64_t n = 0; n < N; ++n) {
    if (label[n] == not_judged) continue;
    sums[2 * label[n]] += right[n];
    sums[2 * label[n] + 1] += 1;
  }
}

}  // namespace cpu

namespace cuda {
decltype(cpu::sum_of_weights) sum_of_weights;
decltype(cpu::weighted_cross_entropy) weighted_cross_entropy;
decltype(cpu::weighted_cross_entropy_backward) weighted_cross_entropy_backward;
decltype(cpu::add_class_score) add_class_score;
}  // namespace cuda

namespace {

void check_options(const CrossEntropyOptions& options, int64_t C) {
  const auto& w = options.class_weights;
  check(w.empty() || std::ssize(w) == C,
        "[cross_entropy] {} class weights for {} classes: expected one for each", w.size(), C);
  for (size_t c = 0; c < w.size(); ++c)
    check(w[c] >= 0 && w[c] <= 1e6,
          "[cross_entropy] the weight of class {} is {}: expected it in [0, 1e6]", c, w[c]);
  const double e = options.label_smoothing;
  check(e >= 0 && e <= 1, "[cross_entropy] label_smoothing is {}: expected it in [0, 1]", e);
  const auto zero = std::ranges::find(w, 0.0);
  check(e == 0 || zero == w.end(),
        "[cross_entropy] the weight of class {} is 0, but label_smoothing is {}: expected weights "
        "above 0 beside it, or its samples would have a loss without a weight",
        zero - w.begin(), e);
}

// The weights of the classes on a device; undefined if they are 1.
Tensor class_weights_on(Device device, const CrossEntropyOptions& options) {
  return options.class_weights.empty() ? Tensor() : constants_on(device, options.class_weights);
}

double sum_of(const CrossEntropyOptions& options, int64_t C) {
  const auto& w = options.class_weights;
  return w.empty() ? double(C) : std::accumulate(w.begin(), w.end(), 0.0);
}

Tensor weight_with(const Tensor& labels, int64_t C, const Tensor& w, const Tensor& s) {
  Tensor weight = Tensor::empty({}, DType::f64, labels.device());
  const Tensor block_sums = Tensor::empty({ceil_div(labels.numel(), elements_per_block)},
                                          DType::f64, labels.device(), Category::workspace);
  launch<cpu::sum_of_weights, cuda::sum_of_weights>(
      labels.device(), weight.view(), block_sums.view(), labels.view(), view_of(w), view_of(s), C);
  return weight;
}

}  // namespace

Tensor cross_entropy_weight(const Tensor& labels, int64_t C, const CrossEntropyOptions& options,
                            const Tensor& sample_weights) {
  check(labels.dtype() == DType::i32 && labels.shape().rank() == 1 && labels.numel() > 0 && C > 0,
        "[cross_entropy_weight] labels {} {} of {} classes: expected i32 [N], and N and C above 0",
        name(labels.dtype()), labels.shape(), C);
  check_options(options, C);
  check_sample_weights("cross_entropy_weight", sample_weights, labels.numel(), labels.device());
  return weight_with(labels, C, class_weights_on(labels.device(), options), sample_weights);
}

Tensor cross_entropy(const Tensor& x, const Tensor& labels, const CrossEntropyOptions& options,
                     const Tensor& sample_weights) {
  const Tensor& s = sample_weights;
  check_labels("cross_entropy", x, labels);
  const int64_t N = x.size(0), C = x.size(1);
  check_options(options, C);
  check_sample_weights("cross_entropy", s, N, x.device());
  const Tensor w = class_weights_on(x.device(), options);
  const Tensor weight = weight_with(labels, C, w, s);
  const ClassTerms terms(view_of(w), options.label_smoothing, sum_of(options, C), C);
  Tensor loss = Tensor::empty({}, wide(x.dtype()), x.device());
  {
    const Tensor block_sums = Tensor::empty({ceil_div(N, rows_per_block(C))}, DType::f64,
                                            x.device(), Category::workspace);
    launch<cpu::weighted_cross_entropy, cuda::weighted_cross_entropy>(
        x.device(), loss.view(), block_sums.view(), x.view(), labels.view(), view_of(s),
        weight.view(), terms);
  }
  const Edge edge = x;
  const Tensor kept_s = s.defined() ? s.saved() : s;
  record_loss(
      "cross_entropy", loss, {edge},
      [=, x = x.saved(), labels = labels.saved(), w = w,
       weight = weight](const LossSeed& seed) mutable {
        Tensor over = std::move(x);
        if (auto dx = claim_grad_over_value(edge, over))
          launch<cpu::weighted_cross_entropy_backward, cuda::weighted_cross_entropy_backward>(
              over.device(), *dx, seed, over.view(), labels.view(), view_of(kept_s), weight.view(),
              terms);
      });
  return loss;
}

void detail::add_class_score(const Tensor& score, const Tensor& x, const Tensor& labels) {
  check_labels("add_class_score", x, labels);
  check(score.defined() && score.shape() == Shape{2 * x.size(1)} && score.dtype() == DType::f64 &&
            score.device() == x.device(),
        "[add_class_score] expected score f64 [{}] on {}, where x is", 2 * x.size(1),
        name(x.device()));
  const Tensor is_right = Tensor::empty({x.size(0)}, DType::i32, x.device(), Category::workspace);
  launch<cpu::add_class_score, cuda::add_class_score>(x.device(), score.view(), is_right.view(),
                                                      x.view(), labels.view());
}

}  // namespace accrue
