#include "kernels/pool.h"

#include <array>
#include <bit>

#include "core/ceil_div.h"
#include "kernels/detail/formulas.h"
#include "kernels/detail/pool_kernels.h"
#include "kernels/detail/reduce.h"
#include "kernels/rearrange.h"

namespace accrue {
// The ops give these kernels images with channels first.
namespace cpu {

// Calls body(in, out) with the offset of each window's first pixel in x and of its output in y,
// for the planes [begin, end) of x [N, C, H, W] and y [N, C, GH, GW].
template <class Body>
void for_each_window(const Shape& x, const Shape& y, Pool2dShape s, int64_t begin, int64_t end,
                     Body body) {
  const int64_t H = x[2], W = x[3], GH = y[2], GW = y[3];
  for (int64_t plane = begin; plane < end; ++plane)
    for (int64_t h = 0; h < GH; ++h)
      for (int64_t w = 0; w < GW; ++w)
        body((plane * H + h * s.stride.h - s.padding.h) * W + w * s.stride.w - s.padding.w,
             (plane * GH + h) * GW + w);
}

// The part of a window that lies in the image, rows [top, bottom) and columns [left, right), of
// `kernel` places in a row, which are `down` and `across` pixels apart.
struct Part {
  int64_t kernel, stride, top, bottom, left, right;
  static constexpr int64_t down = 1, across = 1;
};
struct DilatedPart {
  int64_t kernel, stride, top, bottom, left, right, down, across;
};
// A whole window within the image. Its sizes are constants, so that loops unroll.
template <int64_t side, int64_t step>
struct Whole {
  static constexpr int64_t kernel = side, stride = step, top = 0, bottom = side, left = 0,
                           right = side, down = 1, across = 1;
};

// Pools `count` windows side by side, of which the same part lies in the image. The first window
// begins at x[first], in rows of W pixels.
template <bool relu, class T, class Windows>
void max_of_windows(T* y, uint8_t* winner, const T* x, int64_t first, int64_t count, int64_t W,
                    const Windows& s) {
  using Index = std::conditional_t<sizeof(Wide<T>) == 4, int32_t, int64_t>;  // one mask for both
  constexpr int64_t chunk = 64;
  for (int64_t begin = 0; begin < count; begin += chunk) {
    const int64_t size = std::min(chunk, count - begin);
    Index at[chunk];
    for (int64_t w = 0; w < size; ++w) {
      const int64_t window = first + (begin + w) * s.stride;
      Wide<T> best = x[window + s.top * s.down * W + s.left * s.across];
      auto best_at = static_cast<Index>(s.top * s.kernel + s.left);
      for (int64_t i = s.top; i < s.bottom; ++i)
        for (int64_t j = s.left; j < s.right; ++j) {
          const Wide<T> v = x[window + i * s.down * W + j * s.across];
          const bool better = wins(v, best);
          best = better ? v : best;
          best_at = better ? static_cast<Index>(i * s.kernel + j) : best_at;
        }
      if constexpr (relu) {
        best_at = best > 0 ? best_at : Index{no_winner};
        best = formula::Relu{}(best);
      }
      y[begin + w] = T(best);
      at[w] = best_at;
    }
    for (int64_t w = 0; w < size; ++w) winner[begin + w] = static_cast<uint8_t>(at[w]);
  }
}

// Pools a row of GW windows over the plane x [H, W]. The windows begin at row `top` of the plane,
// in the padding if it is negative.
template <bool relu, class AnyPart, class T>
void max_of_row(T* y, uint8_t* winner, const T* x, int64_t H, int64_t W, int64_t GW, int64_t top,
                Pool2dShape s) {
  constexpr bool is_dilated = std::is_same_v<AnyPart, DilatedPart>;
  const int64_t k = s.kernel.w, p = s.padding.w, stride = s.stride.w, extent = extent_of(s).w;
  AnyPart rows{k, stride, 0, 0, 0, k};
  if constexpr (is_dilated) rows.down = s.dilation.h, rows.across = s.dilation.w;
  // The first of `most` places, `step` pixels apart, that is at pixel `from` of a window or behind
  // it; `most` if none is.
  const auto place = [](int64_t from, int64_t step, int64_t most) {
    const int64_t first_behind = is_dilated ? ceil_div(from, step) : from;
    return std::min(std::max<int64_t>(0, first_behind), most);
  };
  rows.top = place(-top, rows.down, s.kernel.h);
  rows.bottom = place(H - top, rows.down, s.kernel.h);
  // Windows [first, last) have all their columns in the image.
  const int64_t first = std::min(ceil_div(p, stride), GW);
  const int64_t last =
      std::max(first, W + p < extent ? 0 : std::min(GW, (W + p - extent) / stride + 1));
  const auto column = [&](int64_t w) { return w * stride - p; };
  const auto cut = [&](int64_t w) {
    AnyPart part = rows;
    part.left = place(-column(w), rows.across, k);
    part.right = place(W - column(w), rows.across, k);
    max_of_windows<relu>(y + w, winner + w, x, top * W + column(w), 1, W, part);
  };
  for (int64_t w = 0; w < first; ++w) cut(w);
  const auto inner = [&](const auto& part) {
    max_of_windows<relu>(y + first, winner + first, x, top * W + column(first), last - first, W,
                         part);
  };
  const bool is_whole = rows.top == 0 && rows.bottom == s.kernel.h;
  if (is_whole && !is_dilated && s.kernel == 3 && stride == 2) inner(Whole<3, 2>{});
  else inner(rows);
  for (int64_t w = last; w < GW; ++w) cut(w);
}

template <bool relu, class T>
void max_pool2d_rows(View y, View winner, View x, Pool2dShape s, int64_t begin, int64_t end) {
  constexpr int64_t vector = 16;
  const int64_t H = x.shape[2], W = x.shape[3], GH = y.shape[2], GW = y.shape[3];
  const bool is_usual = has_usual_windows(x.shape, y.shape, s);
  for (int64_t row = begin; row < end; ++row) {
    T* out = y.as<T>() + row * GW;
    uint8_t* at = winner.as<uint8_t>() + row * GW;
    const T* plane = x.as<T>() + row / GH * H * W;
    const int64_t top = row % GH * s.stride.h - s.padding.h;
    if (is_usual) {
      // The usual case with constants, so that it is vectorised, and in whole vectors: what they
      // write past the row's end, the next row overwrites.
      const int64_t count = std::min(round_up(GW, vector), (end - row) * GW);
      max_of_windows<relu>(out, at, plane, top * W, count, W, Whole<2, 2>{});
    } else if (s.dilation == 1) {
      max_of_row<relu, Part>(out, at, plane, H, W, GW, top, s);
    } else {
      max_of_row<relu, DilatedPart>(out, at, plane, H, W, GW, top, s);
    }
  }
}

void max_pool2d(View y, View winner, View x, Pool2dShape s, Activation activation) {
  dispatch_floating(x.dtype, [&]<class T>() {
    parallel_for(y.shape.numel(0, 3), x.shape[3] * s.kernel.h, [&](int64_t begin, int64_t end) {
      if (activation == Activation::relu) max_pool2d_rows<true, T>(y, winner, x, s, begin, end);
      else max_pool2d_rows<false, T>(y, winner, x, s, begin, end);
    });
  });
}

// With beta 0 the pixels must not be read, so they are set to zero first.
template <class T>
void zero_planes(GradTarget dx, int64_t begin, int64_t end) {
  const int64_t P = dx.grad.shape.numel(2, 4);
  if (dx.beta == 0) std::fill_n(dx.grad.as<T>() + begin * P, (end - begin) * P, T(0.0f));
}

// Returns value or 0, without a branch that would be mispredicted half of the time.
template <class V>
V value_if(bool wanted, V value) {
  using Bits = std::conditional_t<sizeof(V) == 4, uint32_t, uint64_t>;
  return std::bit_cast<V>(std::bit_cast<Bits>(value) & (Bits{0} - Bits{wanted}));
}

void max_pool2d_backward(GradTarget dx, View dy, View winner, Pool2dShape s) {
  dispatch_floating(dy.dtype, [&]<class T>() {
    const Shape& shape = dx.grad.shape;
    std::array<int64_t, 256> offset_of{};  // of a winner from its window's first pixel
    const int64_t places = s.kernel.h * s.kernel.w;
    const auto offset = [&](int64_t i, int64_t j) {
      return i * s.dilation.h * shape[3] + j * s.dilation.w;
    };
    offset_of.fill(offset(s.padding.h, s.padding.w));
    for (int64_t i = 0; i < places; ++i)
      offset_of[static_cast<size_t>(i)] = offset(i / s.kernel.w, i % s.kernel.w);
    T* out = dx.grad.as<T>();
    const T* in = dy.as<T>();
    const uint8_t* at = winner.as<uint8_t>();
    // Where there is no winner, a pixel that is surely in the image gets nothing. With ceil_mode
    // there may be no such pixel at the same place of all windows.
    const int none = places <= no_winner ? no_winner : -1;
    parallel_for(shape.numel(0, 2), shape.numel(2, 4), [&](int64_t begin, int64_t end) {
      zero_planes<T>(dx, begin, end);
      for_each_window(shape, dy.shape, s, begin, end, [&](int64_t pixel, int64_t window) {
        if (s.ceil_mode && at[window] == none) return;
        T& winning = out[pixel + offset_of[at[window]]];
        winning = T(winning + value_if(at[window] != none, widen(in[window])));
      });
    });
  });
}

// The pixels of a window in a plane of H x W, and what its mean multiplies their sum by.
template <class W>
struct MeanWindow {
  PoolRange rows, columns;
  W share;

