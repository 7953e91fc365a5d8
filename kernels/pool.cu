#include "kernels/detail/formulas.h"
#include "kernels/detail/pool_kernels.h"
#include "kernels/detail/reduce.cuh"

namespace accrue::cuda {
namespace {

template <int64_t side>
using Constant = std::integral_constant<int64_t, side>;

// Where the windows lie along rows or columns. The side, the step and the padding of a window are
// constants in the usual case, see with_geometry. The dilation mostly is.
template <class Side, class Step, class Padding, class Dilation>
struct Axis {
  Side kernel;
  Step stride;
  Padding padding;
  Dilation dilation;
};
// x has planes of H x W pixels, y of GH x GW windows.
template <class Side, class Step, class Padding, class Dilation>
struct Geometry {
  int64_t H, W, GH, GW;
  Axis<Side, Step, Padding, Dilation> h, w;
};

using UsualGeometry = Geometry<Constant<2>, Constant<2>, Constant<0>, Constant<1>>;
using AnyGeometry = Geometry<int64_t, int64_t, int64_t, Constant<1>>;
using DilatedGeometry = Geometry<int64_t, int64_t, int64_t, int64_t>;

// The item of a grid-stride loop, as a place in planes of H x W. It divides once and then adds with
// carry: a division per item would take longer than the item's memory accesses.
class Place {
 public:
  __device__ Place(int64_t H, int64_t W)
      : item(first_item()),
        w(item % W),
        h(item / W % H),
        plane(item / W / H),
        H_(H),
        W_(W),
        step_w_(item_stride() % W),
        step_h_(item_stride() / W % H),
        step_plane_(item_stride() / W / H) {}

  __device__ void advance() {
    item += item_stride();
    w += step_w_, h += step_h_, plane += step_plane_;
    if (w >= W_) w -= W_, ++h;
    if (h >= H_) h -= H_, ++plane;
  }

  int64_t item, w, h, plane;

 private:
  int64_t H_, W_, step_w_, step_h_, step_plane_;
};

// The offset in x of a window's first place. In the padding, this is not a pixel of x.
template <class Geometry>
__device__ int64_t first_pixel(const Geometry& s, const Place& window) {
  return (window.plane * s.H + window.h * s.h.stride - s.h.padding) * s.W + window.w * s.w.stride -
         s.w.padding;
}

// The pixels [begin, end) along one dimension of a window that lie within the image, which has
// `size` pixels there.
struct Range {
  int64_t begin, end;
};
template <class Axis>
__device__ Range inside(const Axis& s, int64_t window, int64_t size) {
  const int64_t first = window * s.stride - s.padding, before = s.dilation - 1;
  return {max(int64_t{0}, before - first) / s.dilation,
          min(int64_t{s.kernel}, (size - first + before) / s.dilation)};
}
template <class Side, class Step>
__device__ Range inside(const Axis<Side, Step, Constant<0>, Constant<1>>& s, int64_t, int64_t) {
  return {0, s.kernel};
}

// A thread owns windows, a grid apart. Neighbouring windows read neighbouring pixels, and the cache
// serves pixels and sectors that several threads read. With a constant side the loops unroll, and
// the loads of a window are in flight together.
template <class T, class Geometry>
__global__ void __launch_bounds__(block_threads)
    max_pool2d_kernel(T* y, uint8_t* winner, const T* x, int64_t n, Geometry s,
                      Activation activation) {
  for (Place window(s.GH, s.GW); window.item < n; window.advance()) {
    const int64_t first = first_pixel(s, window);
    const Range rows = inside(s.h, window.h, s.H), columns = inside(s.w, window.w, s.W);
    Wide<T> best = x[first + rows.begin * s.h.dilation * s.W + columns.begin * s.w.dilation];
    int64_t best_at = rows.begin * s.w.kernel + columns.begin;
    for (int64_t i = 0; i < s.h.kernel; ++i)
      for (int64_t j = 0; j < s.w.kernel; ++j) {
        // Not the loops' bounds, which are to be constants.
        if (i < rows.begin || i >= rows.end || j < columns.begin || j >= columns.end) continue;
        const Wide<T> v = x[first + i * s.h.dilation * s.W + j * s.w.dilation];
        if (!wins(v, best)) continue;
        best = v;
        best_at = i * s.w.kernel + j;
      }
    if (activation == Activation::relu) {
      if (!(best > 0)) best_at = no_winner;
      best = formula::Relu{}(best);
    }
    y[window.item] = T(best);
    winner[window.item] = static_cast<uint8_t>(best_at);
  }
}

// Maps windows to threads as max_pool2d_kernel does. Sums row by row, so that the rounding error
// grows with the window's side, not its area.
template <class T, class Geometry>
__global__ void __launch_bounds__(block_threads)
    avg_pool2d_kernel(T* y, const T* x, int64_t n, Geometry s, Wide<T> share) {
  for (Place window(s.GH, s.GW); window.item < n; window.advance()) {
    const T* in = x + first_pixel(s, window);
    Wide<T> sum = 0;
    for (int64_t i = 0; i < s.h.kernel; ++i) {
      Wide<T> of_row = 0;
      for (int64_t j = 0; j < s.w.kernel; ++j) of_row += in[i * s.W + j];
      sum += of_row;
    }
    y[window.item] = T(share * sum);
  }
}

// The windows of a mean along each dimension, where they reach beyond the image.
struct Counted {
  int64_t H, W, GW, GH;
  AnyGeometry s;
  bool include_padding;

