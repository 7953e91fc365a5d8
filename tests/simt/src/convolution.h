#pragma once

#include <type_traits>

#include "cudnn.h"

struct cudnnTensorStruct {
  cudnnTensorFormat_t format;
  cudnnDataType_t type;
  int N = 0, C = 0, H = 0, W = 0;

  size_t size() const { return size_t(N) * C * H * W; }
};

// A filter's N is its K: one image of C channels for each output channel.
struct cudnnFilterStruct : cudnnTensorStruct {};

struct cudnnConvolutionStruct {
  int pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w;
  cudnnConvolutionMode_t mode;
  cudnnDataType_t compute;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  int groups = 1;  // of channels: a filter sees its own group
};

namespace simt {

using Conv = cudnnConvolutionStruct;
using Tensor = cudnnTensorStruct;

struct Problem {
  Tensor x, w, y;
  Conv conv;

  // The taps of one filter, which sees the channels of one group.
  int taps() const { return w.C * w.H * w.W; }
  int pixels() const { return y.H * y.W; }
  bool has_channels_last() const { return x.format == CUDNN_TENSOR_NHWC; }
  // im2col's matrix of one sample.
  size_t column_bytes() const {
    return size_t(taps()) * pixels() * (x.type == CUDNN_DATA_DOUBLE ? 8 : 4);
  }
};

enum class Direction { forward, data, filter };

// How an algorithm adds up: in the type Sum; with float operands rounded to TF32; or through a
// transform, whose error is larger than the error of a sum.
enum class Arithmetic { plain, tf32, transformed };

template <class T>
struct Buffers {
  T *x, *w, *y;

  T* x_of(const Problem& p, int n) const { return x + p.x.size() / p.x.N * n; }
  T* y_of(const Problem& p, int n) const { return y + p.y.size() / p.y.N * n; }
};

// result = alpha * convolution + beta * result, where the result is y, x or w, depending on the
// direction, and each lies in memory as its format says, filters [K, R, S, C] in NHWC. If beta is
// 0, the result is not read. Runs on the device. T is float, double or a 16-bit type; sums of
// 16-bit types are taken in float.
template <class T>
using Sum = std::conditional_t<sizeof(T) == 2, float, T>;
template <class T>
void convolve(Direction direction, Arithmetic arithmetic, const Problem& p,
              const Buffers<T>& buffers, Sum<T> alpha, Sum<T> beta);

}  // namespace simt
