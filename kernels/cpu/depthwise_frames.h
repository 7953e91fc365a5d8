#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/cpu/conv_frames.h"
#include "kernels/cpu/convolution.h"

// Planes as the taps of a depthwise convolution see them.
namespace accrue::cpu::depthwise {

// How the rows of one phase of the target draw from the source. Target row u * target_step + phase
// draws through its tap k from source row u * source_step + first + k * apart, by row
// first_tap + k * tap_step of the filter.
struct RowTaps {
  int64_t phase, count, first, apart, first_tap, tap_step;

  int64_t last() const { return first + (std::max<int64_t>(count, 1) - 1) * apart; }
};

inline RowTaps gathered_rows(const ConvGeometry& g) {
  return {0, g.KH, -g.padding.h, g.dilation.h, 0, 1};
}
// The taps of a phase that meet a row of the grid, the last one first.
inline RowTaps scattered_rows(const ConvGeometry& g, int64_t phase) {
  const int64_t stride = g.stride.h, dilation = g.dilation.h, at = phase + g.padding.h;
  const int64_t skip = stride / std::gcd(stride, dilation);
  int64_t tap = 0;
  while (tap < g.KH && (at - tap * dilation) % stride != 0) ++tap;
  if (tap >= g.KH) return {phase, 0, 0, 1, 0, 0};
  const int64_t count = (g.KH - 1 - tap) / skip + 1, last = tap + (count - 1) * skip;
  return {phase, count, (at - last * dilation) / stride, dilation * skip / stride, last, -skip};
}

// The most rows that a pass computes at once, of which those behind the last mean nothing.
inline constexpr int64_t most_rows = 7;

// How a product goes over one plane. A frame holds rows of the source, and of each row what column
// v of the target draws through column tap j at column_at[j] + v. A gather with a step has the
// columns of each phase side by side, a scatter with a step has zeros between its columns.
struct Planes {
  const ConvGeometry& geometry;
  Direction direction;
  int64_t source_H, source_W, target_H, target_W, source_step, target_step;
  // A frame's row has planes of phases, columns in each, pixels between columns, and a place where
  // the source's first pixel lies in a row of one phase with a step of 1.
  int64_t phases, columns, step, stretch, left;
  std::vector<int64_t> column_at;
  // Pixels [begin, begin + size) of a row of each phase, from pixel `from` of the source on.
  struct Part {
    int64_t begin, size, from;
  };
  std::vector<Part> parts;
  std::vector<RowTaps> rows;
  int64_t first, span;  // the first source row of target row 0, and how many rows one draws from
  int64_t band, bands;  // in target rows of one phase

  Planes(Direction direction, const ConvGeometry& g)
      : geometry(g),
        direction(direction),
        source_H(gathers() ? g.H : g.GH),
        source_W(gathers() ? g.W : g.GW),
        target_H(gathers() ? g.GH : g.H),
        target_W(gathers() ? g.GW : g.W),
        source_step(gathers() ? g.stride.h : 1),
        target_step(gathers() ? 1 : g.stride.h) {
    const int64_t reach = (g.KW - 1) * g.dilation.w;
    step = gathers() ? g.stride.w : 1;
    stretch = gathers() ? 1 : g.stride.w;
    left = gathers() ? g.padding.w : reach - g.padding.w;
    phases = std::min(step, reach + 1);
    columns = target_W + reach / step;
    for (int64_t j = 0; j < g.KW; ++j) {
      const int64_t at = gathers() ? j * g.dilation.w : reach - j * g.dilation.w;
      column_at.push_back(at % step * columns + at / step);
    }
    for (int64_t each = 0; each < phases; ++each) parts.push_back(part_of(each));
    if (gathers()) rows.push_back(gathered_rows(g));
    else
      for (int64_t phase = 0; phase < target_step; ++phase)
        rows.push_back(scattered_rows(g, phase));
    first = rows[0].first;
    int64_t last = rows[0].last();
    for (const RowTaps& each : rows)
      first = std::min(first, each.first), last = std::max(last, each.last());
    span = last - first + 1;
    // A frame stays in the second-level cache. A multiple of the rows of passes.
    constexpr int64_t cache_elements = 1 << 16, rows_of_passes = 4 * most_rows;
    const int64_t fitting = std::max<int64_t>(1, cache_elements / (row_size() * source_step)) /
                            rows_of_passes * rows_of_passes;
    band = std::clamp(fitting, std::min(rows_of_passes, steps()), steps());
    bands = ceil_div(steps(), band);
  }

