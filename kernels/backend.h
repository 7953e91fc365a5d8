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

// Runs an op's kernel on the device. CudaKernel takes the same arguments as CpuKernel and enqueues
// the work on CUDA's stream. On a meta device nothing is computed. Kernels take their outputs
// first, then inputs, then scalars. If this thread has a Profile of the device, it times the
// kernel, and a KernelTrace records the call.
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

// launch() for a kernel without a CUDA twin, such as a kernel of another project. Throws Error if
// the device is cuda or its meta device.
template <auto CpuKernel, class... Args>
void launch_on_cpu(Device device, Args&&... args) {
  using namespace detail;
  check(!plans_for_cuda(device), "[{}] has a kernel for the cpu alone, and its operands are on {}",
        kernel_name<CpuKernel>(), name(device));
  launch<CpuKernel, CpuKernel>(device, std::forward<Args>(args)...);
}

// The tensor that an op on tensors of `dtype` reads and saves for a parameter: the parameter's
// 16-bit copy if it has one of that dtype (core/parameters.h), else the parameter itself. The
// gradient belongs to the parameter, in float32, either way.
inline Tensor operand(const Tensor& parameter, DType dtype) {
  const auto& variable = parameter.variable();
  const bool has_copy = variable && variable->copy.defined() && variable->copy.dtype() == dtype;
  return has_copy ? variable->copy.saved() : parameter.saved();
}

// Allocates a result that the op's backward does not read. If result_is_unread(), the result has no
// elements, and the op launches nothing.
Tensor empty_result(const Shape& shape, DType dtype, Device device);

// Claims the target for the gradient of an input whose value x a closure has kept until now. The
// target is x's own memory if the forward's tensors are gone and the closure alone holds x.
std::optional<detail::GradTarget> claim_grad_over_value(const detail::Edge& edge, Tensor& x);
// Does the same for two inputs of a kernel that reads each element of both before it writes there.
// An undefined value is not written over.
std::pair<std::optional<detail::GradTarget>, std::optional<detail::GradTarget>>
claim_grads_over_values(const detail::Edge& a_edge, const Tensor& a, const detail::Edge& b_edge,
                        const Tensor& b);

// Throws Error unless all tensors are on one device and of one floating dtype.
void check_same(std::string_view op, std::initializer_list<const Tensor*> tensors);

namespace detail {

// Throws Error unless w, the operand() of `parameter`, fits x. Either w passes check_same() with x,
// or it is stored in another type (is_stored_type()), in whole blocks, and the parameter wants no
// gradient.
void check_weight(std::string_view op, const Tensor& x, const Tensor& w, const Tensor& parameter);

}  // namespace detail

}  // namespace accrue
