#pragma once

#include <cstdint>

#include "core/ceil_div.h"
#include "core/host_device.h"
#include "core/inside.h"

namespace accrue {

// A dimension that is resized from `in` to `out` pixels: pixel o reads pixel floor(o * in / out).
// The pixels of both sides may also be numbered through all planes of a tensor, because a plane's
// first pixel reads the first pixel of its plane.
struct ResizedAxis {
  ResizedAxis(int64_t in, int64_t out) : in(in), out(out), whole(out % in == 0 ? out / in : 0) {}

  HOST_DEVICE int64_t source(int64_t o) const { return whole ? o / whole : o * in / out; }
  // Pixel i is read by the pixels [first(i), first(i + 1)). There is no division if each pixel is
  // read equally often, because backward calls this for every pixel.
  HOST_DEVICE int64_t first(int64_t i) const { return whole ? i * whole : ceil_div(i * out, in); }

  int64_t in, out;
  int64_t whole;  // out / in, or 0 if that is no integer
};

}  // namespace accrue
