#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/inside.h"
#include "kernels/backend.h"

namespace accrue::cpu {

// Runs of elements of any floating dtype, in the type W = Wide<T> in which they are computed. Wide
// elements are used where they lie, and 16-bit elements are copied into a buffer. A kernel that
// loops over such runs is compiled only for float and double. It rounds to 16 bits when it stores,
// as a kernel compiled for 16 bits would. A kernel that adds up within a run must not use them,
// because the order of a vectorised sum depends on the type.
inline constexpr int64_t wide_run = 1024;

// widen_run(): out[i] = x[first + i] for i in [0, n), where x has 16 bits. round_run() goes back.
void widen_run(float* out, const View& x, int64_t first, int64_t n);
void round_run(const View& y, int64_t first, const float* values, int64_t n);

// Elements [first, first + n) of x, for reading; n is at most `room`.
template <class W, int64_t room = wide_run>
class WideInput {
 public:
  WideInput(const View& x, int64_t first, int64_t n) {
    if (x.dtype == dtype_of<W>()) {
      data_ = x.as<const W>() + first;
    } else if constexpr (std::is_same_v<W, float>) {
      widen_run(room_, x, first, n);
      data_ = room_;
    }
  }
  WideInput(const WideInput&) = delete;
  const W* data() const { return data_; }

 private:
  const W* data_ = nullptr;
  W room_[std::is_same_v<W, float> ? room : 1];
};

// Elements of y for writing. If beta is not 0, they are added to, and data() begins with their old
// values. The destructor rounds them to 16 bits.
template <class W, int64_t room = wide_run>
class WideOutput {
 public:
  WideOutput(const View& y, float beta, int64_t first, int64_t n) : y_(y), first_(first), n_(n) {
    if (y_.dtype == dtype_of<W>()) {
      data_ = y_.as<W>() + first;
    } else if constexpr (std::is_same_v<W, float>) {
      if (beta != 0) widen_run(room_, y_, first, n);
      data_ = room_;
    }
  }
  WideOutput(const WideOutput&) = delete;
  ~WideOutput() {
    if constexpr (std::is_same_v<W, float>)
      if (data_ == room_) round_run(y_, first_, room_, n_);
  }
  W* data() const { return data_; }

 private:
  const View& y_;
  int64_t first_, n_;
  W* data_ = nullptr;
  W room_[std::is_same_v<W, float> ? room : 1];
};

// Calls body.operator()<W>() with the type in which elements of this dtype are computed.
template <class Body>
void dispatch_widened(DType dtype, Body&& body) {
  check(is_floating(dtype), "expected a floating dtype, got {}", name(dtype));
  dispatch_wide(wide(dtype), body);
}

// Calls body(first, n) for runs that cover [0, n) elements of this dtype.
template <class Body>
void for_each_wide_run(DType dtype, int64_t n, Body&& body) {
  parallel_for(n, 1, [&](int64_t begin, int64_t end) {
    const int64_t most = is_16_bit_dtype(dtype) ? wide_run : end - begin;
    for (int64_t first = begin; first < end; first += most)
      body(first, std::min(most, end - first));
  });
}

}  // namespace accrue::cpu