  bool gathers() const { return direction == Direction::gather; }
  int64_t steps() const { return ceil_div(target_H, target_step); }
  int64_t row_size() const { return phases * columns; }
  // Elements of a frame, with room for what vectors read and write behind it.
  template <class W>
  int64_t frame_size() const {
    const int64_t all = (band + most_rows - 1) * source_step + span;
    return all * row_size() + round_up(target_W, lanes<W>) + 4 * lanes<W>;
  }

 private:
  Part part_of(int64_t phase) const {
    if (stretch > 1) {
      const int64_t from = left < 0 ? ceil_div(-left, stretch) : 0;
      const int64_t end = std::min(ceil_div(columns - left, stretch), source_W);
      return {left + from * stretch, std::max<int64_t>(end - from, 0), from};
    }
    const int64_t w0 = phase - left;
    const int64_t begin = std::clamp<int64_t>(w0 < 0 ? ceil_div(-w0, step) : 0, 0, columns);
    const int64_t end =
        std::clamp<int64_t>(source_W > w0 ? ceil_div(source_W - w0, step) : 0, begin, columns);
    return {begin, end - begin, w0 + begin * step};
  }
};

// out[0, size) = in, in whole vectors, then a vector of zeros over what was written too far.
template <class W>
void copy_row(W* out, const W* in, int64_t size) {
  for (int64_t v = 0; v < size; v += lanes<W>) store_lanes(out + v, load(in + v));
  store_lanes(out + size, Lanes<W>{});
}

// The same for out[v] = in[2 v].
template <class W>
void copy_every_second(W* out, const W* in, int64_t size) {
  [&]<int... l>(std::integer_sequence<int, l...>) {
    for (int64_t v = 0; v < size; v += lanes<W>)
      store_lanes(out + v, __builtin_shufflevector(load(in + 2 * v), load(in + 2 * v + lanes<W>),
                                                   (2 * l)...));
  }
  (std::make_integer_sequence<int, int{lanes<W>}>());
  store_lanes(out + size, Lanes<W>{});
}

// frame = the plane's rows that a band of target rows from u on draws from. The frame starts as
// zeros. Rows are written in the order in which they lie, for vectors to be written whole; `end` is
// that of the source, behind which nothing is read.
template <class W, class T>
void load_plane(W* frame, const T* plane, const T* end, const Planes& p, int64_t u, int64_t count) {
  const int64_t rows = (count - 1) * p.source_step + p.span;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t h = u * p.source_step + p.first + r;
    for (int64_t phase = 0; phase < p.phases; ++phase) {
      const Planes::Part part = p.parts[size_t(phase)];
      W* const out = frame + (r * p.phases + phase) * p.columns + part.begin;
      if (h < 0 || h >= p.source_H) {
        if (p.stretch > 1) std::fill_n(out, std::max<int64_t>(0, part.size * p.stretch), W(0));
        else std::fill_n(out, part.size, W(0));
        continue;
      }
      const T* in = plane + h * p.source_W + part.from;
      if constexpr (std::is_same_v<W, T>) {
        const int64_t whole = round_up(part.size, lanes<W>) * p.step;
        if (p.stretch == 1 && p.step <= 2 && end - in >= whole) {
          if (p.step == 1) copy_row(out, in, part.size);
          else copy_every_second(out, in, part.size);
          continue;
        }
      }
      if (p.stretch > 1)
        for (int64_t v = 0; v < part.size; ++v) out[v * p.stretch] = widen(in[v]);
      else if (p.step == 1) std::copy_n(in, part.size, out);
      else
        for (int64_t v = 0; v < part.size; ++v) out[v] = widen(in[v * p.step]);
    }
  }
}

}  // namespace accrue::cpu::depthwise
