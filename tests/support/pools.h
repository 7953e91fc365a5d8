#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "kernels/pool.h"
#include "layers/layers.h"
#include "tests/support/op_table.h"

namespace accrue::test {

// Where windows begin along one dimension: with ceil_mode as long as there is a pixel that none
// has, but only before the end of the image.
inline std::vector<int64_t> window_begins(int64_t size, const Pool2dShape& s,
                                          int64_t PerAxis::*at) {
  const int64_t kernel = (s.kernel.*at - 1) * (s.dilation.*at) + 1, stride = s.stride.*at,
                padding = s.padding.*at;
  std::vector<int64_t> begins;
  int64_t h = -padding;
  for (; h + kernel <= size + padding; h += stride) begins.push_back(h);
  const bool leaves_some = h - stride + kernel < size + padding;
  if (s.ceil_mode && leaves_some && h < size) begins.push_back(h);
  return begins;
}

// A pool's reference: reduce(what a window has of x, places that it has in the padded image) for
// every window.
template <class Reduce>
Values pool_reference(const Values& x, const Shape& shape, Pool2dShape s, Reduce reduce) {
  Values y;
  const int64_t H = shape[2], W = shape[3];
  for (int64_t plane = 0; plane < shape.numel(0, 2); ++plane)
    for (const int64_t h : window_begins(H, s, &PerAxis::h))
      for (const int64_t w : window_begins(W, s, &PerAxis::w)) {
        Values window;
        int64_t places = 0;
        for (int64_t i = h; i < h + s.kernel.h * s.dilation.h; i += s.dilation.h)
          for (int64_t j = w; j < w + s.kernel.w * s.dilation.w; j += s.dilation.w) {
            if (i >= 0 && i < H && j >= 0 && j < W)
              window.push_back(x[static_cast<size_t>((plane * H + i) * W + j)]);
            places += i < H + s.padding.h && j < W + s.padding.w;
          }
        y.push_back(reduce(window, places));
      }
  return y;
}

inline double maximum(const Values& v, int64_t) { return *std::max_element(v.begin(), v.end()); }

inline double mean(const Values& v) {
  double sum = 0;
  for (double x : v) sum += x;
  return sum / double(v.size());
}

inline double rectified_maximum(const Values& v, int64_t) { return std::max(maximum(v, 0), 0.0); }

// Matrices [rows, columns], one after the other, as [columns, rows].
inline Values transposed(const Values& x, int64_t rows, int64_t columns) {
  Values y;
  for (auto matrix = x.begin(); matrix != x.end(); matrix += rows * columns)
    for (int64_t j = 0; j < columns; ++j)
      for (int64_t i = 0; i < rows; ++i) y.push_back(matrix[i * columns + j]);
  return y;
}

// The row of a pool whose images lie as `channels` says, made of its row for channels first.
inline Op pool_op(Op op, Channels channels) {
  if (channels == Channels::first) return op;
  const Shape x = op.inputs[0];
  op.name += fmt::format(", {} channels last", x[1]);
  op.inputs = {{x[0], x[2], x[3], x[1]}};
  op.reference = [=, reference = op.reference](const auto& in) {
    const Values y = reference({transposed(in[0], x.numel(2, 4), x[1])});
    return transposed(y, x[1], int64_t(y.size()) / x.numel(0, 2));
  };
  return op;
}

// The rows of the pools, each of x [N, C, H, W] before its channels move.
inline Op max_pool2d_op(std::string name, const Shape& x, Pool2dShape s,
                        Activation activation = Activation::none) {
  const auto reduce = activation == Activation::relu ? rectified_maximum : maximum;
  return pool_op({.name = std::move(name),
                  .inputs = {x},
                  .run = [=](const auto& in) { return max_pool2d(in[0], s, activation); },
                  .reference = [=](const auto& in) { return pool_reference(in[0], x, s, reduce); },
                  .in_16_bits = false},
                 s.channels);
}

inline Op avg_pool2d_op(std::string name, const Shape& x, Pool2dShape s) {
  return pool_op({.name = std::move(name),
                  .inputs = {x},
                  .run = [=](const auto& in) { return avg_pool2d(in[0], s); },
                  .reference =
                      [=](const auto& in) {
                        return pool_reference(in[0], x, s, [&](const Values& v, int64_t places) {
                          return mean(v) * double(v.size()) /
                                 double(s.count_include_pad ? places : v.size());
                        });
                      },
                  .depth = double(s.kernel.h * s.kernel.w) + 2},
                 s.channels);
}

inline Op global_avg_pool2d_op(std::string name, const Shape& x,
                               Channels channels = Channels::first) {
  return pool_op({.name = std::move(name),
                  .inputs = {x},
                  .run = [=](const auto& in) { return GlobalAvgPool2d(channels)(in[0]); },
                  .reference =
                      [=](const auto& in) {
                        Values y;
                        const int64_t P = x.numel(2, 4);
                        for (auto plane = in[0].begin(); plane != in[0].end(); plane += P)
                          y.push_back(mean(Values(plane, plane + P)));
                        return y;
                      },
                  .depth = double(x.numel(2, 4)) + 2},
                 channels);
}

}  // namespace accrue::test
