#pragma once

#include <vector>

#include "core/tensor.h"

namespace accrue {

// How a cross-entropy counts its labels.
struct CrossEntropyOptions {
  std::vector<double> class_weights{};  // w, one for each class; if there are none, 1 for each
  double label_smoothing = 0;           // e
};

// Cross-entropy of logits x [N, C] and labels i32 [N] in which classes and samples count
// differently, by w and e of the options and s = sample_weights, f32 [N], or 1 without them.
//   loss = 1/W sum_n s[n] sum_c q[n, c] * -log p[n, c]       W = sum_n s[n] * w[label[n]]
//   q[n, c] = (1 - e) * w[c] * [c = label[n]] + e/C * w[c]   p[n, :] = softmax(x[n, :])
// Samples whose label is not_judged (kernels/judged.h) are left out. If W is 0, the loss is 0. It
// is a mean over W, which cross_entropy_weight() is for a window (accumulate/window.h). Without
// sample weights this is PyTorch's cross_entropy(weight, ignore_index, label_smoothing).
// Backward: dx[n, c] = dloss/W * s[n] * (p[n, c] * sum_k q[n, k] - q[n, c]), 0 where a label is not
// judged. Softmax and sums are computed as in cross_entropy(), and backward takes a LossSeed, too.
// Keeps x (and writes dx over it when nobody else holds it), labels, sample weights, W and w.
// Throws Error unless the shapes agree, every label is in [0, C) or not_judged, and e is in [0, 1].
// There must be no class weights or C of them in [0, 1e6], above 0 where e is, so that no sample
// has a loss without a weight. All sample weights must be finite and not negative. No kernel can
// throw on Device::cuda: there a label out of range gives a NaN loss and NaN in its row of dx, and
// a wrong sample weight gives NaN everywhere.
Tensor cross_entropy(const Tensor& x, const Tensor& labels, const CrossEntropyOptions& options,
                     const Tensor& sample_weights = {});

// W of this loss, f64 [] on the labels' device, for logits of C classes. Throws Error as it does.
Tensor cross_entropy_weight(const Tensor& labels, int64_t C, const CrossEntropyOptions& options,
                            const Tensor& sample_weights = {});

namespace detail {

// Adds a micro-batch to score, f64 [2 C] on the device of x [N, C] and the labels i32 [N].
//   score[2 c] += rows of label c whose largest entry, the first of equals, is at c
//   score[2 c + 1] += rows of label c
// Labels that are not_judged count nowhere, and a row with a NaN is never right. It is not
// differentiable. Throws Error as cross_entropy() does, and unless score is as above.
void add_class_score(const Tensor& score, const Tensor& x, const Tensor& labels);

}  // namespace detail

}  // namespace accrue
