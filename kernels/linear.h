#pragma once

#include "core/autograd.h"
#include "kernels/activation.h"
#include "kernels/batched_matmul.h"
#include "kernels/detail/transpose.h"
#include "kernels/pointwise.h"

namespace accrue {

// y[n, o] = act(sum_i x[n, i] * w[o, i] + b[o]), x [N, I], w [O, I], b [O] or undefined for none.
// With w_op = Transpose::no, w is [I, O] and w[i, o] replaces w[o, i], as in GPT-2's weights.
// Backward, with dz = dy * act'(y) written over dy:
//   dw[o, i] = sum_n dz[n, o] * x[n, i]      db[o] = sum_n dz[n, o]
//   dx[n, i] = sum_o dz[n, o] * w[o, i].
// Accumulation over micro-batches extends the sums over n of dw and db. It costs nothing, because
// it is the GEMM's own beta. Keeps x until dw is done, if w wants a gradient (then dx may take its
// place), and y if there is an activation. A w that wants no gradient may be stored in another type
// (kernels/quantized_matmul.h). Throws Error unless x and w have two dimensions and agree.
Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b,
              Activation activation = Activation::none, Transpose w_op = Transpose::yes);

namespace detail {

// y = f(z), z = linear(x, w, b, Activation::none, w_op): the same as pointwise(z, f) for a formula
// that keeps x, such as gelu's (kernels/pointwise.h).
// Backward: as both, but one pass over dy and z writes dz over dy and adds up db on cuda. Keeps z,
// and x as linear() does.
// Throws Error as linear() does, and if the formula keeps y.
Tensor linear_then(const formula::AnyPointwise& f, const Tensor& x, const Tensor& w,
                   const Tensor& b, Transpose w_op = Transpose::yes);

// y[n, o] = a[n, o] + sum_i x[n, i] * w[o, i] + b[o], a [N, O]: what linear() gives for x, w, b and
// w_op, added to a. The product adds it: in 16 bits the sum is rounded once, and y has the same
// bits whether it is written over a or not. On the CPU, wider types round a with each piece of the
// terms; add() rounds less there.
// Backward: dw, db and dx as in linear() without an activation, and da = dy, over dy where it can.
// So a residual connection costs neither an addition nor a copy of its gradient. Keeps x as
// linear() does. Writes y over a if it gets the last reference to a.
// Throws Error unless the shapes agree.
Tensor add_linear(Tensor a, const Tensor& x, const Tensor& w, const Tensor& b = {},
                  Transpose w_op = Transpose::yes);

}  // namespace detail

namespace detail {

// c = op(a) op(b) + beta * c for two-dimensional views that agree: linear() and matmul() are made
// of it.
// Not differentiable.
void multiply(GradTarget c, View a, View b, Transpose a_op, Transpose b_op);

}  // namespace detail

}  // namespace accrue
