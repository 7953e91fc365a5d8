#include "fonts/glyph_score.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/inside.h"
#include "kernels/parallel.h"

namespace accrue {
namespace {

// The window of SSIM: scipy's Gaussian, cut off at 3.5 sigma.
constexpr int64_t window_size = 11;

const std::array<double, window_size>& window_weights() {
  static const std::array<double, window_size> weights = [] {
    constexpr double sigma = 1.5;
    std::array<double, window_size> g{};
    double sum = 0;
    for (int64_t i = 0; i < window_size; ++i) {
      const double distance = double(i - window_size / 2) / sigma;
      sum += g[size_t(i)] = std::exp(-0.5 * distance * distance);
    }
    for (double& weight : g) weight /= sum;
    return g;
  }();
  return weights;
}

struct Glyphs {
  const float *x, *t;
  int64_t H, W;
};

// The sums over a window: of x, t, x^2, t^2 and x t.
enum Summed { of_x, of_t, of_xx, of_tt, of_xt, summed };

// Each factor of the denominator is written as a factor of the numerator plus a difference of x and
// t. So equal images score exactly 1, however the compiler fuses products and sums.
double structural_similarity(const std::array<double, summed>& mean) {
  constexpr double C1 = 0.01 * 0.01, C2 = 0.03 * 0.03;
  const double mu_x = mean[of_x], mu_t = mean[of_t];
  const double s_xx = mean[of_xx] - mu_x * mu_x, s_tt = mean[of_tt] - mu_t * mu_t,
               s_xt = mean[of_xt] - mu_x * mu_t;
  const double light = 2 * mu_x * mu_t + C1, shape = 2 * s_xt + C2;
  return light * shape /
         ((light + (mu_x - mu_t) * (mu_x - mu_t)) * (shape + (s_xx + s_tt - 2 * s_xt)));
}

// columns [summed, W] += weight times a row of pixels.
void add_row(std::vector<double>& columns, const Glyphs& glyphs, int64_t row, double weight) {
  const int64_t W = glyphs.W;
  const float *x = glyphs.x + row * W, *t = glyphs.t + row * W;
  double* sums = columns.data();
  for (int64_t j = 0; j < W; ++j) {
    const double xj = (double(x[j]) + 1) / 2, tj = (double(t[j]) + 1) / 2;
    sums[of_x * W + j] += weight * xj;
    sums[of_t * W + j] += weight * tj;
    sums[of_xx * W + j] += weight * xj * xj;
    sums[of_tt * W + j] += weight * tj * tj;
    sums[of_xt * W + j] += weight * xj * tj;
  }
}

// The window is a product of two: first down the columns, then along the row of their sums.
double mean_structural_similarity(const Glyphs& glyphs) {
  const auto& g = window_weights();
  const int64_t W = glyphs.W, rows = glyphs.H - window_size + 1, places = W - window_size + 1;
  std::vector<double> columns(size_t(summed * W)), means(size_t(summed * places));
  double sum = 0;
  for (int64_t i = 0; i < rows; ++i) {
    std::ranges::fill(columns, 0);
    std::ranges::fill(means, 0);
    for (int64_t k = 0; k < window_size; ++k) add_row(columns, glyphs, i + k, g[size_t(k)]);
    for (int64_t of = 0; of < summed; ++of)
      for (int64_t k = 0; k < window_size; ++k)
        for (int64_t j = 0; j < places; ++j)
          means[size_t(of * places + j)] += g[size_t(k)] * columns[size_t(of * W + j + k)];
    const auto mean = [&](Summed of, int64_t j) { return means[size_t(of * places + j)]; };
    for (int64_t j = 0; j < places; ++j)
      sum += structural_similarity(
          {mean(of_x, j), mean(of_t, j), mean(of_xx, j), mean(of_tt, j), mean(of_xt, j)});
  }
  return sum / double(rows * places);
}

GlyphScore score_glyphs(const Glyphs& glyphs) {
  int64_t ink_x = 0, ink_t = 0, both = 0;
  double distance = 0;
  const int64_t pixels = glyphs.H * glyphs.W;
  for (int64_t i = 0; i < pixels; ++i) {
    const float x = glyphs.x[i], t = glyphs.t[i];
    ink_x += x < 0;
    ink_t += t < 0;
    both += x < 0 && t < 0;
    distance += std::abs(double(x) - double(t));
  }
  const int64_t either = ink_x + ink_t - both;
  return {.ssim = mean_structural_similarity(glyphs),
          .ink_iou = either > 0 ? double(both) / double(either) : 1,
          .ink_f1 = either > 0 ? double(2 * both) / double(ink_x + ink_t) : 1,
          .l1 = distance / double(pixels)};
}

}  // namespace

GlyphScore detail::sum_of_glyph_scores(const Tensor& x, const Tensor& t) {
  check(x.shape() == t.shape() && x.shape().rank() == 4 && x.size(1) == 1,
        "[sum_of_glyph_scores] x {} and t {}: expected one shape [N, 1, H, W]", x.shape(),
        t.shape());
  for (const Tensor* images : {&x, &t})
    check(images->dtype() == DType::f32 && images->device() == Device::cpu,
          "[sum_of_glyph_scores] images {} on {}: expected f32 on cpu", name(images->dtype()),
          name(images->device()));
  const int64_t N = x.size(0), H = x.size(2), W = x.size(3);
  check(H >= window_size && W >= window_size,
        "[sum_of_glyph_scores] images of {} x {}: expected at least {} x {}, the window of SSIM", H,
        W, window_size, window_size);
  const auto xs = x.span<float>(), ts = t.span<float>();
  // Added up afterwards in the order of the images, so the threads do not matter.
  std::vector<GlyphScore> scores(static_cast<size_t>(N));
  parallel_for(N, H * W * window_size, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n)
      scores[size_t(n)] = score_glyphs({xs.data() + n * H * W, ts.data() + n * H * W, H, W});
  });
  GlyphScore sum;
  for (const GlyphScore& score : scores) {
    sum.ssim += score.ssim;
    sum.ink_iou += score.ink_iou;
    sum.ink_f1 += score.ink_f1;
    sum.l1 += score.l1;
  }
  return sum;
}

}  // namespace accrue
