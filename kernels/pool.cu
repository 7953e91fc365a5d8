#include "kernels/detail/formulas.h"
#include "kernels/detail/pool.cuh"
#include "kernels/detail/reduce.cuh"

namespace accrue::cuda {
namespace {

// A thread owns windows, a grid apart. Neighbouring windows read neighbouring pixels, and the cache
// serves pixels and sectors that several threads read. With a constant side the loops unroll, and
// the loads of a window are in flight together.
template <class T, class Geometry>
__global__ void __launch_bounds__(block_threads)
    max_pool2d_kernel(T* y, uint8_t* winner, const T* x, int64_t n, Geometry s,
                      Activation activation) {
  for (PoolPlace window(s.GH, s.GW); window.item < n; window.advance()) {
    const int64_t first = first_pixel(s, window);
    const PoolSpan rows = inside(s.h, window.h, s.H), columns = inside(s.w, window.w, s.W);
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
  for (PoolPlace window(s.GH, s.GW); window.item < n; window.advance()) {
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
  for (PoolPlace window(counted.GH, counted.GW); window.item < n; window.advance()) {
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
  for (PoolPlace pixel(1, P); pixel.item < n; pixel.advance())
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

// A thread owns pixels of dx, a grid apart, and sums the shares of the windows that contain each
// pixel. Otherwise overlapping windows would add to a pixel by atomics, in an order that differs
// from run to run. Each pixel is also written exactly once, whether a window contains it or not.
// With the second bound, registers do not spill for the sake of more blocks.
template <bool accumulate, class T, class Geometry, class Share>
__global__ void __launch_bounds__(block_threads, std::is_same_v<Geometry, UsualGeometry> ? 4 : 3)
    pool2d_backward_kernel(T* dx, int64_t n, Geometry s, Share share) {
  for (PoolPlace pixel(s.H, s.W); pixel.item < n; pixel.advance())
    store(dx[pixel.item], share_of_windows(pixel, s, share), std::bool_constant<accumulate>{});
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
  if (s.channels == Channels::last) return max_pool2d_channels_last(y, winner, x, s, activation);
  dispatch_floating(x.dtype, [&]<class T>() {
    with_geometry_of_max(x.shape, y.shape, s, [&](auto geometry) {
      enqueue(grid_over(y.numel()), max_pool2d_kernel<T, decltype(geometry)>, y.as<T>(),
              winner.as<uint8_t>(), x.as<const T>(), y.numel(), geometry, activation);
    });
  });
}

void max_pool2d_backward(GradTarget dx, View dy, View winner, Pool2dShape s) {
  if (s.channels == Channels::last) return max_pool2d_channels_last_backward(dx, dy, winner, s);
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

void global_avg_pool2d(View y, View x, Channels channels) {
  if (channels == Channels::last) return global_avg_pool2d_channels_last(y, x);
  dispatch_floating(x.dtype, [&]<class T>() {
    enqueue(grid_over(y.numel() * warp_threads), global_avg_pool2d_kernel<T>, y.as<T>(),
            x.as<const T>(), y.numel(), x.shape.numel(2, 4));
  });
}

void global_avg_pool2d_backward(GradTarget dx, View dy, Channels channels) {
  if (channels == Channels::last) return global_avg_pool2d_channels_last_backward(dx, dy);
  dispatch_floating(dy.dtype, [&]<class T>() {
    const int64_t P = dx.grad.shape.numel(2, 4);
    with_beta(dx.beta, [&](auto accumulate) {
      enqueue(grid_over(dx.grad.numel()), global_avg_pool2d_backward_kernel<accumulate.value, T>,
              dx.grad.as<T>(), dy.as<const T>(), dx.grad.numel(), P, 1 / static_cast<Wide<T>>(P));
    });
  });
}

}  // namespace accrue::cuda
