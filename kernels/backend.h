#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/autograd.h"
#include "core/kernel_trace.h"
#include "core/rule.h"
#include "core/tensor.h"
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
// first, then inputs, then scalars. A Profile of this thread and device times it, and a KernelTrace
// sees it.
template <auto CpuKernel, decltype(CpuKernel) CudaKernel, class... Args>
void launch(Device device, Args&&... args) {
  using namespace detail;
  if (KernelTrace::current()) [[unlikely]]
    KernelCall::note<CpuKernel>(kernel_name<CpuKernel>(), args...);
  Profile* const profile = Profile::current(device);
  if (profile) [[unlikely]]
    profile->begin_kernel(kernel_name<CpuKernel>(), WorkOf<CpuKernel>()(args...));
  if (device == Device::cpu) CpuKernel(std::forward<Args>(args)...);
  if constexpr (built_with_cuda)
    if (device == Device::cuda) CudaKernel(std::forward<Args>(args)...);
  if (profile) [[unlikely]]
    profile->end_kernel();
}

// launch() of a kernel that has no twin for CUDA, such as one of another project's. Throws Error
// for a tensor there, and for one on its meta device.
template <auto CpuKernel, class... Args>
void launch_on_cpu(Device device, Args&&... args) {
  using namespace detail;
  check(!plans_for_cuda(device), "[{}] has a kernel for the cpu alone, and its operands are on {}",
        kernel_name<CpuKernel>(), name(device));
  launch<CpuKernel, CpuKernel>(device, std::forward<Args>(args)...);
}

// A parameter as an op on tensors of `dtype` reads and saves it: its 16-bit copy where it has one
// of that dtype (core/parameters.h), else itself. Its gradient is its own, in float32.
inline Tensor operand(const Tensor& parameter, DType dtype) {
  const auto& variable = parameter.variable();
  const bool has_copy = variable && variable->copy.defined() && variable->copy.dtype() == dtype;
  return has_copy ? variable->copy.saved() : parameter.saved();
}

// Where an op writes a result that its backward does not read: no elements if result_is_unread(),
// and then the op launches nothing.
Tensor empty_result(const Shape& shape, DType dtype, Device device);

// The target of the gradient of an input whose value x a closure has kept to its end: in x's place
// where the forward's tensors are gone and x is the closure's alone.
std::optional<detail::GradTarget> claim_grad_over_value(const detail::Edge& edge, Tensor& x);
// claim_grads() of two such inputs, whose kernel reads each element of both before it writes. A
// value that is undefined is not written over.
std::pair<std::optional<detail::GradTarget>, std::optional<detail::GradTarget>>
claim_grads_over_values(const detail::Edge& a_edge, const Tensor& a, const detail::Edge& b_edge,
                        const Tensor& b);

// Throws Error unless all tensors are on one device and of one floating dtype.
void check_same(std::string_view op, std::initializer_list<const Tensor*> tensors);

namespace detail {

// Throws Error unless w, the operand that a parameter is, goes with x: as in check_same(), or
// stored otherwise (is_stored_type()), in whole blocks, and of a parameter that wants no gradient.
void check_weight(std::string_view op, const Tensor& x, const Tensor& w, const Tensor& parameter);

}  // namespace detail

}  // namespace accrue
