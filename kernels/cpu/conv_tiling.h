#pragma once

#include <algorithm>
#include <limits>
#include <optional>

#include "core/ceil_div.h"
#include "core/error.h"
#include "core/inside.h"
#include "kernels/detail/conv_geometry.h"

namespace accrue::cpu {

// One dimension of a product. Target position t = u * target_step + phase, phase < target_step,
// reads through tap i the source position u * source_step + offset(i, phase), if there is one.
struct Axis {
  int64_t source, target, source_step, target_step, taps, padding, dilation;
  int64_t first = 0, last = 0;  // the smallest and largest offset

  // `of` selects h or w of the geometry's numbers per axis.
  Axis(Direction direction, int64_t image, int64_t grid, int64_t taps, const ConvGeometry& g,
       int64_t PerAxis::*of)
      : source(direction == Direction::gather ? image : grid),
        target(direction == Direction::gather ? grid : image),
        source_step(direction == Direction::gather ? g.stride.*of : 1),
        target_step(direction == Direction::gather ? 1 : g.stride.*of),
        taps(taps),
        padding(direction == Direction::gather ? g.padding.*of : -(g.padding.*of)),
        dilation(direction == Direction::gather ? g.dilation.*of : -(g.dilation.*of)) {
    std::optional<int64_t> low, high;
    for (int64_t phase = 0; phase < target_step; ++phase)
      for (int64_t i = 0; i < taps; ++i)
        if (const auto at = offset(i, phase)) {
          low = std::min(low.value_or(*at), *at);
          high = std::max(high.value_or(*at), *at);
        }
    first = *low, last = *high;
  }

  std::optional<int64_t> offset(int64_t tap, int64_t phase) const {
    const int64_t distance = phase - padding + tap * dilation;
    if (distance % target_step != 0) return std::nullopt;
    return distance / target_step;
  }
  // False if at this offset positions see only the source's padding.
  bool sees_source(int64_t offset) const {
    const int64_t u = offset < 0 ? ceil_div(-offset, source_step) : 0;
    return u < steps() && u * source_step + offset < source;
  }
  // The largest number of taps through which the positions of one phase read.
  int64_t most_taps() const {
    int64_t most = 0;
    for (int64_t phase = 0; phase < target_step; ++phase) {
      int64_t count = 0;
      for (int64_t i = 0; i < taps; ++i) {
        const auto at = offset(i, phase);
        count += at && sees_source(*at);
      }
      most = std::max(most, count);
    }
    return most;
  }
  // The number of target positions in the first phase, which has the most.
  int64_t steps() const { return ceil_div(target, target_step); }
  // The padded source is stored as one plane per phase: neighbours in a target row then read
  // neighbours in a plane's row.
  int64_t phases() const { return std::min(source_step, last - first + 1); }
  int64_t phase_of(int64_t offset) const { return (offset - first) % source_step; }
  int64_t index_of(int64_t offset) const { return (offset - first) / source_step; }
  // The number of positions in a plane that `steps` target positions read.
  int64_t extent(int64_t steps) const { return steps + index_of(last); }
};

// How one product runs: threads take the N * bands bands of target rows one after another, each in
// its slot of the scratch.
struct ConvTiling {
  Axis h, w;
  // The most threads that can share a convolution; each of them needs scratch.
  static constexpr int64_t most_slots = 8;
  // A frame has the source's channels one by one, or `channels_together` of them in one element.
  // Bands and slots are the same either way: frames that take less memory do not get more slots.
  int64_t source_channels, frame_channels, target_channels, band, bands, slots;
  // Channels from one image to the next, more than those where the product is one group's.
  int64_t source_apart, target_apart;

  ConvTiling(Direction direction, const ConvGeometry& g, int64_t N, int64_t channels_together = 1)
      : h(direction, g.H, g.GH, g.KH, g, &PerAxis::h),
        w(direction, g.W, g.GW, g.KW, g, &PerAxis::w),
        source_channels(direction == Direction::gather ? g.C : g.O),
        frame_channels(source_channels),
        target_channels(direction == Direction::gather ? g.O : g.C) {
    const int64_t weights = std::max(
        g.w_extent(), round_up(source_channels, channels_together) * target_channels * g.area());
    check(weights <= std::numeric_limits<int32_t>::max(),
          "a convolution's weights are at most 2^31 elements, got {}", weights);
    // A band and its result stay in the second-level cache. Few images are cut into more bands.
    constexpr int64_t cache_elements = 1 << 16, least_bands = 2;
    const int64_t rows = h.steps();
    const int64_t fitting =
        (cache_elements - frame(0)) / (frame(1) - frame(0) + target_channels * columns());
    bands = ceil_div(rows, std::clamp<int64_t>(std::min(fitting, N * rows / least_bands), 1, rows));
    band = ceil_div(rows, bands);
    bands = ceil_div(rows, band);
    slots = std::min(slots_for(N, frame(band) + target_channels * cells(band)), N * bands);
    frame_channels = ceil_div(source_channels, channels_together);
    source_apart = source_channels, target_apart = target_channels;
  }

