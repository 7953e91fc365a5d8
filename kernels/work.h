#pragma once

#include <optional>
#include <string_view>

#include "core/autograd.h"
#include "core/profile.h"

// Computes the work of the kernels that launch() calls (kernels/backend.h), for a Profile.
namespace accrue::detail {

// An absent view has no bytes. It is recognized by its missing data, except on a meta device, where
// no view has data.
inline double bytes_of(const View& x) {
  return x.data || is_meta(x.device) ? double(bytes_of(x.dtype, x.numel())) : 0;
}
inline double bytes_of(const GradTarget& x) { return (x.beta == 0 ? 1 : 2) * bytes_of(x.grad); }
inline double bytes_of(const std::optional<GradTarget>& x) { return x ? bytes_of(*x) : 0; }
template <class Scalar>
double bytes_of(const Scalar&) {
  return 0;
}

// The work of a kernel that does `flops` operations and touches each argument once.
template <class... Args>
Work work_of(double flops, const Args&... args) {
  return {.flops = flops, .bytes = (0.0 + ... + bytes_of(args))};
}

// The work of a kernel, derived from its arguments. By default it has no products, touches each
// view once, and touches each target of a gradient once, or twice with beta 1. Other kernels
// specialise this beside their declaration. Bytes count even if they stay in a cache.
template <auto Kernel>
struct WorkOf {
  template <class... Args>
  Work operator()(const Args&... args) const {
    return work_of(0, args...);
  }
};

// "linear_forward", of &cpu::linear_forward.
template <auto Kernel>
constexpr std::string_view kernel_name() {
  constexpr std::string_view text = __PRETTY_FUNCTION__, before = "Kernel = ";
  constexpr size_t begin = text.find(before) + before.size();
  constexpr std::string_view name = text.substr(begin, text.find_first_of("<;]", begin) - begin);
  return name.substr(name.rfind(':') + 1);
}

}  // namespace accrue::detail
