#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/detail/conv_tiling.h"
#include "kernels/detail/gemm_block.h"

// What the three products of a convolution on the CPU share: images as their taps see them.
namespace accrue::cpu {

// frame = channels [c_begin, c_end) of the source [N, channels, H, W] as a band sees them, one
// plane for each phase. The frame starts as zeros; those left and right of the source stay.
template <class T>
void load_frame(Wide<T>* frame, const T* source, const ConvTiling& t, Band band, int64_t c_begin,
                int64_t c_end) {
  const int64_t columns = t.columns(), planes = t.h.phases() * t.w.phases();
  for (int64_t plane = c_begin * planes; plane < c_end * planes; ++plane) {
    const int64_t c = plane / planes, h_phase = plane % planes / t.w.phases();
    const int64_t w0 = t.w.first + plane % t.w.phases(), step = t.w.source_step;
    const int64_t begin = std::clamp<int64_t>(ceil_div(-w0, step), 0, columns);
    const int64_t size =
        std::clamp<int64_t>(ceil_div(t.w.source - w0, step), begin, columns) - begin;
    const T* in =
        source + (band.n * t.source_channels + c) * t.h.source * t.w.source + w0 + begin * step;
    Wide<T>* out = frame + (plane - c_begin * planes) * t.plane(t.band) + begin;
    for (int64_t r = 0; r < t.h.extent(band.rows); ++r, out += columns) {
      const int64_t h = (band.begin + r) * t.h.source_step + t.h.first + h_phase;
      if (h < 0 || h >= t.h.source) std::fill_n(out, size, Wide<T>(0));
      else if (step == 1) std::copy_n(in + h * t.w.source, size, out);
      else
        for (int64_t v = 0; v < size; ++v) out[v] = in[h * t.w.source + v * step];
    }
  }
}

// columns[k, cells of the images] = what they see through tap k < K, which begins at source_at[k]
// in each image's frame. t has one band. Rows of cells are copied in whole vectors: what is written
// past an end, the next row overwrites, so a vector more must have room behind the columns and the
// frames.
template <class W>
void pack_columns(W* columns, int64_t stride, const W* frames, int64_t frame_size,
                  const int32_t* source_at, int64_t K, int64_t images, const ConvTiling& t) {
  const int64_t rows = t.band, width = t.w.steps(), source_row = t.columns();
  for (int64_t k = 0; k < K; ++k) {
    W* to = columns + k * stride;
    for (int64_t image = 0; image < images; ++image) {
      const W* from = frames + image * frame_size + source_at[k];
      for (int64_t r = 0; r < rows; ++r, from += source_row, to += width)
        for (int64_t v = 0; v < width; v += lanes<W>) store_lanes(to + v, load(from + v));
    }
  }
}

// w as it is, or its wide elements in `room`.
template <class T>
const Wide<T>* widened(const T* w, [[maybe_unused]] Wide<T>* room, [[maybe_unused]] int64_t n) {
  if constexpr (!is_16_bit<T>) return w;
  else {
    std::copy_n(w, n, room);
    return room;
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
