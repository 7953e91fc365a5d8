#include "kernels/detail/elementwise.cuh"
#include "kernels/detail/formulas.h"
#include "kernels/detail/pool.cuh"
#include "kernels/detail/reduce.cuh"

namespace accrue::cuda {
namespace {

// A value for each channel of a vector.
template <class T, int width>
struct OfChannels {
  T values[width] = {};

  __device__ OfChannels& operator+=(const OfChannels& other) {
    for (int k = 0; k < width; ++k) values[k] += other.values[k];
    return *this;
  }
};

// A thread owns vectors of channels of windows, a grid apart. A warp's lanes have neighbouring
// channels, then neighbouring windows, so its accesses are contiguous wherever the windows lie.
template <int width, class T, class Geometry>
__global__ void __launch_bounds__(block_threads)
    max_pool2d_channels_last_kernel(T* y, uint8_t* winner, const T* x, int64_t n, int64_t vectors,
                                    Geometry s, Activation activation) {
  for (PoolPlace window(s.GH, s.GW, vectors); window.item < n; window.advance()) {
    const PoolSpan rows = inside(s.h, window.h, s.H), columns = inside(s.w, window.w, s.W);
    const int64_t first = first_pixel(s, window);
    const auto load = [&](int64_t i, int64_t j) {
      const int64_t pixel = first + i * s.h.dilation * s.W + j * s.w.dilation;
      return load_vector<width>(x, pixel * vectors + window.vector);
    };
    Wide<T> best[width];
    int best_at[width];
    const auto begin = load(rows.begin, columns.begin);
    for (int k = 0; k < width; ++k) {
      best[k] = begin.values[k];
      best_at[k] = static_cast<int>(rows.begin * s.w.kernel + columns.begin);
    }
    for (int64_t i = rows.begin; i < rows.end; ++i)
      for (int64_t j = columns.begin; j < columns.end; ++j) {
        const auto pixel = load(i, j);
        for (int k = 0; k < width; ++k) {
          const Wide<T> v = pixel.values[k];
          if (!wins(v, best[k])) continue;
          best[k] = v;
          best_at[k] = static_cast<int>(i * s.w.kernel + j);
        }
      }
    Vector<T, width> out;
    Vector<uint8_t, width> at;
    for (int k = 0; k < width; ++k) {
      if (activation == Activation::relu) {
        if (!(best[k] > 0)) best_at[k] = no_winner;
        best[k] = formula::Relu{}(best[k]);
      }
      out.values[k] = T(best[k]);
      at.values[k] = static_cast<uint8_t>(best_at[k]);
    }
    store_vector(y, window.item, out);
    store_vector(winner, window.item, at);
  }
}

// Returns the shares of their gradients that the channels of a window give to its pixel number
// `at`.
template <int width, class T>
struct ToWinners {
  const T* dy;
  const uint8_t* winner;
  int64_t vectors, vector;

