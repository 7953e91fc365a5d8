#include "kernels/pixel_cross_entropy.h"

#include "core/ceil_div.h"
#include "kernels/detail/loss_seed.h"
#include "kernels/detail/pixel_cross_entropy_kernels.h"
#include "kernels/detail/vector_exp.h"

namespace accrue {
namespace cpu {
namespace {

// Pixels whose softmax is taken side by side, in vectors.
constexpr int64_t run = 64;

// Calls body(n, p, size) for the runs of pixels [begin, end) of N * P, of one image each.
template <class Body>
void for_each_run(int64_t begin, int64_t end, int64_t P, Body&& body) {
  for (int64_t i = begin; i < end;) {
    const int64_t n = i / P, p = i % P, size = std::min({run, P - p, end - i});
    body(n, p, size);
    i += size;
  }
}

// RowSoftmax of `size` pixels at x, whose classes are P elements apart.
template <class T>
struct RunSoftmax {
  using W = Wide<T>;
  W maximum[run], rest[run];

  RunSoftmax(const T* x, const int32_t* label, int64_t C, int64_t P, int64_t size) {
    for (int64_t i = 0; i < size; ++i) maximum[i] = x[i], rest[i] = 0;
    for (int64_t c = 1; c < C; ++c)
      for (int64_t i = 0; i < size; ++i) {
        const W value = x[c * P + i];
        maximum[i] = value > maximum[i] ? value : maximum[i];
      }
    for (int64_t c = 0; c < C; ++c)
      for (int64_t i = 0; i < size; ++i)
        rest[i] += vector_exp(W(x[c * P + i]) - maximum[i]) - W(label[i] == c);
  }
};

void check_pixel_labels(View labels, int64_t C) {
  const int32_t* label = labels.as<int32_t>();
  for (int64_t i = 0; i < labels.numel(); ++i)
    check(0 <= label[i] && label[i] < C,
          "[pixel_cross_entropy] label {} of pixel {} is outside [0, {})", label[i], i, C);
}

}  // namespace

void pixel_cross_entropy(View loss, View block_sums, View x, View labels, ClassWeights weights) {
  const int64_t C = x.shape[1], P = x.shape[2] * x.shape[3], pixels = labels.numel();
  const int64_t block = pixels_per_block(C);
  check_pixel_labels(labels, C);
  dispatch_floating(x.dtype, [&]<class T>() {
    using W = Wide<T>;
    double* sums = block_sums.as<double>();
    parallel_for(block_sums.numel(), block * C, [&](int64_t first, int64_t last) {
      for (int64_t b = first; b < last; ++b) {
        sums[b] = 0;
        for_each_run(b * block, std::min(pixels, (b + 1) * block), P,
                     [&](int64_t n, int64_t p, int64_t size) {
                       const T* in = x.as<T>() + n * C * P + p;
                       const int32_t* label = labels.as<int32_t>() + n * P + p;
                       const RunSoftmax<T> softmax(in, label, C, P, size);
                       W sum = 0;
                       for (int64_t i = 0; i < size; ++i) {
                         const RowSoftmax<W> pixel{softmax.maximum[i], softmax.rest[i]};
                         sum += W(weights[label[i]]) * pixel.loss(in[label[i] * P + i]);
                       }
                       sums[b] += static_cast<double>(sum);
                     });
      }
    });
    double sum = 0;
    for (int64_t b = 0; b < block_sums.numel(); ++b) sum += sums[b];
    *loss.as<W>() = static_cast<W>(sum / static_cast<double>(pixels));
  });
}

// dx may be x: a run is written after its sums.
void pixel_cross_entropy_backward(GradTarget dx, const LossSeed& from, View x, View labels,
                                  ClassWeights weights) {
  const int64_t C = x.shape[1], P = x.shape[2] * x.shape[3], pixels = labels.numel();
  dispatch_floating(x.dtype, [&]<class T>() {
    using W = Wide<T>;
    const Seed<W> seed(from);
    seed.add_loss();
    const W scale = seed.dloss() / static_cast<W>(pixels);
    with_beta(dx.beta, [&](auto accumulate) {
      parallel_for(pixels, C, [&](int64_t begin, int64_t end) {
        for_each_run(begin, end, P, [&](int64_t n, int64_t p, int64_t size) {
          const T* in = x.as<T>() + n * C * P + p;
          T* out = dx.grad.as<T>() + n * C * P + p;
          const int32_t* label = labels.as<int32_t>() + n * P + p;
          const RunSoftmax<T> softmax(in, label, C, P, size);
          W factor[run];
          for (int64_t i = 0; i < size; ++i) factor[i] = scale * W(weights[label[i]]);
          for (int64_t c = 0; c < C; ++c)
            for (int64_t i = 0; i < size; ++i) {
              const W p_c =
                  vector_exp(W(in[c * P + i]) - softmax.maximum[i]) / (1 + softmax.rest[i]);
              store(out[c * P + i], factor[i] * (p_c - W(label[i] == c)), accumulate);
            }
        });
      });
    });
  });
}

}  // namespace cpu

// In the .cu beside this file.
namespace cuda {
decltype(cpu::pixel_cross_entropy) pixel_cross_entropy;
decltype(cpu::pixel_cross_entropy_backward) pixel_cross_entropy_backward;
}  // namespace cuda

namespace {

ClassWeights class_weights_of(std::span<const double> given, int64_t C) {
  ClassWeights weights;
  weights.of.fill(1);
  if (given.empty()) return weights;
  check(static_cast<int64_t>(given.size()) == C && C <= ClassWeights::most,
        "[pixel_cross_entropy] {} class weights for {} classes: expected one for each, at most {}",
        given.size(), C, ClassWeights::most);
  for (size_t c = 0; c < given.size(); ++c) {
    check(given[c] >= 0 && given[c] <= 1e6,
          "[pixel_cross_entropy] the weight of class {} is {}: expected it in [0, 1e6]", c,
          given[c]);
    weights.of[c] = static_cast<float>(given[c]);
  }
  return weights;
}

}  // namespace

Tensor pixel_cross_entropy(const Tensor& x, const Tensor& labels,
                           std::span<const double> class_weights) {
  check_same("pixel_cross_entropy", {&x});
  check(x.shape().rank() == 4 && x.numel() > 0 && labels.dtype() == DType::i32 &&
            labels.shape() == Shape{x.size(0), 1, x.size(2), x.size(3)} &&
            labels.device() == x.device(),
        "[pixel_cross_entropy] x {} {} and labels {} {} on {}: expected x [N, C, H, W] and i32 "
        "labels [N, 1, H, W] on {}, none empty",
        name(x.dtype()), x.shape(), name(labels.dtype()), labels.shape(), name(labels.device()),
        name(x.device()));
  const ClassWeights weights = class_weights_of(class_weights, x.size(1));
  Tensor loss = Tensor::empty({}, wide(x.dtype()), x.device());
  {
    const Tensor block_sums = Tensor::empty({ceil_div(labels.numel(), pixels_per_block(x.size(1)))},
                                            DType::f64, x.device(), Category::workspace);
    launch<cpu::pixel_cross_entropy, cuda::pixel_cross_entropy>(
        x.device(), loss.view(), block_sums.view(), x.view(), labels.view(), weights);
  }
  const Edge edge = x;
  record_loss("pixel_cross_entropy", loss, edge, [=, x = x.detach()](const LossSeed& seed) mutable {
    // x is this closure's alone once the forward's tensors are gone: dx may then take
    // its place.
    Tensor over = x;
    x.reset();
    if (auto dx = over.sole_owner() ? claim_grad_over(edge, over) : claim_grad(edge))
      launch<cpu::pixel_cross_entropy_backward, cuda::pixel_cross_entropy_backward>(
          over.device(), *dx, seed, over.view(), labels.view(), weights);
  });
  return loss;
}

}  // namespace accrue
