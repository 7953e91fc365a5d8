// Scores of drawn glyphs, compared with scikit-image's and with values known without it.

#include "fonts/glyph_score.h"

#include "core/inside.h"
#include "tests/support/catch.h"
#include "tests/support/thread_scope.h"

namespace accrue::test {
namespace {

// x[i, j] = value(i, j), an image [1, 1, H, W].
template <class F>
Tensor drawn(int H, int W, F&& value) {
  std::vector<float> pixels;
  for (int i = 0; i < H; ++i)
    for (int j = 0; j < W; ++j) pixels.push_back(static_cast<float>(value(i, j)));
  return Tensor::from(pixels, {1, 1, H, W});
}

Tensor ring(int i0, int j0) {
  return drawn(32, 32, [=](int i, int j) {
    const int distance = (i - i0) * (i - i0) + (j - j0) * (j - j0);
    return 60 <= distance && distance <= 140 ? -1 : 1;
  });
}

Tensor plain(double value) {
  return drawn(16, 16, [=](int, int) { return value; });
}

// Means round by at most 22 * 2^-53, so variances round by three times that, and the divisor is at
// least C2 = 0.0009. The other scores are quotients of whole numbers, and of sums without rounding.
void require_score(const GlyphScore& score, const GlyphScore& expected) {
  REQUIRE(std::abs(score.ssim - expected.ssim) < 1e-11);
  REQUIRE(score.ink_iou == expected.ink_iou);
  REQUIRE(score.ink_f1 == expected.ink_f1);
  REQUIRE(score.l1 == expected.l1);
}

void require_same(const GlyphScore& a, const GlyphScore& b) {
  REQUIRE(a.ssim == b.ssim);
  REQUIRE(a.ink_iou == b.ink_iou);
  REQUIRE(a.ink_f1 == b.ink_f1);
  REQUIRE(a.l1 == b.l1);
}

}  // namespace

// scikit-image 0.26.0 computed the scores:
//     def scores(x, t):
//         ssim = structural_similarity((x + 1) / 2, (t + 1) / 2, data_range=1, sigma=1.5,
//                                      gaussian_weights=True, use_sample_covariance=False)
//         X, T = x < 0, t < 0
//         both, either = (X & T).sum(), (X | T).sum()
//         return ssim, both / either, 2 * both / (X.sum() + T.sum()), abs(x - t).mean()
//     i, j = np.mgrid[0:20, 0:13].astype(float)
//     scores((i * i + 3 * i * j + 7 * j) % 17 / 8 - 1, (i * j + 5 * i + j * j) % 17 / 8 - 1)
//     i, j = np.mgrid[0:11, 0:11].astype(float)
//     scores((i + 2 * j) % 17 / 8 - 1, (2 * i + j) % 17 / 8 - 1)
//     i, j = np.mgrid[0:32, 0:32].astype(float)
//     ring = lambda i0, j0: np.where(abs((i - i0)**2 + (j - j0)**2 - 100) <= 40, -1., 1.)
//     scores(ring(15, 16), ring(17, 15))
TEST_CASE("glyphs score as by scikit-image", "[data]") {
  require_score(
      sum_of_glyph_scores(
          drawn(20, 13, [](int i, int j) { return (i * i + 3 * i * j + 7 * j) % 17 / 8.0 - 1; }),
          drawn(20, 13, [](int i, int j) { return (i * j + 5 * i + j * j) % 17 / 8.0 - 1; })),
      {0.08251278481154563, 0.30726256983240224, 0.4700854700854701, 0.66875});
  require_score(
      sum_of_glyph_scores(drawn(11, 11, [](int i, int j) { return (i + 2 * j) % 17 / 8.0 - 1; }),
                          drawn(11, 11, [](int i, int j) { return (2 * i + j) % 17 / 8.0 - 1; })),
      {0.26507667931680906, 0.3953488372093023, 0.5666666666666667, 0.5929752066115702});
  require_score(sum_of_glyph_scores(ring(15, 16), ring(17, 15)),
                {0.2975728134943937, 0.4823529411764706, 0.6507936507936508, 0.34375});
}

TEST_CASE("equal glyphs score 1, and blank pages are told from glyphs", "[data]") {
  require_same(sum_of_glyph_scores(ring(15, 16), ring(15, 16)), {1, 1, 1, 0});
  const Tensor gray = drawn(20, 13, [](int i, int j) { return (i * j + 5 * i) % 19 / 9.5 - 1; });
  require_same(sum_of_glyph_scores(gray, gray), {1, 1, 1, 0});
  const Tensor paper = plain(1), ink = plain(-1);
  require_same(sum_of_glyph_scores(paper, paper), {1, 1, 1, 0});
  require_same(sum_of_glyph_scores(ink, ink), {1, 1, 1, 0});
  // The windows have means 1 and 0 and no variance: C1 / (1 + C1).
  require_score(sum_of_glyph_scores(paper, ink), {1e-4 / (1 + 1e-4), 0, 0, 2});
  // The middle gray is no ink.
  require_score(sum_of_glyph_scores(plain(0), ink), {1e-4 / (0.25 + 1e-4), 0, 0, 1});
  REQUIRE(sum_of_glyph_scores(plain(0), paper).ink_f1 == 1);
  REQUIRE(sum_of_glyph_scores(paper, plain(0)).ink_f1 == 1);
}

TEST_CASE("the scores of glyphs are added up in their order, on any number of threads", "[data]") {
  constexpr int64_t N = 9;
  const Tensor x = Tensor::empty({N, 1, 32, 32}, DType::f32, Device::cpu),
               t = Tensor::empty({N, 1, 32, 32}, DType::f32, Device::cpu);
  GlyphScore sum;
  for (int n = 0; n < N; ++n) {
    x.slice(n, n + 1).copy_from(ring(12 + n, 16));
    t.slice(n, n + 1).copy_from(ring(16, 18 - n));
    const GlyphScore one = sum_of_glyph_scores(x.slice(n, n + 1), t.slice(n, n + 1));
    sum = {sum.ssim + one.ssim, sum.ink_iou + one.ink_iou, sum.ink_f1 + one.ink_f1,
           sum.l1 + one.l1};
  }
  for (const int threads : {1, 2, 5}) {
    INFO(threads);
    const ThreadScope scope(threads);
    require_same(sum_of_glyph_scores(x, t), sum);
  }
}

TEST_CASE("images that have no score are refused", "[data]") {
  const auto zeros = [](const Shape& shape, DType dtype = DType::f32) {
    return Tensor::full(shape, 0, dtype, Device::cpu);
  };
  REQUIRE_ERROR(sum_of_glyph_scores(zeros({2, 1, 8, 8}), zeros({2, 1, 8, 8})),
                "images of 8 x 8: expected at least 11 x 11, the window of SSIM");
  REQUIRE_ERROR(sum_of_glyph_scores(zeros({1, 1, 16, 10}), zeros({1, 1, 16, 10})), "16 x 10");
  REQUIRE_ERROR(sum_of_glyph_scores(zeros({2, 1, 16, 16}), zeros({1, 1, 16, 16})),
                "expected one shape [N, 1, H, W]");
  REQUIRE_ERROR(sum_of_glyph_scores(zeros({1, 3, 16, 16}), zeros({1, 3, 16, 16})),
                "expected one shape [N, 1, H, W]");
  REQUIRE_ERROR(sum_of_glyph_scores(zeros({1, 1, 16, 16}, DType::f64), zeros({1, 1, 16, 16})),
                "images f64 on cpu: expected f32 on cpu");
}

}  // namespace accrue::test
