#pragma once

#include <cmath>
#include <string_view>
#include <variant>

#include "core/host_device.h"
#include "core/tensor.h"
#include "kernels/detail/vector_exp.h"

namespace accrue {

namespace detail {

// Activations: y = f(x), element by element, for x of any shape.
//
// A formula is written once for all devices. It has a name, states whether its op keeps x or y, and
// computes f(x), and f'(x) as slope_at() the kept value. To add a formula, put it into AnyPointwise
// and write an op below, a layer in layers/layers.h and a row in tests/kernels/pointwise.cpp. The
// kernels need no change.
namespace formula {

enum class Keeps { x, y };

// max(x, 0); a NaN stays a NaN.
struct Relu {
  static constexpr std::string_view name = "relu";
  static constexpr Keeps keeps = Keeps::y;
  template <class T>
  HOST_DEVICE T operator()(T x) const {
    return x < 0 ? T(0) : x;
  }
  template <class T>
  HOST_DEVICE T slope_at(T y) const {
    return y > 0 ? T(1) : T(0);
  }
};

// x > 0 ? x : slope * x
struct LeakyRelu {
  static constexpr std::string_view name = "leaky_relu";
  static constexpr Keeps keeps = Keeps::y;
  double slope;
  template <class T>
  HOST_DEVICE T operator()(T x) const {
    return x > 0 ? x : T(slope) * x;
  }
  template <class T>
  HOST_DEVICE T slope_at(T y) const {
    return y > 0 ? T(1) : T(slope);
  }
};

// 1 / (1 + exp(-x)), computed from exp(-|x|), which does not overflow.
struct Sigmoid {
  static constexpr std::string_view name = "sigmoid";
  static constexpr Keeps keeps = Keeps::y;
  template <class T>
  HOST_DEVICE T operator()(T x) const {
    const T e = vector_exp(x < 0 ? x : -x);
    return (x < 0 ? e : T(1)) / (1 + e);
  }
  template <class T>
  HOST_DEVICE T slope_at(T y) const {
    return y * (1 - y);
  }
};

// tanh(x)
struct Tanh {
  static constexpr std::string_view name = "tanh";
  static constexpr Keeps keeps = Keeps::y;
  template <class T>
  HOST_DEVICE T operator()(T x) const {
    return std::tanh(x);
  }
  template <class T>
  HOST_DEVICE T slope_at(T y) const {
    return 1 - y * y;
  }
};

// x * Phi(x), Phi the standard normal distribution (Hendrycks & Gimpel 2016, exact). Computed by
// erfc, which keeps its digits where Phi is small. Minus infinity gives NaN, as in PyTorch.
struct Gelu {
  static constexpr std::string_view name = "gelu";
  static constexpr Keeps keeps = Keeps::x;
  template <class T>
  HOST_DEVICE T operator()(T x) const {
    return x * phi(x);
  }
  template <class T>
  HOST_DEVICE T slope_at(T x) const {
    return phi(x) + x * T(0.3989422804014327) * std::exp(-x * x / 2);
  }

 private:
  template <class T>
  HOST_DEVICE static T phi(T x) {
    return std::erfc(-x * T(0.7071067811865476)) / 2;
  }
};

// x * sigmoid(x) (Elfwing et al. 2018). Minus infinity gives NaN, as in PyTorch.
struct Silu {
  static constexpr std::string_view name = "silu";
  static constexpr Keeps keeps = Keeps::x;
  template <class T>
  HOST_DEVICE T operator()(T x) const {
    return x * Sigmoid{}(x);
  }
  template <class T>
  HOST_DEVICE T slope_at(T x) const {
    const T s = Sigmoid{}(x);
    return s * (1 + x * (1 - s));
  }
};

// x * (1 + tanh(u)) / 2 with u = sqrt(2 / pi) * (x + 0.044715 x^3): gelu's approximation (Hendrycks
// & Gimpel 2016), which GPT-2 uses. Computed as x * sigmoid(2 u), which keeps its digits where x <
// 0. Minus infinity gives NaN, as in PyTorch.
struct GeluTanh {
  static constexpr std::string_view name = "gelu_tanh";
  static constexpr Keeps keeps = Keeps::x;
  template <class T>
  HOST_DEVICE T operator()(T x) const {
    return x * Sigmoid{}(x * (linear<T> + cubic<T> * x * x));
  }
  template <class T>
  HOST_DEVICE T slope_at(T x) const {
    // From here on the slope is 0 or 1 in every type, and the square of x does not overflow.
    const T near = x < -22 ? T(-22) : x > 22 ? T(22) : x, square = near * near;
    const T twice_u = near * (linear<T> + cubic<T> * square);
    const T slope_of_it = linear<T> + 3 * cubic<T> * square;
    const T e = vector_exp(twice_u < 0 ? twice_u : -twice_u), r = 1 / (1 + e);
    return r * ((twice_u < 0 ? e : T(1)) + near * slope_of_it * e * r);
  }

 private:
  // 2 u = linear * x + cubic * x^3
  template <class T>
  static constexpr T linear = T(1.5957691216057308);
  template <class T>
  static constexpr T cubic = T(0.07135481627260025);
};

using AnyPointwise = std::variant<Relu, LeakyRelu, Gelu, GeluTanh, Sigmoid, Tanh, Silu>;

}  // namespace formula

// y = f(x). Backward: dx = dy * f'(x), over dy where it can. Keeps x or y, as the formula says. If
// the formula keeps y and the op gets the last reference to x (relu(std::move(x))), y is written
// over x.
Tensor pointwise(Tensor x, const formula::AnyPointwise& f);

}  // namespace detail

// y = max(x, 0), element by element, as with every op here.
inline Tensor relu(Tensor x) { return detail::pointwise(std::move(x), detail::formula::Relu{}); }
// y = x Phi(x), with the normal distribution function Phi.
inline Tensor gelu(Tensor x) { return detail::pointwise(std::move(x), detail::formula::Gelu{}); }
// The usual approximation of gelu by tanh, which GPT-2 uses.
inline Tensor gelu_tanh(Tensor x) {
  return detail::pointwise(std::move(x), detail::formula::GeluTanh{});
}
// y = 1 / (1 + exp(-x)).
inline Tensor sigmoid(Tensor x) {
  return detail::pointwise(std::move(x), detail::formula::Sigmoid{});
}
// y = tanh(x).
inline Tensor tanh(Tensor x) { return detail::pointwise(std::move(x), detail::formula::Tanh{}); }
// y = x / (1 + exp(-x)).
inline Tensor silu(Tensor x) { return detail::pointwise(std::move(x), detail::formula::Silu{}); }
// y = x > 0 ? x : slope * x. Throws Error unless slope > 0, because backward reads the sign of x
// from y.
inline Tensor leaky_relu(Tensor x, double slope = 0.01) {
  detail::check(slope > 0, "[leaky_relu] slope is {}, expected more than 0", slope);
  return detail::pointwise(std::move(x), detail::formula::LeakyRelu{slope});
}

}  // namespace accrue
