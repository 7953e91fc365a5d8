#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace accrue::detail {

// The closeness of drawn glyphs x to true ones t: gray images of H x W pixels in [-1, 1], -1 for
// black ink and 1 for white paper, as pixels are normalized for a model. The mean |x - t| hardly
// distinguishes a blank page from a glyph, because most of both is paper; the other three scores
// do.
struct GlyphScore {
  // The structural similarity of Wang et al. (2004), of (x + 1) / 2 and (t + 1) / 2, so that it is
  // that of the bytes of an image file. At each place of an 11 x 11 window with Gaussian weights
  // g (sigma 1.5, sum 1), with mu_x = sum g x, s_xt = sum g x t - mu_x mu_t:
  //   (2 mu_x mu_t + C1) (2 s_xt + C2) / ((mu_x^2 + mu_t^2 + C1) (s_xx + s_tt + C2))
  // with C1 = 0.01^2 and C2 = 0.03^2, in double; the mean over the places where the whole window
  // lies within the image. This equals scikit-image's structural_similarity(gaussian_weights=True,
  // sigma=1.5, use_sample_covariance=False, data_range=1), which also leaves out the border.
  double ssim = 0;
  // With X the ink of x, the pixels below the middle gray 0, and T that of t: |X and T| / |X or T|,
  // and 2 |X and T| / (|X| + |T|). Both are 1 if neither has ink.
  double ink_iou = 0, ink_f1 = 0;
  // mean |x - t|
  double l1 = 0;
};

// The scores of N pairs, summed. Divided by N they are means over images, IoU and F1 too, so that a
// glyph of few strokes counts as much as one of many.
// x and t are f32 [N, 1, H, W] on the CPU, for one pair [1, 1, H, W]. A NaN makes ssim and l1 NaN.
// The results have the same bits for any number of threads. Throws Error unless the images are as
// above, of one shape, and H and W are at least 11.
GlyphScore sum_of_glyph_scores(const Tensor& x, const Tensor& t);

}  // namespace accrue::detail