  // Returns as many slots as fit into a quarter of the size of source and target, so that scratch
  // is small beside them.
  int64_t slots_for(int64_t N, int64_t slot_elements) const {
    const int64_t elements =
        N * (source_channels * h.source * w.source + target_channels * h.target * w.target);
    return std::clamp<int64_t>(elements / 4 / slot_elements, 2, most_slots);
  }

  int64_t columns() const { return w.extent(w.steps()); }
  int64_t plane(int64_t rows) const { return h.extent(rows) * columns(); }
  int64_t channel() const { return h.phases() * w.phases() * plane(band); }
  // Elements of the padded source for a band of `rows`.
  int64_t frame(int64_t rows) const {
    return frame_channels * h.phases() * w.phases() * plane(rows);
  }
  // Target cells of a band, counted along the source's rows. Cells between the target's width and
  // the source's width have no meaning.
  int64_t cells(int64_t rows) const { return (rows - 1) * columns() + w.steps(); }
  // The place of the source's element for tap (i, j) of target cell 0 in a padded channel.
  int64_t offset(int64_t i_offset, int64_t j_offset) const {
    return (h.phase_of(i_offset) * w.phases() + w.phase_of(j_offset)) * plane(band) +
           h.index_of(i_offset) * columns() + w.index_of(j_offset);
  }
};

// The rows of one image that a tiling's band covers.
struct Band {
  int64_t n, begin, rows;

  Band(const ConvTiling& t, int64_t item)
      : n(item / t.bands),
        begin(item % t.bands * t.band),
        rows(std::min(t.band, t.h.steps() - begin)) {}
};

// How a product on small images runs. A band of one image would leave many lanes of its vectors to
// margins, and all weights would be read for it. Here the cells of several images lie side by side
// and are copied for a slice of the source's channels at a time. A chunk is some images and some of
// the target's channels, in all phases, because the phases share the cache lines of the weights.
struct PackedTiling {
  ConvTiling whole;  // in one band
  int64_t phases, cells, images, columns, channels, depth, rows, groups, row_groups, chunks, slots;
  bool pays;

  PackedTiling(const ConvTiling& t, int64_t N, int64_t vector_lanes) : whole(t) {
    // A slice of the columns and a chunk's results stay in the second-level cache together.
    constexpr int64_t most_columns = 256, slice_taps = 320, most_rows = 256, least_rows = 64,
                      least_chunks = 4;
    whole.band = t.h.steps(), whole.bands = 1;
    phases = t.h.target_step * t.w.target_step;
    cells = t.h.steps() * t.w.steps();  // of an image, in one phase
    images = ceil_div(N, ceil_div(N, std::max<int64_t>(1, most_columns / (phases * cells))));
    groups = ceil_div(N, images);
    columns = round_up(images * cells, vector_lanes);
    const int64_t taps = std::max<int64_t>(1, t.h.most_taps() * t.w.most_taps());
    channels = std::min(t.source_channels, ceil_div(slice_taps, phases * taps));
    depth = channels * taps;  // of a phase
    row_groups = std::max(ceil_div(t.target_channels, most_rows),
                          std::min(ceil_div(least_chunks, groups), t.target_channels / least_rows));
    rows = ceil_div(t.target_channels, row_groups);
    row_groups = ceil_div(t.target_channels, rows);
    chunks = groups * row_groups;
    slots = std::min(t.slots_for(N, images * frame() + phases * (depth + rows) * columns), chunks);
    channels = std::min(channels, t.frame_channels);
    depth = channels * taps;

    // Costs per tap, counted in lanes that are multiplied: reading a weight costs `read` of them,
    // copying a cell costs `copied`.
    constexpr int64_t read = 8, copied = 24;
    const int64_t M = t.target_channels, bands = N * t.bands;
    const int64_t banded = bands * (round_up(t.cells(t.band), vector_lanes) + read) * M;
    const int64_t packed = groups * ((columns + read) * M + columns * row_groups * copied);
    pays = phases * cells <= most_columns && packed < banded;
  }

  // Elements of one image's part of a slice.
  int64_t frame() const { return channels * whole.channel(); }
};

}  // namespace accrue::cpu
