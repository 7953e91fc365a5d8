#pragma once

#include "core/launch.cuh"
#include "kernels/detail/pool_kernels.h"

// Windows and pixels of the pools' kernels, with channels first and last.
namespace accrue::cuda {

template <int64_t side>
using PoolConstant = std::integral_constant<int64_t, side>;

// Where the windows lie along rows or columns. The side, the step and the padding of a window are
// constants in the usual case, see with_geometry. The dilation mostly is.
template <class Side, class Step, class Padding, class Dilation>
struct PoolAxis {
  Side kernel;
  Step stride;
  Padding padding;
  Dilation dilation;
};
// x has planes of H x W pixels, y of GH x GW windows.
template <class Side, class Step, class Padding, class Dilation>
struct PoolGeometry {
  int64_t H, W, GH, GW;
  PoolAxis<Side, Step, Padding, Dilation> h, w;
};

using UsualGeometry =
    PoolGeometry<PoolConstant<2>, PoolConstant<2>, PoolConstant<0>, PoolConstant<1>>;
using AnyGeometry = PoolGeometry<int64_t, int64_t, int64_t, PoolConstant<1>>;
using DilatedGeometry = PoolGeometry<int64_t, int64_t, int64_t, int64_t>;

// The item of a grid-stride loop, as a place in planes of H x W. With channels first that is a
// pixel or a window. With channels last a plane is a sample, and each of its places has a number of
// vectors of channels, of which the item is one. It divides once and then adds with carry: a
// division per item would take longer than the item's memory accesses.
template <class Vectors = PoolConstant<1>>
class PoolPlace {
 public:
  __device__ PoolPlace(int64_t H, int64_t W, Vectors vectors = {})
      : item(first_item()),
        vector(item % vectors),
        w(item / vectors % W),
        h(item / vectors / W % H),
        plane(item / vectors / W / H),
        vectors_(vectors),
        H_(H),
        W_(W),
        step_vector_(item_stride() % vectors),
        step_w_(item_stride() / vectors % W),
        step_h_(item_stride() / vectors / W % H),
        step_plane_(item_stride() / vectors / W / H) {}

  __device__ void advance() {
    item += item_stride();
    w += step_w_, h += step_h_, plane += step_plane_;
    if constexpr (!std::is_same_v<Vectors, PoolConstant<1>>) {
      vector += step_vector_;
      if (vector >= vectors_) vector -= vectors_, ++w;
    }
    if (w >= W_) w -= W_, ++h;
    if (h >= H_) h -= H_, ++plane;
  }

  int64_t item, vector, w, h, plane;

