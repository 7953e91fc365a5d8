#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace accrue::detail {

// The closeness of drawn glyphs x to true ones t: gray images of H x W pixels in [-1, 1], as pixels
// are normalized for a model, with -1 for black ink and 1 for white paper. The mean |x - t| is
// hardly larger for a blank page than for a good glyph, because most pixels of both are paper. The
// other three scores tell them apart.
struct GlyphScore {
  // The structural similarity of Wang et al. (2004), of (x + 1) / 2 and (t + 1) / 2, so that it is
  // the similarity of the bytes of an image file. An 11 x 11 window with Gaussian weights g (sigma
  // 1.5, sum 1) gives mu_x = sum g x and s_xt = sum g x t - mu_x mu_t at each place. With C1 =
  // 0.01^2 and C2 = 0.03^2, the similarity there is
  //   (2 mu_x mu_t + C1) (2 s_xt + C2) / ((mu_x^2 + mu_t^2 + C1) (s_xx + s_tt + C2)).
  // The score is the mean, in double, over the places where the whole window lies within the image.
  // This equals scikit-image's structural_similarity(gaussian_weights=True, sigma=1.5,
  // use_sample_covariance=False, data_range=1), which also leaves out the border.
  double ssim = 0;
  // X is the ink of x, the pixels below the middle gray 0, and T is the ink of t:
  //   ink_iou = |X and T| / |X or T|          ink_f1 = 2 |X and T| / (|X| + |T|).
  // Both are 1 if neither has ink.
  double ink_iou = 0, ink_f1 = 0;
  // mean |x - t|
  double l1 = 0;
};

// The scores of N pairs, summed. Divided by N they are means over images. This holds for IoU and
// F1, too, so a glyph of few strokes counts as much as one of many.
// x and t are f32 [N, 1, H, W] on the CPU. A NaN makes ssim and l1 NaN. The results have the same
// bits for any number of threads. Throws Error unless the images are as above, of one shape, and H
// and W are at least 11.
GlyphScore sum_of_glyph_scores(const Tensor& x, const Tensor& t);

}  // namespace accrue::detail
