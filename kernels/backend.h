#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/autograd.h"
#include "core/tensor.h"
#include "kernels/host_device.h"
#include "kernels/parallel.h"
#include "kernels/work.h"

namespace accrue {

#ifdef ACCRUE_WITH_CUDA
inline constexpr bool built_with_cuda = true;
#else
inline constexpr bool built_with_cuda = false;
#endif

// Runs an op's kernel on the device: the CPU's, or its twin with the same arguments, which enqueues
// the work on CUDA's stream. On a meta device it computes nothing. Kernels take their outputs
// first, then inputs, then scalars. A Profile of this thread and device times it.
template <auto CpuKernel, decltype(CpuKernel) CudaKernel, class... Args>
void launch(Device device, Args&&... args) {
  Profile* const profile = Profile::current(device);
  if (profile) [[unlikely]]
    profile->begin_kernel(kernel_name<CpuKernel>(), WorkOf<CpuKernel>()(args...));
  if (device == Device::cpu) CpuKernel(std::forward<Args>(args)...);
  if constexpr (built_with_cuda)
    if (device == Device::cuda) CudaKernel(std::forward<Args>(args)...);
  if (profile) [[unlikely]]
    profile->end_kernel();
}

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

// Stores by the constant that with_beta chose, rounding once.
template <bool accumulate, class T>
HOST_DEVICE void store(T& dst, Wide<T> value, std::bool_constant<accumulate>) {
  if constexpr (accumulate) dst = T(dst + value);
  else dst = T(value);
}

// A parameter as an op on tensors of `dtype` reads it: its 16-bit copy where it has one of that
// dtype (core/parameters.h), else itself. Its gradient is its own, in float32.
inline Tensor operand(const Tensor& parameter, DType dtype) {
  const auto& variable = parameter.variable();
  const bool has_copy = variable && variable->copy.defined() && variable->copy.dtype() == dtype;
  return has_copy ? variable->copy : parameter.detach();
}

// Throws Error unless all tensors are on one device and of one floating dtype.
void check_same(std::string_view op, std::initializer_list<const Tensor*> tensors);

}  // namespace accrue