  __device__ auto operator()(int64_t window, int64_t at) const {
    const auto gradients = load_vector<width>(dy, window * vectors + vector);
    const auto winners = load_vector<width>(winner, window * vectors + vector);
    OfChannels<Wide<T>, width> shares;
    for (int k = 0; k < width; ++k)
      if (winners.values[k] == at) shares.values[k] = gradients.values[k];
    return shares;
  }
};

// A thread owns vectors of channels of pixels of dx, a grid apart, and sums the shares of the
// windows that contain each pixel, for the reasons of pool2d_backward_kernel (kernels/pool.cu).
// With the second bound, registers do not spill for the sake of more blocks.
template <int width, bool accumulate, class T, class Geometry>
__global__ void __launch_bounds__(block_threads, std::is_same_v<Geometry, DilatedGeometry> ? 2 : 3)
    max_pool2d_channels_last_backward_kernel(T* dx, const T* dy, const uint8_t* winner, int64_t n,
                                             int64_t vectors, Geometry s) {
  for (PoolPlace pixel(s.H, s.W, vectors); pixel.item < n; pixel.advance()) {
    const auto shares =
        share_of_windows(pixel, s, ToWinners<width, T>{dy, winner, vectors, pixel.vector});
    Vector<T, width> out;
    if constexpr (accumulate) out = load_vector<width>(dx, pixel.item);
    for (int k = 0; k < width; ++k)
      store(out.values[k], shares.values[k], std::bool_constant<accumulate>{});
    store_vector(dx, pixel.item, out);
  }
}

// A thread adds up a vector of channels over the P pixels of a sample. A warp's lanes have
// neighbouring channels, so its reads are contiguous.
template <int width, class T>
__global__ void __launch_bounds__(block_threads)
    global_avg_pool2d_channels_last_kernel(T* y, const T* x, int64_t n, int64_t vectors,
                                           int64_t P) {
  for (int64_t item = first_item(); item < n; item += item_stride()) {
    const int64_t first = item / vectors * P * vectors + item % vectors;
    RunningSums<Wide<T>, width> sums;
    for (int64_t i = 0; i < P; ++i) {
      const auto pixel = load_vector<width>(x, first + i * vectors);
      Wide<T> terms[width];
      for (int k = 0; k < width; ++k) terms[k] = pixel.values[k];
      sums.add(terms);
    }
    Vector<T, width> out;
    for (int k = 0; k < width; ++k) out.values[k] = T(sums.total(k) / static_cast<Wide<T>>(P));
    store_vector(y, item, out);
  }
}

// A thread writes vectors of channels of pixels, a grid apart, in samples of P pixels.
template <int width, bool accumulate, class T>
__global__ void __launch_bounds__(block_threads)
    global_avg_pool2d_channels_last_backward_kernel(T* dx, const T* dy, int64_t n, int64_t vectors,
                                                    int64_t P, Wide<T> share) {
  for (PoolPlace pixel(1, P, vectors); pixel.item < n; pixel.advance()) {
    const auto gradients = load_vector<width>(dy, pixel.plane * vectors + pixel.vector);
    Vector<T, width> out;
    if constexpr (accumulate) out = load_vector<width>(dx, pixel.item);
    for (int k = 0; k < width; ++k)
      store(out.values[k], share * gradients.values[k], std::bool_constant<accumulate>{});
    store_vector(dx, pixel.item, out);
  }
}

// Calls body with the number of channels in a vector, as with_width() does, and the number of
// vectors of a pixel; not for images without channels.
template <class T, class Body>
void with_vectors(int64_t C, std::initializer_list<const void*> arrays, Body&& body) {
  if (C > 0) with_width<T>(C, arrays, [&](auto width) { body(width, C / width); });
}

}  // namespace

void max_pool2d_channels_last(View y, View winner, View x, Pool2dShape s, Activation activation) {
  const Shape from = image_sizes(x.shape, s.channels), to = image_sizes(y.shape, s.channels);
  dispatch_floating(x.dtype, [&]<class T>() {
    with_geometry_of_max(from, to, s, [&](auto geometry) {
      with_vectors<T>(from[1], {y.data, winner.data, x.data}, [&](auto width, int64_t vectors) {
        const int64_t n = y.numel() / width;
        enqueue(grid_over(n), max_pool2d_channels_last_kernel<width.value, T, decltype(geometry)>,
                y.as<T>(), winner.as<uint8_t>(), x.as<const T>(), n, vectors, geometry, activation);
      });
    });
  });
}

void max_pool2d_channels_last_backward(GradTarget dx, View dy, View winner, Pool2dShape s) {
  const View& to = dx.grad;
  const Shape pixels = image_sizes(to.shape, s.channels),
              windows = image_sizes(dy.shape, s.channels);
  dispatch_floating(dy.dtype, [&]<class T>() {
    with_geometry_of_max(pixels, windows, s, [&](auto geometry) {
      with_vectors<T>(pixels[1], {to.data, dy.data, winner.data}, [&](auto width, int64_t vectors) {
        with_beta(dx.beta, [&](auto accumulate) {
          const int64_t n = to.numel() / width;
          enqueue(grid_over(n),
                  max_pool2d_channels_last_backward_kernel<width.value, accumulate.value, T,
                                                           decltype(geometry)>,
                  to.as<T>(), dy.as<const T>(), winner.as<const uint8_t>(), n, vectors, geometry);
        });
      });
    });
  });
}

void global_avg_pool2d_channels_last(View y, View x) {
  dispatch_floating(x.dtype, [&]<class T>() {
    with_vectors<T>(x.shape[3], {y.data, x.data}, [&](auto width, int64_t vectors) {
      const int64_t n = y.numel() / width;
      enqueue(grid_over(n), global_avg_pool2d_channels_last_kernel<width.value, T>, y.as<T>(),
              x.as<const T>(), n, vectors, x.shape.numel(1, 3));
    });
  });
}

void global_avg_pool2d_channels_last_backward(GradTarget dx, View dy) {
  const View& to = dx.grad;
  dispatch_floating(dy.dtype, [&]<class T>() {
    const int64_t P = to.shape.numel(1, 3);
    with_vectors<T>(to.shape[3], {to.data, dy.data}, [&](auto width, int64_t vectors) {
      with_beta(dx.beta, [&](auto accumulate) {
        const int64_t n = to.numel() / width;
        enqueue(grid_over(n),
                global_avg_pool2d_channels_last_backward_kernel<width.value, accumulate.value, T>,
                to.as<T>(), dy.as<const T>(), n, vectors, P, 1 / static_cast<Wide<T>>(P));
      });
    });
  });
}

}  // namespace accrue::cuda
