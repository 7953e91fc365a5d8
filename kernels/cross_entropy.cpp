#include "kernels/cross_entropy.h"

#include <cmath>

#include "kernels/backend.h"

namespace accrue {
namespace cpu {

template <class T>
struct RowSoftmax {
  T maximum;
  T sum;  // of exp(x - maximum)
};

template <class T>
RowSoftmax<T> row_softmax(const T* x, int64_t C) {
  const T maximum = *std::max_element(x, x + C);
  T sum = 0;
  for (int64_t c = 0; c < C; ++c) sum += std::exp(x[c] - maximum);
  return {maximum, sum};
}

void cross_entropy(View loss, View x, View labels) {
  dispatch_floating(x.dtype, [&]<class T>() {
    const int64_t N = x.shape[0], C = x.shape[1];
    const int32_t* label = labels.as<int32_t>();
    double sum = 0;
    for (int64_t n = 0; n < N; ++n) {
      const T* row = x.as<T>() + n * C;
      check(0 <= label[n] && label[n] < C,
            "[cross_entropy] label {} of sample {} is outside [0, {})", label[n], n, C);
      const auto [maximum, exp_sum] = row_softmax(row, C);
      sum += std::log(exp_sum) + maximum - row[label[n]];
    }
    *loss.as<T>() = static_cast<T>(sum / static_cast<double>(N));
  });
}

// dx may be x.
void cross_entropy_backward(GradTarget dx, View dloss, View x, View labels) {
  dispatch_floating(x.dtype, [&]<class T>() {
    const int64_t N = x.shape[0], C = x.shape[1];
    const int32_t* label = labels.as<int32_t>();
    const T scale = *dloss.as<T>() / static_cast<T>(N);
    with_beta(dx.beta, [&](auto accumulate) {
      for (int64_t n = 0; n < N; ++n) {
        const T* row = x.as<T>() + n * C;
        T* out = dx.grad.as<T>() + n * C;
        const auto [maximum, exp_sum] = row_softmax(row, C);
        for (int64_t c = 0; c < C; ++c) {
          const T p = std::exp(row[c] - maximum) / exp_sum;
          store(out[c], scale * (p - T(c == label[n])), accumulate);
        }
      }
    });
  });
}

}  // namespace cpu

// In the .cu beside this file.
namespace cuda {
decltype(cpu::cross_entropy) cross_entropy;
decltype(cpu::cross_entropy_backward) cross_entropy_backward;
}  // namespace cuda

namespace {

void check_labels(std::string_view op, const Tensor& x, const Tensor& labels) {
  check_same(op, {&x});
  check(x.shape().rank() == 2 && x.size(0) > 0 && x.size(1) > 0 &&
            labels.shape() == Shape{x.size(0)} && labels.dtype() == DType::i32,
        "[{}] x {} {} and labels {} {}: expected x [N, C] and i32 labels [N], N and C above 0", op,
        name(x.dtype()), x.shape(), name(labels.dtype()), labels.shape());
}

}  // namespace

Tensor cross_entropy(const Tensor& x, const Tensor& labels) {
  check_labels("cross_entropy", x, labels);
  Tensor loss = Tensor::empty({}, x.dtype(), x.device());
  launch<cpu::cross_entropy, cuda::cross_entropy>(x.device(), loss.view(), x.view(), labels.view());
  const Edge edge = x;
  record("cross_entropy", loss, {edge}, [=, x = x.detach()](Tensor& dloss) mutable {
    // x is this closure's alone once the forward's tensors are gone: dx may then take its place.
    Tensor over = x;
    x.reset();
    if (auto dx = over.sole_owner() ? claim_grad_over(edge, over) : claim_grad(edge))
      launch<cpu::cross_entropy_backward, cuda::cross_entropy_backward>(
          dloss.device(), *dx, dloss.view(), over.view(), labels.view());
  });
  return loss;
}

int64_t count_correct(const Tensor& x, const Tensor& labels) {
  check_labels("count_correct", x, labels);
  int64_t correct = 0;
  dispatch_floating(x.dtype(), [&]<class T>() {
    const auto values = x.span<T>();
    const auto label = labels.span<int32_t>();
    const size_t C = static_cast<size_t>(x.size(1));
    for (size_t n = 0; n < label.size(); ++n) {
      const auto row = values.subspan(n * C, C);
      correct += std::ranges::max_element(row) - row.begin() == label[n];
    }
  });
  return correct;
}

}  // namespace accrue
