#pragma once

#include "core/tensor.h"

namespace accrue {

// y = a + b, element by element; a and b may be the same tensor. Operands of different shapes are
// broadcast (kernels/elementwise.h, which has what holds for them).
// Backward: da = dy, db = dy; one of them takes dy's place where it can, so that a residual
// connection costs one copy. Keeps nothing. Writes y over a when handed its last reference.
// Throws Error unless the shapes can be broadcast.
Tensor add(Tensor a, const Tensor& b);

namespace detail {

// y = max(a + b, 0), where a NaN stays a NaN: relu(add(a, b)) of two tensors of one shape, in one
// pass.
// Backward: da = db = dy where y > 0, else 0, both in one pass; one of them takes dy's place where
// it can. Keeps y. Writes y over a when handed its last reference.
// Throws Error unless the shapes are equal.
Tensor add_relu(Tensor a, const Tensor& b);

}  // namespace detail

// y = a * b, element by element; a and b may be the same tensor. Operands of different shapes are
// broadcast.
// Backward: da = dy * b, db = dy * a. Keeps a if b wants a gradient, and b if a does.
// Throws Error unless the shapes can be broadcast.
Tensor mul(Tensor a, const Tensor& b);

// y = factor * x. Backward: dx = factor * dy, written over dy if possible. Keeps nothing. Writes y
// over x when handed its last reference.
Tensor scale(Tensor x, double factor);

namespace detail {

// y = factor[0] * x. factor has one element, f32 or f64 for any x, and is on x's device. Each
// kernel reads the factor when it runs, so a recorded graph replays with the factor's current
// value. Changing it between a forward and its backward makes the gradient wrong.
// Backward: dx = factor[0] * dy, written over dy if possible. Keeps factor. Writes y over x when
// handed its last reference.
// Throws Error unless factor is such a tensor and wants no gradient: it is a constant here.
Tensor scale_by(Tensor x, const Tensor& factor);

}  // namespace detail

}  // namespace accrue
