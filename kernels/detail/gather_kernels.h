#pragma once

#include <cstdint>

#include "core/host_device.h"
#include "core/inside.h"
#include "kernels/backend.h"

namespace accrue {

// x [O, V, I] and y [O, K, I], and which number of the index is that of y[o, k, i]: all of it, or
// index[k] for all o and i.
struct Gathering {
  int64_t O, V, K, I;
  bool is_shared;

  HOST_DEVICE int64_t lanes() const { return O * I; }
  HOST_DEVICE int64_t index_at(int64_t o, int64_t k, int64_t i) const {
    return is_shared ? k : (o * K + k) * I + i;
  }
};

namespace cpu {

// y[o, k, i] = x[o, index, i]
void gather_elements(View y, View x, View index, const Gathering& shape);
// dx[o, v, i] = sum over k whose index is v of dy[o, k, i] + beta * dx[o, v, i]. `sums` has the
// shape of dx in float32 where dx has 16 bits, else it is absent.
void gather_elements_backward(GradTarget dx, View dy, View index, View sums,
                              const Gathering& shape);

}  // namespace cpu

namespace cuda {
decltype(cpu::gather_elements) gather_elements;
decltype(cpu::gather_elements_backward) gather_elements_backward;
}  // namespace cuda

}  // namespace accrue
