#pragma once

#include "core/device.h"
#include "core/dtype.h"
#include "core/shape.h"

namespace accrue {

// All that a kernel sees of a tensor: contiguous row-major elements, their shape, type and device.
// `data` is null on a meta device.
struct View {
  void* data = nullptr;
  Shape shape;
  DType dtype = DType::f32;
  Device device = Device::cpu;

  int64_t numel() const { return shape.numel(); }

  template <class T>
  T* as() const {
    constexpr DType wanted = dtype_of<std::remove_const_t<T>>();
    check(dtype == wanted, "a kernel expected {}, got {} {}", name(wanted), name(dtype), shape);
    return static_cast<T*>(data);
  }
  // Elements [begin, end) of a flat view.
  View part(int64_t begin, int64_t end) const {
    void* const first = data ? static_cast<char*>(data) + begin * int64_t(size_of(dtype)) : nullptr;
    return {first, {end - begin}, dtype, device};
  }
};

}  // namespace accrue
