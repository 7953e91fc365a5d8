#include "kernels/cross_entropy.h"

#include <cmath>

#include "core/ceil_div.h"
#include "kernels/detail/cross_entropy_kernels.h"
#include "kernels/detail/loss_seed.h"

namespace accrue {
namespace cpu {

template <class T>
RowSoftmax<Wide<T>> row_softmax(const T* x, int64_t C, int32_t label) {
  using Softmax = RowSoftmax<Wide<T>>;
  const Wide<T> maximum = *std::max_element(x, x + C);
  Wide<T> rest = 0;
  for (int64_t c = 0; c < C; ++c) rest += Softmax::term(x[c], maximum, c == label);
  return {maximum, rest};
}

void check_range(std::string_view op, View labels, int64_t C) {
  const int32_t* label = labels.as<int32_t>();
  for (int64_t n = 0; n < labels.numel(); ++n)
    check(0 <= label[n] && label[n] < C, "[{}] label {} of sample {} is outside [0, {})", op,
          label[n], n, C);
}

void cross_entropy(View loss, View block_sums, View x, View labels) {
  const int64_t N = x.shape[0], C = x.shape[1], rows = rows_per_block(C);
  check_range("cross_entropy", labels, C);
  dispatch_floating(x.dtype, [&]<class T>() {
    const int32_t* label = labels.as<int32_t>();
    double* sums = block_sums.as<double>();
    parallel_each(block_sums.numel(), rows * C, [&](int64_t b) {
      sums[b] = 0;
      for (int64_t n = b * rows; n < std::min(N, (b + 1) * rows); ++n) {
        const T* row = x.as<T>() + n * C;
        sums[b] += static_cast<double>(row_softmax(row, C, label[n]).loss(row[label[n]]));
      }
    });
    double sum = 0;
    for (int64_t b = 0; b < block_sums.numel(); ++b) sum += sums[b];
    *loss.as<Wide<T>>() = static_cast<Wide<T>>(sum / static_cast<double>(N));
  });
}

// dx may be x.
void cross_entropy_backward(GradTarget dx, const LossSeed& from, View x, View labels) {
  dispatch_floating(x.dtype, [&]<class T>() {
    const int64_t N = x.shape[0], C = x.shape[1];
    const int32_t* label = labels.as<int32_t>();
    const Seed<Wide<T>> seed(from);
    seed.add_loss();
    const Wide<T> scale = seed.dloss() / static_cast<Wide<T>>(N);
    with_beta(dx.beta, [&](auto accumulate) {
      for (int64_t n = 0; n < N; ++n) {
        const T* row = x.as<T>() + n * C;
        T* out = dx.grad.as<T>() + n * C;
        const auto softmax = row_softmax(row, C, label[n]);
        for (int64_t c = 0; c < C; ++c)
          store(out[c], scale * (softmax.probability(row[c]) - Wide<T>(c == label[n])), accumulate);
      }
    });
  });
}

void add_score(View score, View x, View labels) {
  const int64_t N = x.shape[0], C = x.shape[1];
  check_range("add_score", labels, C);
  dispatch_floating(x.dtype, [&]<class T>() {
    double* sums = score.as<double>();
    for (int64_t n = 0; n < N; ++n) {
      const T* row = x.as<T>() + n * C;
      const int32_t label = labels.as<int32_t>()[n];
      bool right = true;
      for (int64_t c = 0; c < C; ++c)
        right = right && !outdoes<Wide<T>>(row[c], row[label], c, label);
      sums[0] += static_cast<double>(row_softmax(row, C, label).loss(row[label]));
      sums[1] += right;
    }
  });
}

}  // namespace cpu

namespace cuda {
decltype(cpu::cross_entropy) cross_entropy;
decltype(cpu::cross_entropy_backward) cross_entropy_backward;
decltype(cpu::add_score) add_score;
}  // namespace cuda

void detail::check_labels(std::string_view op, const Tensor& x, const Tensor& labels) {
  check_same(op, {&x});
  check(x.shape().rank() == 2 && x.size(0) > 0 && x.size(1) > 0 &&
            labels.shape() == Shape{x.size(0)} && labels.dtype() == DType::i32 &&
            labels.device() == x.device(),
        "[{}] x {} {} and labels {} {} on {}: expected x [N, C] and i32 labels [N] on {}, N and C "
        "above 0",
        op, name(x.dtype()), x.shape(), name(labels.dtype()), labels.shape(), name(labels.device()),
        name(x.device()));
}

Tensor cross_entropy(const Tensor& x, const Tensor& labels) {
  check_labels("cross_entropy", x, labels);
  Tensor loss = Tensor::empty({}, wide(x.dtype()), x.device());
  {
    const int64_t rows = rows_per_block(x.size(1));
    const Tensor block_sums =
        Tensor::empty({ceil_div(x.size(0), rows)}, DType::f64, x.device(), Category::workspace);
    launch<cpu::cross_entropy, cuda::cross_entropy>(x.device(), loss.view(), block_sums.view(),
                                                    x.view(), labels.view());
  }
  const Edge edge = x;
  record_loss("cross_entropy", loss, {edge},
              [=, x = x.saved(), labels = labels.saved()](const LossSeed& seed) mutable {
                Tensor over = std::move(x);
                if (auto dx = claim_grad_over_value(edge, over))
                  launch<cpu::cross_entropy_backward, cuda::cross_entropy_backward>(
                      over.device(), *dx, seed, over.view(), labels.view());
              });
  return loss;
}

void detail::add_score(const Tensor& score, const Tensor& x, const Tensor& labels) {
  check_labels("add_score", x, labels);
  check(score.defined() && score.shape() == Shape{2} && score.dtype() == DType::f64 &&
            score.device() == x.device(),
        "[add_score] expected score f64 [2] on {}, where x is", name(x.device()));
  launch<cpu::add_score, cuda::add_score>(x.device(), score.view(), x.view(), labels.view());
}

}  // namespace accrue
