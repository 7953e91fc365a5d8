#include "kernels/pixel_cross_entropy.h"

#include "core/ceil_div.h"
#include "kernels/detail/class_weights.h"
#include "kernels/detail/cross_entropy_kernels.h"
#include "kernels/detail/loss_seed.h"
#include "kernels/detail/pixel_runs.h"

namespace accrue {
namespace cpu {

void pixel_cross_entropy(View loss, View block_sums, View x, View labels, ClassWeights weights,
                         const Counted& counted) {
  const int64_t C = x.shape[1], P = x.shape[2] * x.shape[3], pixels = labels.numel();
  const int64_t block = pixels_per_block(C);
  check_pixel_labels("pixel_cross_entropy", labels, C, counted);
  dispatch_widened(x.dtype, [&]<class W>() {
    double* sums = block_sums.as<double>();
    parallel_each(block_sums.numel(), block * C, [&](int64_t b) {
      sums[b] = 0;
      for_each_run(b * block, std::min(pixels, (b + 1) * block), P,
                   [&](int64_t n, int64_t p, int64_t size) {
                     const int64_t at = n * C * P + p;
                     const int32_t* label = labels.as<int32_t>() + n * P + p;
                     const RunSoftmax<W> softmax(x, at, label, C, P, size);
                     W sum = 0;
                     for (int64_t i = 0; i < size; ++i) {
                       if (label[i] == not_judged) continue;
                       const RowSoftmax<W> pixel{softmax.maximum[i], softmax.rest[i]};
                       const PixelInput<W> of_label(x, at + label[i] * P + i, 1);
                       sum += weights.in<W>(label[i]) * pixel.loss(*of_label.data());
                     }
                     sums[b] += static_cast<double>(sum);
                   });
    });
    double sum = 0;
    for (int64_t b = 0; b < block_sums.numel(); ++b) sum += sums[b];
    *loss.as<W>() = static_cast<W>(counted.mean_of(sum));
  });
}

// dx may be x: a run is written after its sums.
void pixel_cross_entropy_backward(GradTarget dx, const LossSeed& from, View x, View labels,
                                  ClassWeights weights, const Counted& counted) {
  const int64_t C = x.shape[1], P = x.shape[2] * x.shape[3], pixels = labels.numel();
  dispatch_widened(x.dtype, [&]<class W>() {
    const Seed<W> seed(from);
    seed.add_loss();
    const W scale = counted.mean_of(seed.dloss());
    with_beta(dx.beta, [&](auto accumulate) {
      parallel_for(pixels, C, [&](int64_t begin, int64_t end) {
        for_each_run(begin, end, P, [&](int64_t n, int64_t p, int64_t size) {
          const int64_t at = n * C * P + p;
          const int32_t* label = labels.as<int32_t>() + n * P + p;
          const RunSoftmax<W> softmax(x, at, label, C, P, size);
          W factor[pixel_run];
          for (int64_t i = 0; i < size; ++i)
            factor[i] = label[i] == not_judged ? 0 : scale * weights.in<W>(label[i]);
          for (int64_t c = 0; c < C; ++c) {
            const PixelInput<W> from(x, at + c * P, size);
            const PixelOutput<W> to(dx.grad, dx.beta, at + c * P, size);
            const W* const in = from.data();
            W* const out = to.data();
            for (int64_t i = 0; i < size; ++i) {
              const W p_c = softmax.probability(i, in[i]);
              store(out[i], factor[i] * (p_c - W(label[i] == c)), accumulate);
            }
          }
        });
      });
    });
  });
}

}  // namespace cpu

namespace cuda {
decltype(cpu::pixel_cross_entropy) pixel_cross_entropy;
decltype(cpu::pixel_cross_entropy_backward) pixel_cross_entropy_backward;
}  // namespace cuda

Tensor pixel_cross_entropy(const Tensor& x, const Tensor& labels,
                           std::span<const double> class_weights, const Tensor& judged) {
  check_same("pixel_cross_entropy", {&x});
  check(x.shape().rank() == 4 && x.numel() > 0 && labels.dtype() == DType::i32 &&
            labels.shape() == Shape{x.size(0), 1, x.size(2), x.size(3)} &&
            labels.device() == x.device(),
        "[pixel_cross_entropy] x {} {} and labels {} {} on {}: expected x [N, C, H, W] and i32 "
        "labels [N, 1, H, W] on {}, none empty",
        name(x.dtype()), x.shape(), name(labels.dtype()), labels.shape(), name(labels.device()),
        name(x.device()));
  const ClassWeights weights = class_weights_of("pixel_cross_entropy", class_weights, x.size(1));
  const Counted counted = counted_pixels("pixel_cross_entropy", x, judged);
  Tensor loss = Tensor::empty({}, wide(x.dtype()), x.device());
  {
    const Tensor block_sums = Tensor::empty({ceil_div(labels.numel(), pixels_per_block(x.size(1)))},
                                            DType::f64, x.device(), Category::workspace);
    launch<cpu::pixel_cross_entropy, cuda::pixel_cross_entropy>(
        x.device(), loss.view(), block_sums.view(), x.view(), labels.view(), weights, counted);
  }
  const Edge edge = x;
  record_loss("pixel_cross_entropy", loss, {edge},
              [=, x = x.saved(), kept = judged](const LossSeed& seed) mutable {
                Tensor over = std::move(x);
                if (auto dx = claim_grad_over_value(edge, over))
                  launch<cpu::pixel_cross_entropy_backward, cuda::pixel_cross_entropy_backward>(
                      over.device(), *dx, seed, over.view(), labels.view(), weights, counted);
              });
  return loss;
}

}  // namespace accrue
