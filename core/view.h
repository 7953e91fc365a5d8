#pragma once

#include "core/device.h"
#include "core/dtype.h"
#include "core/shape.h"

namespace accrue::detail {

// A tensor as a kernel sees it: contiguous row-major elements, their shape, type and device. `data`
// is null on a meta device, and for any other tensor without elements.
struct View {
  void* data = nullptr;
  Shape shape;
  DType dtype = DType::f32;
  Device device = Device::cpu;

  int64_t numel() const { return shape.numel(); }

  // Throws Error if the elements have another type, or if there are no elements (`data` is null).
  template <class T>
  T* as() const {
    constexpr DType wanted = dtype_of<std::remove_const_t<T>>();
    check(dtype == wanted, "a kernel expected {}, got {} {}", name(wanted), name(dtype), shape);
    check(data || numel() == 0, "a kernel asked for the elements of {} {} on {}: it has none",
          name(dtype), shape, name(device));
    return static_cast<T*>(data);
  }
  // Elements [begin, end) of a flat view.
  View part(int64_t begin, int64_t end) const {
    void* const first = data ? static_cast<char*>(data) + begin * int64_t(size_of(dtype)) : nullptr;
    return {first, {end - begin}, dtype, device};
  }
};

}  // namespace accrue::detail