  __device__ PoolRange rows(int64_t window) const {
    return {window, H, s.h.kernel, s.h.stride, s.h.padding, include_padding};
  }
  __device__ PoolRange columns(int64_t window) const {
    return {window, W, s.w.kernel, s.w.stride, s.w.padding, include_padding};
  }
};

// The mapping of avg_pool2d_kernel.
template <class T>
__global__ void __launch_bounds__(block_threads)
    avg_pool2d_padded_kernel(T* y, const T* x, int64_t n, Counted counted) {
  for (Place window(counted.GH, counted.GW); window.item < n; window.advance()) {
    const T* in = x + first_pixel(counted.s, window);
    const PoolRange rows = counted.rows(window.h), columns = counted.columns(window.w);
    Wide<T> sum = 0;
    for (int64_t i = rows.begin; i < rows.end; ++i) {
      Wide<T> of_row = 0;
      for (int64_t j = columns.begin; j < columns.end; ++j) of_row += in[i * counted.W + j];
      sum += of_row;
    }
    y[window.item] = T(1 / static_cast<Wide<T>>(rows.count * columns.count) * sum);
  }
}

// A warp shares a plane of P pixels, so that its reads are contiguous.
template <class T>
__global__ void __launch_bounds__(block_threads)
    global_avg_pool2d_kernel(T* y, const T* x, int64_t planes, int64_t P) {
  const int lane = threadIdx.x % warp_threads;
  for (int64_t plane = first_item() / warp_threads; plane < planes;
       plane += item_stride() / warp_threads) {
    RunningSum<Wide<T>> sum;
    for (int64_t i = lane; i < P; i += warp_threads) sum.add(x[plane * P + i]);
    const Wide<T> total = warp_sum(sum.total());
    if (lane == 0) y[plane] = T(total / static_cast<Wide<T>>(P));
  }
}

// A thread writes pixels, a grid apart, in planes of P pixels.
template <bool accumulate, class T>
__global__ void __launch_bounds__(block_threads)
    global_avg_pool2d_backward_kernel(T* dx, const T* dy, int64_t n, int64_t P, Wide<T> share) {
  for (Place pixel(1, P); pixel.item < n; pixel.advance())
    store(dx[pixel.item], share * dy[pixel.plane], std::bool_constant<accumulate>{});
}

// Returns the share of its gradient that a window gives to its pixel number `at`.
template <class T>
struct ToWinner {
  const T* dy;
  const uint8_t* winner;
  __device__ Wide<T> operator()(int64_t window, int64_t at) const {
    return winner[window] == at ? widen(dy[window]) : Wide<T>(0);
  }
};
template <class T>
struct ToAll {
  const T* dy;
  Wide<T> share;
  __device__ Wide<T> operator()(int64_t window, int64_t) const { return share * dy[window]; }
};

// The share of all in windows that reach beyond the image.
template <class T>
struct ToCounted {
  const T* dy;
  Counted counted;
  __device__ Wide<T> operator()(int64_t window, int64_t) const {
    const int64_t count = counted.rows(window / counted.GW % counted.GH).count *
                          counted.columns(window % counted.GW).count;
    return 1 / static_cast<Wide<T>>(count) * dy[window];
  }
};

// The windows [begin, end) along one dimension that hold its pixel p, counted from the padding's
// first, of G windows.
template <class Axis>
__device__ Range windows_with(int64_t p, int64_t G, const Axis& s) {
  return {p < s.kernel ? 0 : (p - s.kernel) / s.stride + 1, min(p / s.stride + 1, G)};
}

// Returns the sum of the shares that a pixel of dx gets from the windows that contain it.
template <class Geometry, class Share>
__device__ auto share_of_windows(const Place& pixel, const Geometry& s, const Share& share) {
  using T = decltype(share(0, 0));
  const int64_t h = pixel.h + s.h.padding, w = pixel.w + s.w.padding;
  const Range rows = windows_with(h, s.GH, s.h), columns = windows_with(w, s.GW, s.w);
  T sum = 0;
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    T of_row = 0;
    for (int64_t j = columns.begin; j < columns.end; ++j)
      of_row += share((pixel.plane * s.GH + i) * s.GW + j,
                      (h - i * s.h.stride) * s.w.kernel + w - j * s.w.stride);
    sum += of_row;
  }
  return sum;
}
// These windows do not overlap: at most one contains a pixel.
template <class Share>
__device__ auto share_of_windows(const Place& pixel, const UsualGeometry& s, const Share& share) {
  using T = decltype(share(0, 0));
  constexpr int64_t side = 2;
  const int64_t i = pixel.h / side, j = pixel.w / side;
  if (i >= s.GH || j >= s.GW) return T(0);
  return share((pixel.plane * s.GH + i) * s.GW + j, pixel.h % side * side + pixel.w % side);
}
// A dilated window reaches over pixels that it does not contain.
template <class Share>
__device__ auto share_of_windows(const Place& pixel, const DilatedGeometry& s, const Share& share) {
  using T = decltype(share(0, 0));
  const auto reaching = [](int64_t p, int64_t G, const auto& axis) {
    const int64_t extent = (axis.kernel - 1) * axis.dilation + 1;
    return Range{p < extent ? 0 : (p - extent) / axis.stride + 1, min(p / axis.stride + 1, G)};
  };
  const int64_t h = pixel.h + s.h.padding, w = pixel.w + s.w.padding;
  const Range rows = reaching(h, s.GH, s.h), columns = reaching(w, s.GW, s.w);
  T sum = 0;
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    const int64_t down = h - i * s.h.stride;
    if (down % s.h.dilation != 0) continue;
    T of_row = 0;
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

// A thread owns pixels of dx, a grid apart, and sums the shares of the windows that contain each
// pixel. Otherwise overlapping windows would add to a pixel by atomics, in an order that differs
// from run to run. Each pixel is also written exactly once, whether a window contains it or not.
// With the second bound, registers do not spill for the sake of more blocks.
template <bool accumulate, class T, class Geometry, class Share>
__global__ void __launch_bounds__(block_threads, std::is_same_v<Geometry, UsualGeometry> ? 4 : 3)
    pool2d_backward_kernel(T* dx, int64_t n, Geometry s, Share share) {
  for (Place pixel(s.H, s.W); pixel.item < n; pixel.advance())
    store(dx[pixel.item], share_of_windows(pixel, s, share), std::bool_constant<accumulate>{});
}

AnyGeometry any_geometry(const Shape& x, const Shape& y, const Pool2dShape& s) {
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

Counted counted_windows(const Shape& x, const Shape& y, const Pool2dShape& s) {
  return {x[2], x[3], y[3], y[2], any_geometry(x, y, s), s.count_include_pad};
}

template <class T, class Geometry, class Share>
void pool2d_backward(GradTarget dx, const Geometry& geometry, Share share) {
  with_beta(dx.beta, [&](auto accumulate) {
    enqueue(grid_over(dx.grad.numel()),
            pool2d_backward_kernel<accumulate.value, T, Geometry, Share>, dx.grad.as<T>(),
            dx.grad.numel(), geometry, share);
  });
}

template <class T>
Wide<T> share_of(Pool2dShape s) {
  return 1 / static_cast<Wide<T>>(s.kernel.h * s.kernel.w);
}

}  // namespace

void max_pool2d(View y, View winner, View x, Pool2dShape s, Activation activation) {
  dispatch_floating(x.dtype, [&]<class T>() {
    with_geometry_of_max(x.shape, y.shape, s, [&](auto geometry) {
      enqueue(grid_over(y.numel()), max_pool2d_kernel<T, decltype(geometry)>, y.as<T>(),
              winner.as<uint8_t>(), x.as<const T>(), y.numel(), geometry, activation);
    });
  });
}

void max_pool2d_backward(GradTarget dx, View dy, View winner, Pool2dShape s) {
  dispatch_floating(dy.dtype, [&]<class T>() {
    with_geometry_of_max(dx.grad.shape, dy.shape, s, [&](auto geometry) {
      pool2d_backward<T>(dx, geometry, ToWinner<T>{dy.as<const T>(), winner.as<const uint8_t>()});
    });
  });
}

void avg_pool2d(View y, View x, Pool2dShape s) {
  dispatch_floating(x.dtype, [&]<class T>() {
    if (!has_whole_windows(x.shape, y.shape, s)) {
      enqueue(grid_over(y.numel()), avg_pool2d_padded_kernel<T>, y.as<T>(), x.as<const T>(),
              y.numel(), counted_windows(x.shape, y.shape, s));
      return;
    }
    with_geometry(x.shape, y.shape, s, [&](auto geometry) {
      enqueue(grid_over(y.numel()), avg_pool2d_kernel<T, decltype(geometry)>, y.as<T>(),
              x.as<const T>(), y.numel(), geometry, share_of<T>(s));
    });
  });
}

void avg_pool2d_backward(GradTarget dx, View dy, Pool2dShape s) {
  dispatch_floating(dy.dtype, [&]<class T>() {
    const Shape& x = dx.grad.shape;
    if (!has_whole_windows(x, dy.shape, s))
      return pool2d_backward<T>(dx, any_geometry(x, dy.shape, s),
                                ToCounted<T>{dy.as<const T>(), counted_windows(x, dy.shape, s)});
    with_geometry(x, dy.shape, s, [&](auto geometry) {
      pool2d_backward<T>(dx, geometry, ToAll<T>{dy.as<const T>(), share_of<T>(s)});
    });
  });
}

void global_avg_pool2d(View y, View x) {
  dispatch_floating(x.dtype, [&]<class T>() {
    enqueue(grid_over(y.numel() * warp_threads), global_avg_pool2d_kernel<T>, y.as<T>(),
            x.as<const T>(), y.numel(), x.shape.numel(2, 4));
  });
}

void global_avg_pool2d_backward(GradTarget dx, View dy) {
  dispatch_floating(dy.dtype, [&]<class T>() {
    const int64_t P = dx.grad.shape.numel(2, 4);
    with_beta(dx.beta, [&](auto accumulate) {
      enqueue(grid_over(dx.grad.numel()), global_avg_pool2d_backward_kernel<accumulate.value, T>,
              dx.grad.as<T>(), dy.as<const T>(), dx.grad.numel(), P, 1 / static_cast<Wide<T>>(P));
    });
  });
}

}  // namespace accrue::cuda
