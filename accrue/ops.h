#pragma once

// Differentiable ops.
//
//     const Tensor h = linear(x, parameters.entries()[0].tensor, {}, Activation::relu);
//     const Tensor y = layer_norm(add(h, scale(h, 0.5)), {}, {});

#include "kernels/adaptive_pool.h"
#include "kernels/arithmetic.h"
#include "kernels/attention.h"
#include "kernels/batched_matmul.h"
#include "kernels/causal_attention.h"
#include "kernels/concat.h"
#include "kernels/conv2d.h"
#include "kernels/conv_transpose2d.h"
#include "kernels/crop_or_pad.h"
#include "kernels/dropout.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/gather.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "kernels/one_hot.h"
#include "kernels/operators.h"
#include "kernels/pad.h"
#include "kernels/pixel_shuffle.h"
#include "kernels/pointwise.h"
#include "kernels/pool.h"
#include "kernels/rearrange.h"
#include "kernels/reduce.h"
#include "kernels/resize.h"
#include "kernels/scale_add.h"
#include "kernels/self_attention.h"
#include "kernels/softmax.h"
#include "kernels/spectral_norm.h"
#include "kernels/upsample.h"
