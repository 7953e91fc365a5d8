#pragma once

#include "core/host_device.h"

namespace accrue {

// dw of one element of a spectrally normalised weight, with s = sum dy * y
// (kernels/spectral_norm.h).
template <class T>
HOST_DEVICE T spectral_gradient(T dy, T s, T u, T v, T sigma) {
  return (dy - s * u * v) / sigma;
}

}  // namespace accrue
