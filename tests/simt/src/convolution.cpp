#include "convolution.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <bit>
#include <cmath>
#include <vector>

#include "device.h"
#include "product.h"

namespace simt {
namespace {

// Calls visit(element of the matrix of columns, offset in the group's channels) for each that is
// not padding.
template <class Visit>
void visit_columns(const Problem& p, Visit visit) {
  const Conv& conv = p.conv;
  size_t element = 0;
  for (int c = 0; c < p.w.C; ++c)
    for (int r = 0; r < p.w.H; ++r)
      for (int s = 0; s < p.w.W; ++s)
        for (int i = 0; i < p.y.H; ++i)
          for (int j = 0; j < p.y.W; ++j, ++element) {
            const int h = i * conv.stride_h - conv.pad_h + r * conv.dilation_h;
            const int w = j * conv.stride_w - conv.pad_w + s * conv.dilation_w;
            if (h < 0 || h >= p.x.H || w < 0 || w >= p.x.W) continue;
            visit(element, (size_t(c) * p.x.H + h) * p.x.W + w);
          }
}

// [taps, pixels]
template <class T>
std::vector<T> im2col(const Problem& p, const T* x) {
  std::vector<T> columns(size_t(p.taps()) * p.pixels());
  visit_columns(p, [&](size_t element, size_t offset) { columns[element] = x[offset]; });
  return columns;
}

// Adds the unscaled result to `out`, which is zeroed and has the result's size.
template <class T>
void accumulate(Direction direction, const Problem& p, const Buffers<T>& in, std::vector<T>& out) {
  const int taps = p.taps(), pixels = p.pixels(), K = p.w.N / p.conv.groups;
  for (int n = 0; n < p.x.N; ++n)
    for (int group = 0; group < p.conv.groups; ++group) {
      const size_t x_at = size_t(group) * p.w.C * p.x.H * p.x.W, w_at = size_t(group) * K * taps,
                   y_at = size_t(group) * K * pixels;
      const T *x = in.x_of(p, n) + x_at, *w = in.w + w_at, *y = in.y_of(p, n) + y_at;
      if (direction == Direction::forward) {
        add_product<T>(K, pixels, taps, {w}, {im2col(p, x).data()},
                       out.data() + p.y.size() / p.y.N * n + y_at);
      } else if (direction == Direction::filter) {
        add_product<T>(K, taps, pixels, {y}, {im2col(p, x).data(), true}, out.data() + w_at);
      } else {
        std::vector<T> columns(size_t(taps) * pixels);
        add_product<T>(taps, pixels, K, {w, true}, {y}, columns.data());
        T* dx = out.data() + p.x.size() / p.x.N * n + x_at;
        visit_columns(p, [&](size_t element, size_t offset) { dx[offset] += columns[element]; });
      }
    }
}

// Rounds to the 10 fraction bits of TF32.
float round_to_tf32(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return std::isfinite(x) ? std::bit_cast<float>((bits + 0x1000) & ~0x1fffu) : x;
}

// The place in memory of element i in the order N, C, H, W.
size_t place_of(const Tensor& tensor, size_t i) {
  if (tensor.format == CUDNN_TENSOR_NCHW) return i;
  const size_t C = tensor.C, H = tensor.H, W = tensor.W;
  return ((i / W / H / C * H + i / W % H) * W + i % W) * C + i / W / H % C;
}

// An operand in the order N, C, H, W and in the type of sums, rounded as tensor cores may round it.
template <class T>
std::vector<Sum<T>> operand(Arithmetic arithmetic, const Tensor& tensor, const T* values) {
  std::vector<Sum<T>> result(tensor.size());
  for (size_t i = 0; i < result.size(); ++i) result[i] = values[place_of(tensor, i)];
  if constexpr (std::is_same_v<Sum<T>, float>)
    if (arithmetic == Arithmetic::tf32)
      for (float& value : result) value = round_to_tf32(value);
  return result;
}

// The relative error of each result of a transform in this runner, above that of any sum of floats.
constexpr double transform_error = 0x1p-10;

}  // namespace

template <class T>
void convolve(Direction direction, Arithmetic arithmetic, const Problem& p,
              const Buffers<T>& buffers, Sum<T> alpha, Sum<T> beta) {
  require_device(buffers.x, p.x.size() * sizeof(T), "convolution: x or dx");
  require_device(buffers.w, p.w.size() * sizeof(T), "convolution: w or dw");
  require_device(buffers.y, p.y.size() * sizeof(T), "convolution: y or dy");
  const Tensor& shape = direction == Direction::forward ? p.y
                        : direction == Direction::data  ? p.x
                                                        : p.w;
  T* result = direction == Direction::forward ? buffers.y
              : direction == Direction::data  ? buffers.x
                                              : buffers.w;
  std::vector<Sum<T>> out(shape.size()), x = operand(arithmetic, p.x, buffers.x),
                                         w = operand(arithmetic, p.w, buffers.w),
                                         y = operand(arithmetic, p.y, buffers.y);
  accumulate(direction, p, Buffers<Sum<T>>{x.data(), w.data(), y.data()}, out);
  if (arithmetic == Arithmetic::transformed)
    for (Sum<T>& value : out) value *= 1 + transform_error;
  for (size_t i = 0; i < out.size(); ++i) {
    T& target = result[place_of(shape, i)];
    target = beta == 0 ? alpha * out[i] : alpha * out[i] + beta * static_cast<Sum<T>>(target);
  }
}

template void convolve(Direction, Arithmetic, const Problem&, const Buffers<float>&, float, float);
template void convolve(Direction, Arithmetic, const Problem&, const Buffers<double>&, double,
                       double);
template void convolve(Direction, Arithmetic, const Problem&, const Buffers<__half>&, float, float);
template void convolve(Direction, Arithmetic, const Problem&, const Buffers<__nv_bfloat16>&, float,
                       float);

}  // namespace simt
