#pragma once

#include <cstdint>
#include <span>

namespace accrue {

// The distribution from which a parameter's initial values are drawn.
struct Init {
  enum class Kind { constant, uniform, normal } kind = Kind::constant;
  // The constant; the half-width of the uniform distribution around 0; the standard deviation of
  // the normal one around `mean`.
  double scale = 0;
  double mean = 0;
  // `zeros` values from `first_zero` on are 0 in place of what is drawn for them.
  int64_t first_zero = 0, zeros = 0;

  static Init constant(double value) { return {Kind::constant, value}; }
  static Init uniform(double half_width) { return {Kind::uniform, half_width}; }
  static Init normal(double deviation, double mean = 0) { return {Kind::normal, deviation, mean}; }

  // The distribution of PyTorch's nn.Linear and nn.Conv2d, of weights and biases alike:
  // U(-1/sqrt(fan_in), 1/sqrt(fan_in)).
  static Init lecun_uniform(int64_t fan_in);
  // N(0, 2/fan) (He et al. 2015). Through relu, it keeps the variance of the activations if fan is
  // fan_in, and the variance of their gradients if fan is fan_out.
  static Init kaiming_normal(int64_t fan);
  // U(-a, a) with a = sqrt(6/(fan_in + fan_out)) (Glorot & Bengio 2010).
  static Init xavier_uniform(int64_t fan_in, int64_t fan_out);

  // Draws from the random stream (seed, stream).
  template <class T>
  void fill(std::span<T> values, uint64_t seed, uint64_t stream) const;
};

// The rule for drawing a model's weight matrices and filters; biases and norms keep their own
// rules.
enum class InitScheme { kaiming, kaiming_fan_out, xavier, lecun, normal };

namespace detail {

// The Init of a weight with these fans: kaiming_normal of fan_in or fan_out, xavier_uniform,
// lecun_uniform or N(0, 0.02).
Init weight_init(InitScheme scheme, int64_t fan_in, int64_t fan_out);

}  // namespace detail

}  // namespace accrue
