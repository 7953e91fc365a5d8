#pragma once

#include "core/device.h"
#include "core/dtype.h"
#include "core/shape.h"

namespace accrue {

// All that a kernel sees of a tensor: contiguous row-major elements and what they are.
// On Device::meta `data` is null.
struct View {
  void* data = nullptr;
  Shape shape;
  DType dtype = DType::f32;
  Device device = Device::cpu;

  int64_t numel() const { return shape.numel(); }

  template <class T>
  T* as() const {
    check(dtype == dtype_of<T>(), "a kernel expected {}, got {} {}", name(dtype_of<T>()),
          name(dtype), shape);
    return static_cast<T*>(data);
  }
};

}  // namespace accrue
