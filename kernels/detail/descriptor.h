#pragma once

#include <memory>

#include "core/cuda_context.h"

namespace accrue::cuda {

// Calls the library's function that destroys the descriptor.
template <auto destroy>
struct Destroy {
  template <class T>
  static T pointee(cublasStatus_t (*)(T*));
  template <class T>
  static T pointee(cudnnStatus_t (*)(T*));
  using Opaque = decltype(pointee(destroy));

  void operator()(Opaque* descriptor) const { destroy(descriptor); }
};

// Owns a descriptor of cuBLASLt or cuDNN. The type is named by the function that destroys the
// descriptor: Descriptor<cudnnDestroyTensorDescriptor>.
template <auto destroy>
using Descriptor = std::unique_ptr<typename Destroy<destroy>::Opaque, Destroy<destroy>>;

template <auto destroy, class Create, class... Args>
Descriptor<destroy> make_descriptor(Create create, Args... args) {
  typename Descriptor<destroy>::pointer made = nullptr;
  check_call(create(&made, args...), "make a descriptor");
  return Descriptor<destroy>(made);
}

}  // namespace accrue::cuda
