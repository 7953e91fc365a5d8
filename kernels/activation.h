#pragma once

#include <string_view>

#include "kernels/pointwise.h"
#include "kernels/work.h"

namespace accrue {

// An activation that an op applies while its result is still in the cache. Its formula is in
// kernels/pointwise.h, and y alone gives its slope. To add one, extend the lists below and the list
// in tests/support/activation.h; the kernels and their tests follow from these lists.
enum class Activation { none, relu, tanh };

namespace detail {

inline constexpr Activation all_activations[]{Activation::none, Activation::relu, Activation::tanh};

namespace formula {

struct Unchanged {
  static constexpr std::string_view name = "";
  template <class T>
  HOST_DEVICE T operator()(T x) const {
    return x;
  }
  template <class T>
  HOST_DEVICE T slope_at(T) const {
    return T(1);
  }
};

// dz = dy * f'(z) for y = f(z). Where f' is 0, dz is 0 even if dy is not finite.
template <class F>
struct Backward {
  F f;
  template <class T>
  HOST_DEVICE T operator()(T dy, T y) const {
    const T slope = f.slope_at(y);
    return slope == 0 ? T(0) : dy * slope;
  }
};

}  // namespace formula

// Calls body(formula), so that a loop is compiled for each formula.
template <class Body>
decltype(auto) with_formula(Activation activation, Body&& body) {
  switch (activation) {
    case Activation::relu: return body(formula::Relu{});
    case Activation::tanh: return body(formula::Tanh{});
    case Activation::none: break;
  }
  return body(formula::Unchanged{});
}

// f(x), and dy * f'(x), for kernels that are compiled once for all activations.
template <class T>
HOST_DEVICE T activate(Activation activation, T x) {
  switch (activation) {
    case Activation::relu: return formula::Relu{}(x);
    case Activation::tanh: return formula::Tanh{}(x);
    case Activation::none: break;
  }
  return x;
}
template <class T>
HOST_DEVICE T activate_backward(Activation activation, T dy, T y) {
  switch (activation) {
    case Activation::relu: return formula::Backward<formula::Relu>{}(dy, y);
    case Activation::tanh: return formula::Backward<formula::Tanh>{}(dy, y);
    case Activation::none: break;
  }
  return dy;
}

// "relu" or "tanh", and "" for none.
inline std::string_view name(Activation activation) {
  return with_formula(activation, [](auto f) { return f.name; });
}

}  // namespace detail

namespace cpu {

// Overwrites dy with dz = dy * f'(z), where y = f(z). Does nothing for Activation::none.
void activation_backward_over(detail::View dy, detail::View y, Activation activation);

}  // namespace cpu

namespace detail {

template <>
struct WorkOf<cpu::activation_backward_over> {
  Work operator()(const View& dy, const View& y, Activation) const {
    return {.bytes = 2 * bytes_of(dy) + bytes_of(y)};
  }
};

}  // namespace detail

namespace cuda {
decltype(cpu::activation_backward_over) activation_backward_over;
}  // namespace cuda
}  // namespace accrue
