#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cpu/bf16_pair.h"
#include "kernels/cpu/conv_tiling.h"
#include "kernels/cpu/micro_kernel.h"

// These functions lay out images as a convolution's taps see them, for its three products on the
// CPU.
namespace accrue::cpu {

// Calls body<T, F> for a floating dtype. T is the type of the elements. F is the type that a
// convolution multiplies: pairs of bfloat16 where the processor can, else single wide elements.
template <class Body>
decltype(auto) dispatch_factors(DType dtype, Body&& body) {
  if (dtype == DType::bf16 && multiplies_bfloat16_pairs())
    return body.template operator()<BFloat16, BFloat16Pair>();
  return dispatch_floating(
      dtype, [&]<class T>() -> decltype(auto) { return body.template operator()<T, Wide<T>>(); });
}

// out[v] = in[v * step], as F. A pair also takes the next channel's element, which lies `next`
// behind in[v * step]; if next is 0, the pair's second element is 0.
template <class F, class T>
void load_row(F* out, const T* in, [[maybe_unused]] int64_t next, int64_t count, int64_t step) {
  if constexpr (in_pairs<F>) {
    interleave(out, in, next ? in + next : nullptr, count, step);
  } else if (step == 1) {
    std::copy_n(in, count, out);
  } else {
    for (int64_t v = 0; v < count; ++v) out[v] = in[v * step];
  }
}

// Loads channels [c_begin, c_end) of the frame from the source [N, channels, H, W], as a band sees
// them, one plane for each phase. The frame must start as zeros, because the zeros to the left and
// right of the source are not written.
template <class F, class T>
void load_frame(F* frame, const T* source, const ConvTiling& t, Band band, int64_t c_begin,
                int64_t c_end) {
  const int64_t columns = t.columns(), planes = t.h.phases() * t.w.phases();
  const int64_t channel_size = t.h.source * t.w.source;
  for (int64_t plane = c_begin * planes; plane < c_end * planes; ++plane) {
    const int64_t c = plane / planes, h_phase = plane % planes / t.w.phases();
    const int64_t w0 = t.w.first + plane % t.w.phases(), step = t.w.source_step;
    const int64_t begin = std::clamp<int64_t>(ceil_div(-w0, step), 0, columns);
    const int64_t size =
        std::clamp<int64_t>(ceil_div(t.w.source - w0, step), begin, columns) - begin;
    const int64_t channel = c * elements_in<F>;
    const int64_t next = channel + 1 < t.source_channels ? channel_size : 0;
    const T* in = source + (band.n * t.source_apart + channel) * channel_size + w0 + begin * step;
    F* out = frame + (plane - c_begin * planes) * t.plane(t.band) + begin;
    for (int64_t r = 0; r < t.h.extent(band.rows); ++r, out += columns) {
      const int64_t h = (band.begin + r) * t.h.source_step + t.h.first + h_phase;
      if (h < 0 || h >= t.h.source) std::fill_n(out, size, F{});
      else load_row(out, in + h * t.w.source, next, size, step);
    }
  }
}

// The frames of several images, `step` elements apart; each image is one band.
template <class F>
struct Frames {
  F* data;
  int64_t step, images;
};

// Calls load_frame() for each of the images from `first` on.
template <class F, class T>
void load_frames(const Frames<F>& frames, const T* source, const ConvTiling& t, int64_t first,
                 int64_t c_begin, int64_t c_end) {
  for (int64_t i = 0; i < frames.images; ++i)
    load_frame(frames.data + i * frames.step, source, t, Band(t, first + i), c_begin, c_end);
}

// im2col's columns for some taps. Row k holds the cells of several images side by side; each
// image's cells are followed by zeros up to `image_cells`.
template <class F>
struct Columns {
  F* data;
  int64_t stride, image_cells;
};

// columns = the elements that the cells see through K taps; tap k begins at source_at[k] in each
// image's frame. Rows of cells are copied in whole vectors, and each row overwrites what the row
// before it has written past its end. The columns and the frames therefore need room for one more
// vector behind them.
template <class F>
void pack_columns(const Columns<F>& columns, const Frames<F>& frames, const int32_t* source_at,
                  int64_t K, const ConvTiling& t) {
  const int64_t rows = t.band, width = t.w.steps(), source_row = t.columns();
  for (int64_t k = 0; k < K; ++k) {
    for (int64_t image = 0; image < frames.images; ++image) {
      F *to = columns.data + k * columns.stride + image * columns.image_cells,
        *const end = to + columns.image_cells;
      const F* from = frames.data + image * frames.step + source_at[k];
      for (int64_t r = 0; r < rows; ++r, from += source_row, to += width)
        for (int64_t v = 0; v < width; v += lanes<F>) std::memcpy(to + v, from + v, vector_bytes);
      if (to < end) std::memset(to, 0, static_cast<size_t>(end - to) * sizeof(F));
    }
  }
}

// Returns w itself, or its elements in `copy` if they have to be widened.
template <class T>
const Wide<T>* widened(const T* w, [[maybe_unused]] Wide<T>* copy, [[maybe_unused]] int64_t n) {
  if constexpr (!is_16_bit<T>) return w;
  else {
    std::copy_n(w, n, copy);
    return copy;
  }
}

// out[v * step] = f(in[v] + shift) + beta * out[v * step] for v < count.
template <class T, class W, class F, class Accumulate>
void store_row(T* out, const W* in, int64_t count, int64_t step, W shift, F f,
               Accumulate accumulate) {
  if (step == 1) {
#pragma omp simd
    for (int64_t v = 0; v < count; ++v) store(out[v], f(in[v] + shift), accumulate);
  } else {
    for (int64_t v = 0; v < count; ++v) store(out[v * step], f(in[v] + shift), accumulate);
  }
}

}  // namespace accrue::cpu