  MeanWindow(int64_t plane_H, int64_t plane_W, int64_t h, int64_t w, const Pool2dShape& s)
      : rows(h, plane_H, s.kernel.h, s.stride.h, s.padding.h, s.count_include_pad),
        columns(w, plane_W, s.kernel.w, s.stride.w, s.padding.w, s.count_include_pad),
        share(1 / static_cast<W>(rows.count * columns.count)) {}
};

// Calls body(in, out, window) as for_each_window() does, for windows that reach beyond the image.
template <class W, class Body>
void for_each_mean(const Shape& x, const Shape& y, const Pool2dShape& s, int64_t begin, int64_t end,
                   Body body) {
  for_each_window(x, y, s, begin, end, [&](int64_t in, int64_t out) {
    body(in, out, MeanWindow<W>(x[2], x[3], out / y[3] % y[2], out % y[3], s));
  });
}

template <class T>
void avg_pool2d_padded(View y, View x, const Pool2dShape& s) {
  using W = Wide<T>;
  parallel_for(x.shape.numel(0, 2), x.shape.numel(2, 4), [&](int64_t begin, int64_t end) {
    for_each_mean<W>(x.shape, y.shape, s, begin, end,
                     [&](int64_t in, int64_t out, const MeanWindow<W>& window) {
                       const auto& [rows, columns, share] = window;
                       W sum = 0;
                       for (int64_t i = rows.begin; i < rows.end; ++i)
                         for (int64_t j = columns.begin; j < columns.end; ++j)
                           sum += x.as<T>()[in + i * x.shape[3] + j];
                       y.as<T>()[out] = T(share * sum);
                     });
  });
}

template <class T>
void avg_pool2d_padded_backward(GradTarget dx, View dy, const Pool2dShape& s) {
  using W = Wide<T>;
  const Shape& shape = dx.grad.shape;
  parallel_for(shape.numel(0, 2), shape.numel(2, 4), [&](int64_t begin, int64_t end) {
    zero_planes<T>(dx, begin, end);
    for_each_mean<W>(shape, dy.shape, s, begin, end,
                     [&](int64_t in, int64_t out, const MeanWindow<W>& window) {
                       const auto& [rows, columns, share] = window;
                       const W value = share * dy.as<T>()[out];
                       for (int64_t i = rows.begin; i < rows.end; ++i)
                         for (int64_t j = columns.begin; j < columns.end; ++j) {
                           T& pixel = dx.grad.as<T>()[in + i * shape[3] + j];
                           pixel = T(pixel + value);
                         }
                     });
  });
}

void avg_pool2d(View y, View x, Pool2dShape s) {
  dispatch_floating(x.dtype, [&]<class T>() {
    if (!has_whole_windows(x.shape, y.shape, s)) return avg_pool2d_padded<T>(y, x, s);
    const auto share = 1 / static_cast<Wide<T>>(s.kernel.h * s.kernel.w);
    parallel_for(x.shape.numel(0, 2), x.shape.numel(2, 4), [&](int64_t begin, int64_t end) {
      for_each_window(x.shape, y.shape, s, begin, end, [&](int64_t in, int64_t out) {
        Wide<T> sum = 0;
        for (int64_t i = 0; i < s.kernel.h; ++i)
          for (int64_t j = 0; j < s.kernel.w; ++j) sum += x.as<T>()[in + i * x.shape[3] + j];
        y.as<T>()[out] = T(share * sum);
      });
    });
  });
}

void avg_pool2d_backward(GradTarget dx, View dy, Pool2dShape s) {
  dispatch_floating(dy.dtype, [&]<class T>() {
    const Shape& shape = dx.grad.shape;
    if (!has_whole_windows(shape, dy.shape, s)) return avg_pool2d_padded_backward<T>(dx, dy, s);
    const auto share = 1 / static_cast<Wide<T>>(s.kernel.h * s.kernel.w);
    parallel_for(shape.numel(0, 2), shape.numel(2, 4), [&](int64_t begin, int64_t end) {
      zero_planes<T>(dx, begin, end);
      for_each_window(shape, dy.shape, s, begin, end, [&](int64_t in, int64_t out) {
        for (int64_t i = 0; i < s.kernel.h; ++i)
          for (int64_t j = 0; j < s.kernel.w; ++j) {
            T& pixel = dx.grad.as<T>()[in + i * shape[3] + j];
            pixel = T(pixel + share * dy.as<T>()[out]);
          }
      });
    });
  });
}

void global_avg_pool2d(View y, View x, Channels) {
  dispatch_floating(x.dtype, [&]<class T>() {
    const int64_t P = x.shape.numel(2, 4);
    parallel_each(y.numel(), P, [&](int64_t plane) {
      const T* in = x.as<T>() + plane * P;
      const double sum = sum_of<Wide<T>>(P, [=](int64_t i) { return widen(in[i]); });
      y.as<T>()[plane] = T(static_cast<Wide<T>>(sum / static_cast<double>(P)));
    });
  });
}

void global_avg_pool2d_backward(GradTarget dx, View dy, Channels) {
  dispatch_floating(dy.dtype, [&]<class T>() {
    const int64_t P = dx.grad.shape.numel(2, 4);
    const auto share = 1 / static_cast<Wide<T>>(P);
    with_beta(dx.beta, [&](auto accumulate) {
      parallel_each(dy.numel(), P, [&](int64_t plane) {
        T* out = dx.grad.as<T>() + plane * P;
        const Wide<T> value = share * dy.as<T>()[plane];
        for (int64_t i = 0; i < P; ++i) store(out[i], value, accumulate);
      });
    });
  });
}

}  // namespace cpu

namespace cuda {
decltype(cpu::max_pool2d) max_pool2d;
decltype(cpu::max_pool2d_backward) max_pool2d_backward;
decltype(cpu::avg_pool2d) avg_pool2d;
decltype(cpu::avg_pool2d_backward) avg_pool2d_backward;
decltype(cpu::global_avg_pool2d) global_avg_pool2d;
decltype(cpu::global_avg_pool2d_backward) global_avg_pool2d_backward;
}  // namespace cuda

namespace {

// The windows along one dimension of an image.
int64_t windows_of(int64_t size, const Pool2dShape& s, int64_t PerAxis::*at) {
  const int64_t stride = s.stride.*at, spare = size + 2 * (s.padding.*at) - extent_of(s).*at;
  if (!s.ceil_mode) return spare / stride + 1;
  const int64_t windows = ceil_div(spare, stride) + 1;
  return (windows - 1) * stride < size + s.padding.*at ? windows : windows - 1;
}

std::string_view layout(Channels channels) {
  return channels == Channels::first ? "[N, C, H, W]" : "[N, H, W, C]";
}

Shape laid_out(int64_t N, int64_t C, int64_t H, int64_t W, Channels channels) {
  return channels == Channels::first ? Shape{N, C, H, W} : Shape{N, H, W, C};
}

// Channels that lie last have kernels on cuda alone; elsewhere x and y are permuted.
bool must_permute(const Tensor& x, Channels channels) {
  return channels == Channels::last && !plans_for_cuda(x.device());
}

Shape pooled_shape(std::string_view op, const Tensor& x, Pool2dShape s) {
  check_same(op, {&x});
  check(x.shape().rank() == 4, "[{}] x {}: expected x {}", op, x.shape(), layout(s.channels));
  const Shape sizes = image_sizes(x.shape(), s.channels);
  const int64_t H = sizes[2], W = sizes[3];
  const PerAxis extent = extent_of(s);
  check(H > 0 && W > 0 && is_at_least(s.kernel, 1) && is_at_least(s.stride, 1) &&
            is_at_least(s.dilation, 1) && extent.h <= H + 2 * s.padding.h &&
            extent.w <= W + 2 * s.padding.w,
        "[{}] kernel {}, stride {}, padding {}{} with x {}: expected a kernel, a stride and a "
        "dilation above 0 and the kernel to fit",
        op, s.kernel, s.stride, s.padding,
        s.dilation == 1 ? "" : fmt::format(" and dilation {}", s.dilation), x.shape());
  return laid_out(sizes[0], sizes[1], windows_of(H, s, &PerAxis::h), windows_of(W, s, &PerAxis::w),
                  s.channels);
}

}  // namespace

Tensor max_pool2d(const Tensor& x, Pool2dShape shape, Activation activation) {
  check(activation == Activation::none || activation == Activation::relu,
        "[max_pool2d] {}: expected relu, which commutes with a maximum", name(activation));
  const int64_t largest = activation == Activation::relu ? 255 : 256;
  check(std::max(shape.kernel.h, shape.kernel.w) <= largest &&
            shape.kernel.h * shape.kernel.w <= largest,
        "[max_pool2d] kernel {}: a byte tells at most {} winners apart", shape.kernel, largest);
  check(is_at_least(shape.padding, 0) && 2 * shape.padding.h < shape.kernel.h &&
            2 * shape.padding.w < shape.kernel.w,
        "[max_pool2d] padding {} of kernel {}: expected less than half of it", shape.padding,
        shape.kernel);
  const Shape pooled = pooled_shape("max_pool2d", x, shape);
  if (must_permute(x, shape.channels)) {
    shape.channels = Channels::first;
    return channels_last(max_pool2d(channels_first(x), shape, activation));
  }
  Tensor y = Tensor::empty(pooled, x.dtype(), x.device());
  const Tensor winner = Tensor::empty(y.shape(), DType::u8, y.device());
  launch<cpu::max_pool2d, cuda::max_pool2d>(y.device(), y.view(), winner.view(), x.view(), shape,
                                            activation);
  const Edge edge = x;
  record("max_pool2d", y, {edge}, [=](Tensor& dy) {
    if (auto dx = claim_grad(edge))
      launch<cpu::max_pool2d_backward, cuda::max_pool2d_backward>(dy.device(), *dx, dy.view(),
                                                                  winner.view(), shape);
  });
  return y;
}

Tensor avg_pool2d(const Tensor& x, Pool2dShape shape) {
  check(is_at_least(shape.padding, 0) && 2 * shape.padding.h <= shape.kernel.h &&
            2 * shape.padding.w <= shape.kernel.w,
        "[avg_pool2d] padding {} of kernel {}: expected at most half of it", shape.padding,
        shape.kernel);
  check(shape.dilation == 1, "[avg_pool2d] dilation {}: expected 1; only max_pool2d has others",
        shape.dilation);
  const Shape pooled = pooled_shape("avg_pool2d", x, shape);
  if (shape.channels == Channels::last) {
    shape.channels = Channels::first;
    return channels_last(avg_pool2d(channels_first(x), shape));
  }
  Tensor y = Tensor::empty(pooled, x.dtype(), x.device());
  launch<cpu::avg_pool2d, cuda::avg_pool2d>(y.device(), y.view(), x.view(), shape);
  const Edge edge = x;
  record("avg_pool2d", y, {edge}, [=](Tensor& dy) {
    if (auto dx = claim_grad(edge))
      launch<cpu::avg_pool2d_backward, cuda::avg_pool2d_backward>(dy.device(), *dx, dy.view(),
                                                                  shape);
  });
  return y;
}

Tensor global_avg_pool2d(const Tensor& x, Channels channels) {
  check_same("global_avg_pool2d", {&x});
  const bool is_4d = x.shape().rank() == 4;
  const Shape sizes = is_4d ? image_sizes(x.shape(), channels) : Shape{};
  check(is_4d && sizes[2] > 0 && sizes[3] > 0,
        "[global_avg_pool2d] x {}: expected x {}, H and W above 0", x.shape(), layout(channels));
  if (must_permute(x, channels)) return channels_last(global_avg_pool2d(channels_first(x)));
  Tensor y = Tensor::empty(laid_out(sizes[0], sizes[1], 1, 1, channels), x.dtype(), x.device());
  launch<cpu::global_avg_pool2d, cuda::global_avg_pool2d>(y.device(), y.view(), x.view(), channels);
  const Edge edge = x;
  record("global_avg_pool2d", y, {edge}, [=](Tensor& dy) {
    if (auto dx = claim_grad(edge))
      launch<cpu::global_avg_pool2d_backward, cuda::global_avg_pool2d_backward>(
          dy.device(), *dx, dy.view(), channels);
  });
  return y;
}

}  // namespace accrue