 private:
  Vectors vectors_;
  int64_t H_, W_, step_vector_, step_w_, step_h_, step_plane_;
};

// The number in x of a window's first place. In the padding, this is not a pixel of x.
template <class Geometry, class Place>
__device__ int64_t first_pixel(const Geometry& s, const Place& window) {
  return (window.plane * s.H + window.h * s.h.stride - s.h.padding) * s.W + window.w * s.w.stride -
         s.w.padding;
}

// The pixels [begin, end) along one dimension of a window that lie within the image, which has
// `size` pixels there.
struct PoolSpan {
  int64_t begin, end;
};
template <class Axis>
__device__ PoolSpan inside(const Axis& s, int64_t window, int64_t size) {
  const int64_t first = window * s.stride - s.padding, before = s.dilation - 1;
  return {max(int64_t{0}, before - first) / s.dilation,
          min(int64_t{s.kernel}, (size - first + before) / s.dilation)};
}
template <class Side, class Step>
__device__ PoolSpan inside(const PoolAxis<Side, Step, PoolConstant<0>, PoolConstant<1>>& s, int64_t,
                           int64_t) {
  return {0, s.kernel};
}

// The windows [begin, end) along one dimension that hold its pixel p, counted from the padding's
// first, of G windows.
template <class Axis>
__device__ PoolSpan windows_with(int64_t p, int64_t G, const Axis& s) {
  return {p < s.kernel ? 0 : (p - s.kernel) / s.stride + 1, min(p / s.stride + 1, G)};
}

// Returns the sum of the shares that a pixel of dx gets from the windows that contain it.
template <class Place, class Geometry, class Share>
__device__ auto share_of_windows(const Place& pixel, const Geometry& s, const Share& share) {
  using T = decltype(share(0, 0));
  const int64_t h = pixel.h + s.h.padding, w = pixel.w + s.w.padding;
  const PoolSpan rows = windows_with(h, s.GH, s.h), columns = windows_with(w, s.GW, s.w);
  T sum{};
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    T of_row{};
    for (int64_t j = columns.begin; j < columns.end; ++j)
      of_row += share((pixel.plane * s.GH + i) * s.GW + j,
                      (h - i * s.h.stride) * s.w.kernel + w - j * s.w.stride);
    sum += of_row;
  }
  return sum;
}
// These windows do not overlap: at most one contains a pixel.
template <class Place, class Share>
__device__ auto share_of_windows(const Place& pixel, const UsualGeometry& s, const Share& share) {
  using T = decltype(share(0, 0));
  constexpr int64_t side = 2;
  const int64_t i = pixel.h / side, j = pixel.w / side;
  if (i >= s.GH || j >= s.GW) return T{};
  return share((pixel.plane * s.GH + i) * s.GW + j, pixel.h % side * side + pixel.w % side);
}
// A dilated window reaches over pixels that it does not contain.
template <class Place, class Share>
__device__ auto share_of_windows(const Place& pixel, const DilatedGeometry& s, const Share& share) {
  using T = decltype(share(0, 0));
  const auto reaching = [](int64_t p, int64_t G, const auto& axis) {
    const int64_t extent = (axis.kernel - 1) * axis.dilation + 1;
    return PoolSpan{p < extent ? 0 : (p - extent) / axis.stride + 1, min(p / axis.stride + 1, G)};
  };
  const int64_t h = pixel.h + s.h.padding, w = pixel.w + s.w.padding;
  const PoolSpan rows = reaching(h, s.GH, s.h), columns = reaching(w, s.GW, s.w);
  T sum{};
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    const int64_t down = h - i * s.h.stride;
    if (down % s.h.dilation != 0) continue;
    T of_row{};
    for (int64_t j = columns.begin; j < columns.end; ++j) {
      const int64_t across = w - j * s.w.stride;
      if (across % s.w.dilation == 0)
        of_row += share((pixel.plane * s.GH + i) * s.GW + j,
                        down / s.h.dilation * s.w.kernel + across / s.w.dilation);
    }
    sum += of_row;
  }
  return sum;
}

inline AnyGeometry any_geometry(const Shape& x, const Shape& y, const Pool2dShape& s) {
  return {x[2],
          x[3],
          y[2],
          y[3],
          {s.kernel.h, s.stride.h, s.padding.h, {}},
          {s.kernel.w, s.stride.w, s.padding.w, {}}};
}

// Calls body with the Geometry of pooling x to y.
template <class Body>
void with_geometry(const Shape& x, const Shape& y, Pool2dShape s, Body&& body) {
  if (has_usual_windows(x, y, s)) body(UsualGeometry{x[2], x[3], y[2], y[3], {}, {}});
  else body(any_geometry(x, y, s));
}

// with_geometry() of a maximum, whose windows may be dilated.
template <class Body>
void with_geometry_of_max(const Shape& x, const Shape& y, const Pool2dShape& s, Body&& body) {
  if (s.dilation == 1) return with_geometry(x, y, s, body);
  body(DilatedGeometry{x[2],
                       x[3],
                       y[2],
                       y[3],
                       {s.kernel.h, s.stride.h, s.padding.h, s.dilation.h},
                       {s.kernel.w, s.stride.w, s.padding.w, s.dilation.w}});
}

// The kernels of images with channels last.
void max_pool2d_channels_last(View y, View winner, View x, Pool2dShape s, Activation activation);
void max_pool2d_channels_last_backward(GradTarget dx, View dy, View winner, Pool2dShape s);
void global_avg_pool2d_channels_last(View y, View x);
void global_avg_pool2d_channels_last_backward(GradTarget dx, View dy);
}  // namespace accrue::cuda
