#pragma once

#include <array>
#include <optional>
#include <type_traits>
#include <utility>

#include "core/half.h"
#include "core/host_device.h"
#include "core/view.h"

namespace accrue {

namespace detail {
class Edge;
}  // namespace detail
class Tensor;

// The central rule: a backward does not return a gradient. It claims a target, and its kernel
// writes
//
//   grad = value + beta * grad        beta is 0 for the first write since zero_grad(), else 1
//
// With beta 0 it does not read grad. The kernels themselves then add up the gradients of fan-out,
// of shared weights and of the micro-batches of a window. No other code zeroes or adds gradients,
// and there are no temporary gradients (docs/gradients.md, accumulate/README.md).

namespace detail {

// The target of a backward kernel, which writes grad = value + beta * grad. beta is 0 or 1; with
// beta 0 the kernel writes every element and reads none.
struct GradTarget {
  View grad;
  float beta;
};

// Returns the target for x's gradient, or nullopt if x wants none. The first claim of a variable
// after zero_grad() gets beta 0, later claims get beta 1. Launch the kernel for one target before
// claiming the next: in x * x both targets are the same buffer.
std::optional<GradTarget> claim_grad(const Edge& x);

// claim_grad() for a kernel that writes two gradients at once. If both edges are of one variable,
// the second target adds to the values of the first: the kernel must store each element to the
// first target before the second.
std::pair<std::optional<GradTarget>, std::optional<GradTarget>> claim_grads(const Edge& a,
                                                                            const Edge& b);
// claim_grads() for three gradients.
std::array<std::optional<GradTarget>, 3> claim_grads(const Edge& a, const Edge& b, const Edge& c);

// Makes `buffer` the buffer of x's gradient if x is an intermediate result whose gradient has none
// yet, and `buffer` has x's shape or the same rows.
void offer_buffer(const Edge& x, const Tensor& buffer);

// offer_buffer() and claim_grad() for pointwise backwards, which may write over the gradient they
// read: the target is dy itself, with beta 0, if the offer is taken.
std::optional<GradTarget> claim_grad_over(const Edge& x, Tensor& dy);

// value + beta * dst, where beta 0 does not read dst (0 * NaN is NaN).
template <class T>
HOST_DEVICE T blend(Wide<T> value, float beta, T dst) {
  return T(beta == 0 ? value : value + Wide<T>(beta) * dst);
}

// Calls body with std::true_type when the target accumulates (beta 1) and with std::false_type when
// it is written (beta 0), so that the choice is made outside the kernel's loop.
template <class Body>
void with_beta(float beta, Body&& body) {
  if (beta == 0) body(std::false_type{});
  else body(std::true_type{});
}

// Adds to or overwrites dst, as the constant from with_beta() says, and rounds once.
template <bool accumulate, class T>
HOST_DEVICE void store(T& dst, Wide<T> value, std::bool_constant<accumulate>) {
  if constexpr (accumulate) dst = T(dst + value);
  else dst = T(value);
}

}  // namespace detail

}  // namespace accrue
