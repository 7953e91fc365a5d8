#include "kernels/dice_loss.h"

#include "core/ceil_div.h"
#include "kernels/detail/dice_loss_kernels.h"
#include "kernels/detail/pixel_runs.h"
#include "kernels/pointwise.h"

namespace accrue {
namespace {

int64_t blocks_of_sample(View x) { return ceil_div(x.shape[2] * x.shape[3], dice_block); }
bool are_classes(View masks) { return masks.dtype == DType::i32; }

}  // namespace

namespace cpu {
namespace {

void check_planes(View masks) {
  dispatch_floating(masks.dtype, [&]<class T>() {
    const T* t = masks.as<T>();
    for (int64_t i = 0; i < masks.numel(); ++i)
      check(t[i] >= 0 && t[i] <= 1, "[dice_loss] mask element {} is {}, expected it in [0, 1]", i,
            widen(t[i]));
  });
}

// p and t of up to pixel_run pixels of a plane; both are 0 where a pixel is not judged.
template <class W>
struct DiceRun {
  W p[pixel_run], t[pixel_run];
};

// Calls body(k, run) for each plane k of sample n, with its `size` pixels from p on.
template <class W, class Body>
void for_each_plane(View x, View masks, int64_t n, int64_t p, int64_t size, Body&& body) {
  const int64_t K = x.shape[1], P = x.shape[2] * x.shape[3], at = n * K * P + p;
  DiceRun<W> run;
  if (are_classes(masks)) {
    const int32_t* label = masks.as<const int32_t>() + n * P + p;
    const RunSoftmax<W> softmax(x, at, label, K, P, size);
    for (int64_t k = 0; k < K; ++k) {
      const PixelInput<W> plane(x, at + k * P, size);
      const W* const in = plane.data();
      for (int64_t i = 0; i < size; ++i) {
        run.p[i] = label[i] == not_judged ? 0 : softmax.probability(i, in[i]);
        run.t[i] = W(label[i] == k);
      }
      body(k, run);
    }
    return;
  }
  for (int64_t k = 0; k < K; ++k) {
    const PixelInput<W> plane(x, at + k * P, size), mask(masks, at + k * P, size);
    const W *const in = plane.data(), *const t = mask.data();
    for (int64_t i = 0; i < size; ++i) {
      run.p[i] = formula::Sigmoid{}(in[i]);
      run.t[i] = t[i];
    }
    body(k, run);
  }
}

}  // namespace

// Sums each block separately, then adds the blocks' sums in order.
void dice_loss(View loss, View sums, View block_sums, View x, View masks, ClassWeights weights,
               const Counted& counted) {
  const int64_t N = x.shape[0], K = x.shape[1], P = x.shape[2] * x.shape[3];
  const int64_t blocks = blocks_of_sample(x);
  if (are_classes(masks)) check_pixel_labels("dice_loss", masks, K, counted);
  else check_planes(masks);
  dispatch_widened(x.dtype, [&]<class W>() {
    parallel_each(N * blocks, std::min(P, dice_block) * K, [&](int64_t b) {
      double* const of_block = block_sums.as<double>() + b * K * 3;
      std::fill_n(of_block, 3 * K, 0.0);
      const int64_t n = b / blocks, begin = b % blocks * dice_block;
      for_each_run(begin, std::min(P, begin + dice_block), P,
                   [&](int64_t, int64_t p, int64_t size) {
                     for_each_plane<W>(x, masks, n, p, size, [&](int64_t k, const auto& run) {
                       W both = 0, found = 0, wanted = 0;
                       for (int64_t i = 0; i < size; ++i) {
                         both += run.p[i] * run.t[i];
                         found += run.p[i];
                         wanted += run.t[i];
                       }
                       of_block[3 * k] += static_cast<double>(both);
                       of_block[3 * k + 1] += static_cast<double>(found);
                       of_block[3 * k + 2] += static_cast<double>(wanted);
                     });
                   });
    });
    double* const all = sums.as<double>();
    std::fill_n(all, 3 * N * K, 0.0);
    for (int64_t b = 0; b < N * blocks; ++b)
      for (int64_t i = 0; i < 3 * K; ++i)
        all[b / blocks * 3 * K + i] += block_sums.as<double>()[b * 3 * K + i];
    double sum = 0;
    for (int64_t n = 0; n < N; ++n) {
      const double part = judged_part(all, n, K, P, counted);
      for (int64_t k = 0; k < K; ++k)
        sum += part * double(weights.in<W>(k)) * dice_sums(all, n * K + k).loss();
    }
    *loss.as<W>() = static_cast<W>(mean_of_planes(sum, K, counted));
  });
}

// dx may be x: a run's planes are written after the last value that depends on them is read.
void dice_loss_backward(GradTarget dx, View dloss, View sums, View x, View masks,
                        ClassWeights weights, const Counted& counted) {
  const int64_t N = x.shape[0], K = x.shape[1], P = x.shape[2] * x.shape[3];
  dispatch_widened(x.dtype, [&]<class W>() {
    const double scale = mean_of_planes(double(*dloss.as<const W>()), K, counted);
    const auto slope = [&](int64_t n, int64_t k, double part, W t) {
      const DiceSums of_plane = dice_sums(sums.as<const double>(), n * K + k);
      const double factor = scale * part * double(weights.in<W>(k));
      return W(factor * of_plane.at_zero()) + t * W(factor * of_plane.by_target());
    };
    with_beta(dx.beta, [&](auto accumulate) {
      parallel_for(N * P, K, [&](int64_t begin, int64_t end) {
        for_each_run(begin, end, P, [&](int64_t n, int64_t p, int64_t size) {
          const double part = judged_part(sums.as<const double>(), n, K, P, counted);
          W average[pixel_run] = {};  // of the slopes, weighted by p, for the softmax
          if (are_classes(masks))
            for_each_plane<W>(x, masks, n, p, size, [&](int64_t k, const auto& run) {
              const W without = slope(n, k, part, 0), with = slope(n, k, part, 1);
              for (int64_t i = 0; i < size; ++i)
                average[i] += run.p[i] * (run.t[i] > 0 ? with : without);
            });
          for_each_plane<W>(x, masks, n, p, size, [&](int64_t k, const auto& run) {
            const W at_zero = slope(n, k, part, 0), by_target = slope(n, k, part, 1) - at_zero;
            const PixelOutput<W> to(dx.grad, dx.beta, (n * K + k) * P + p, size);
            W* const out = to.data();
            for (int64_t i = 0; i < size; ++i) {
              const W dp = at_zero + run.t[i] * by_target;
              const W by_x = are_classes(masks) ? run.p[i] * (dp - average[i])
                                                : run.p[i] * (1 - run.p[i]) * dp;
              store(out[i], by_x, accumulate);
            }
          });
        });
      });
    });
  });
}

}  // namespace cpu

namespace cuda {
decltype(cpu::dice_loss) dice_loss;
decltype(cpu::dice_loss_backward) dice_loss_backward;
}  // namespace cuda

Tensor dice_loss(const Tensor& x, const Tensor& masks, std::span<const double> class_weights,
                 const Tensor& judged) {
  check_same("dice_loss", {&x});
  const bool are_images = x.shape().rank() == 4 && x.numel() > 0;
  const bool classes = are_images && masks.dtype() == DType::i32 &&
                       masks.shape() == Shape{x.size(0), 1, x.size(2), x.size(3)};
  const bool planes = are_images && masks.dtype() == x.dtype() && masks.shape() == x.shape();
  check((classes || planes) && masks.device() == x.device(),
        "[dice_loss] x {} {} and masks {} {} on {}: expected x [N, K, H, W] and masks alike, or "
        "i32 [N, 1, H, W], none empty, on {}",
        name(x.dtype()), x.shape(), name(masks.dtype()), masks.shape(), name(masks.device()),
        name(x.device()));
  const int64_t N = x.size(0), K = x.size(1);
  check(classes || !judged.defined(),
        "[dice_loss] judged with masks of planes: expected masks i32 [N, 1, H, W]");
  const ClassWeights weights = class_weights_of("dice_loss", class_weights, K);
  const Counted counted = counted_pixels("dice_loss", x, judged);
  Tensor loss = Tensor::empty({}, wide(x.dtype()), x.device());
  const Tensor sums = Tensor::empty({N, K, 3}, DType::f64, x.device());
  {
    const Tensor block_sums = Tensor::empty({N, blocks_of_sample(x.view()), K, 3}, DType::f64,
                                            x.device(), Category::workspace);
    launch<cpu::dice_loss, cuda::dice_loss>(x.device(), loss.view(), sums.view(), block_sums.view(),
                                            x.view(), masks.view(), weights, counted);
  }
  const Edge edge = x;
  record("dice_loss", loss, {edge}, [=, x = x.saved(), kept = judged](Tensor& dloss) mutable {
    Tensor over = std::move(x);
    if (auto dx = claim_grad_over_value(edge, over))
      launch<cpu::dice_loss_backward, cuda::dice_loss_backward>(over.device(), *dx, dloss.view(),
                                                                sums.view(), over.view(),
                                                                masks.view(), weights, counted);
  });
  return loss;
}

}  // namespace accrue
