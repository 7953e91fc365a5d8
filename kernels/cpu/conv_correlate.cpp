// Correlate, computed by the products of indirect_gemm.h.

#include "kernels/backend.h"
#include "kernels/cpu/bump_allocator.h"
#include "kernels/cpu/conv_frames.h"
#include "kernels/cpu/conv_tiling.h"
#include "kernels/cpu/convolution.h"
#include "kernels/cpu/depthwise.h"
#include "kernels/cpu/indirect_gemm.h"
#include "kernels/cpu/winograd.h"

namespace accrue::cpu {
namespace {

// The scratch of correlate. Its product multiplies the pixels that the taps see by the transposed
// cells, which are widened before if necessary. Here a pair is two neighbours in a row of cells,
// which see neighbours in the frame. If a row has an odd number of cells, the last one has a zero
// beside it.
template <class T, class F>
struct BandedScratch {
  using W = Wide<T>;
  using Pixel = typename Arithmetic<F>::Left;
  int32_t *image_at, *cell_at, *transposed_at;
  Pixel* frames;
  F *widened, *cells;
  W* partials;
  // The bands are cut into groups, each with a separate partial sum, and within a group the image's
  // channels are cut into slices. Many groups need much memory, and many slices transpose the cells
  // again and again. Several small images are taken at once, so that the partial sum is not read
  // and written for a few cells.
  int64_t groups, slices, at_once, slots, stride, row_cells, frame_size, frames_size, widened_size,
      cells_size, partial_size;
  size_t bytes;

  BandedScratch(const ConvTiling& t, const ConvGeometry& g, int64_t N, void* base) {
    constexpr int64_t partial_elements = 1 << 16, most_groups = 4, chunks = 16, slice_taps = 128,
                      many_cells = 320;
    BumpAllocator allocator(base);
    stride = round_up(g.O, lanes<W>);
    partial_size = g.taps() * stride;
    groups =
        std::clamp<int64_t>(partial_elements / partial_size, 1, std::min(most_groups, N * t.bands));
    groups = Partition(N * t.bands, ceil_div(N * t.bands, groups)).parts;
    slices = std::clamp<int64_t>(g.taps() / slice_taps, 1, std::min(g.C, chunks / groups));
    const int64_t single_cells = t.band * g.GW;
    at_once = t.bands > 1 ? 1 : std::clamp<int64_t>(many_cells / single_cells, 1, N / groups);
    frame_size = t.frame(t.band) / g.C * ceil_div(g.C, slices);
    frames_size = at_once * frame_size + elements_in<F> - 1;
    // Pairs take less memory, but do not get more slots for that.
    slots =
        std::min(groups * slices, t.slots_for(N, at_once * (frame_size + single_cells * stride) +
                                                     (is_16_bit<T> ? g.O * single_cells : 0)));
    row_cells = ceil_div(g.GW, elements_in<F>);
    const int64_t band_cells = t.band * row_cells;
    widened_size = is_16_bit<T> ? g.O * band_cells : 0;
    cells_size = band_cells * stride;
    image_at = allocator.take<int32_t>(g.taps());
    cell_at = allocator.take<int32_t>(at_once * band_cells);
    transposed_at = allocator.take<int32_t>(at_once * band_cells);
    frames = allocator.take<Pixel>(slots * frames_size);
    widened = allocator.take<F>(slots * widened_size);
    cells = allocator.take<F>(slots * at_once * cells_size);
    partials = allocator.take<W>(groups * partial_size);
    bytes = allocator.used();
  }
};

// The scratch of correlate for few cells and many weights. The cells are multiplied, as they lie,
// by the pixels that they see through a slice of taps, which are copied side by side. Results go
// directly to the weights, because partial sums as large as the weights would take longer than the
// product. A pair is two consecutive cells of an image; an odd number of cells is copied with a
// zero behind it.
template <class T, class F>
struct DirectScratch {
  using W = Wide<T>;
  using Pixel = typename Arithmetic<F>::Left;
  static constexpr int64_t elements = elements_in<F>;
  ConvTiling whole;  // in one band
  int32_t *cell_row, *cell_at, *tap_at, *columns_at;
  Pixel *copied, *frames, *columns;
  F* transposed;
  W* results;
  int64_t cells, image_cells, images, channels, slices, slots, frame_size, columns_stride,
      columns_size, stride, transposed_size, result_size;
  bool pays;
  size_t bytes;

  DirectScratch(const ConvTiling& t, const ConvGeometry& g, int64_t N, void* base) : whole(t) {
    constexpr int64_t most_cells = 256, slice_taps = 256, least_slices = 4;
    BumpAllocator allocator(base);
    whole.band = t.h.steps(), whole.bands = 1;
    cells = g.GH * g.GW;  // of an image
    image_cells = round_up(cells, elements);
    // Copying a column costs as much as a few multiplications, and so does adding to a weight.
    pays = cells <= most_cells && N * cells <= 2 * g.O;
    images = ceil_div(N, ceil_div(N, std::max<int64_t>(1, most_cells / cells)));
    // Slices fill their vectors, whatever the kernel's area.
    channels = std::min(std::max<int64_t>(1, slice_taps / (lanes<W> * g.area())) * lanes<W>,
                        round_up(ceil_div(g.C, least_slices), lanes<W>));
    channels = std::min(channels, g.C);
    slices = ceil_div(g.C, channels);
    stride = round_up(channels * g.area(), lanes<W>);
    frame_size = channels * whole.channel();
    columns_stride = round_up(images * image_cells, lanes<Pixel>);
    columns_size = channels * g.area() * columns_stride + lanes<Pixel>;
    transposed_size = columns_stride / elements * stride;
    result_size = block_rows * stride;
    const int64_t single_cells = round_up(images * cells, lanes<W>);
    slots = std::min(slices, t.slots_for(N, images * frame_size + lanes<W> +
                                                (channels * g.area() + stride) * single_cells));
    cell_row = allocator.take<int32_t>(g.O);
    cell_at = allocator.take<int32_t>(images * image_cells / elements);
    tap_at = allocator.take<int32_t>(channels * g.area());
    columns_at = allocator.take<int32_t>(images * image_cells / elements);
    copied = allocator.take<Pixel>(
        !std::is_same_v<T, Pixel> || image_cells != cells ? N * g.O * image_cells : 0);
    frames = allocator.take<Pixel>(slots * (images * frame_size + lanes<Pixel>));
    columns = allocator.take<Pixel>(slots * columns_size);
    transposed = allocator.take<F>(slots * transposed_size);
    results = allocator.take<W>(slots * result_size);
    bytes = allocator.used();
  }
};

// Tells where correlate's taps begin in a frame.
void fill_taps(int32_t* taps, int64_t count, const ConvTiling& t, const ConvGeometry& g) {
  for (int64_t k = 0; k < count; ++k) {
    const int64_t c = k / g.area(), i = k % g.area() / g.KW, j = k % g.KW;
    taps[k] =
        static_cast<int32_t>(c * t.channel() + t.offset(*t.h.offset(i, 0), *t.w.offset(j, 0)));
  }
}

template <class T, class F>
void fill_tables(const BandedScratch<T, F>& x, const ConvTiling& t, const ConvGeometry& g) {
  fill_taps(x.image_at, g.taps(), t, g);
  const int64_t band_cells = t.band * x.row_cells;
  for (int64_t at = 0; at < x.at_once * band_cells; ++at) {
    const int64_t image = at / band_cells, cell = at % band_cells;
    x.cell_at[at] = static_cast<int32_t>(image * x.frame_size + cell / x.row_cells * t.columns() +
                                         cell % x.row_cells * elements_in<F>);
    x.transposed_at[at] = static_cast<int32_t>(at * x.stride);
  }
}

// cells = the band's rows of the grid, transposed to [band, O].
template <class T, class F>
void load_cells(F* cells, [[maybe_unused]] F* widened, const T* grid, Band band,
                const BandedScratch<T, F>& x, const ConvTiling& t, const ConvGeometry& g) {
  const int64_t size = band.rows * x.row_cells;
  const T* in = grid + (band.n * t.target_apart * g.GH + band.begin) * g.GW;
  if constexpr (is_16_bit<T>) {
    // If no row ends with half a pair, all rows are copied as one.
    const int64_t rows = g.GW % elements_in<F> == 0 ? 1 : band.rows;
    const int64_t width = band.rows * g.GW / rows, row_size = size / rows;
    F* out = widened;
    for (int64_t o = 0; o < g.O; ++o)
      for (int64_t r = 0; r < rows; ++r, out += row_size) {
        const T* row = in + o * g.GH * g.GW + r * width;
        if constexpr (in_pairs<F>) {
          out[row_size - 1] = 0;
          std::memcpy(out, row, static_cast<size_t>(width) * sizeof(T));
        } else {
          std::copy_n(row, width, out);
        }
      }
    transpose(cells, x.stride, widened, size, g.O, size);
  } else {
    transpose(cells, x.stride, in, g.GH * g.GW, g.O, size);
  }
}

// w[o, k] = sum_group partials[group][k, o] + beta * w[o, k].
template <class T, class F>
void add_partials(GradTarget w, const BandedScratch<T, F>& x, const ConvGeometry& g) {
  const int64_t taps = g.taps();
  with_beta(w.beta, [&](auto accumulate) {
    using W = Wide<T>;
    constexpr int64_t rows = lanes<W>, most = 8 * lanes<W>;  // of a part of w
    parallel_for(x.stride / rows, rows * taps * x.groups, [&](int64_t begin, int64_t end) {
      W sums[rows * most], partial[rows * most];
      for (int64_t o = begin * rows; o < end * rows; o += rows)
        for (int64_t k = 0; k < taps; k += most) {
          const int64_t columns = std::min(most, taps - k);
          for (int64_t group = 0; group < x.groups; ++group) {
            const W* from = x.partials + group * x.partial_size + k * x.stride + o;
            transpose(group == 0 ? sums : partial, most, from, x.stride, columns, rows);
            for (int64_t i = 0; group > 0 && i < rows * most; ++i) sums[i] += partial[i];
          }
          for (int64_t r = 0; r < std::min(rows, g.O - o); ++r)
            for (int64_t j = 0; j < columns; ++j)
              store(w.grad.as<W>()[(o + r) * g.filter_step() + k + j], sums[r * most + j],
                    accumulate);
        }
    });
  });
}

template <class T, class F>
void fill_tables(const DirectScratch<T, F>& x, const ConvGeometry& g) {
  for (int64_t o = 0; o < g.O; ++o) x.cell_row[o] = static_cast<int32_t>(o * x.image_cells);
  for (int64_t at = 0; at < x.images * x.image_cells / x.elements; ++at) {
    const int64_t cell = at * x.elements;
    x.cell_at[at] =
        static_cast<int32_t>(cell / x.image_cells * g.O * x.image_cells + cell % x.image_cells);
    x.columns_at[at] = static_cast<int32_t>(at * x.stride);
  }
  fill_taps(x.tap_at, x.channels * g.area(), x.whole, g);
}

// Returns the grid itself, or a copy in the form that is multiplied.
template <class T, class F>
const typename Arithmetic<F>::Left* cells_of(const T* grid, const DirectScratch<T, F>& x,
                                             int64_t planes) {
  if constexpr (std::is_same_v<T, typename Arithmetic<F>::Left>)
    if (x.image_cells == x.cells) return grid;
  for (int64_t plane = 0; plane < planes; ++plane) {
    auto* const out = x.copied + plane * x.image_cells;
    std::copy_n(grid + plane * x.cells, x.cells, out);
    std::fill_n(out + x.cells, x.image_cells - x.cells, typename Arithmetic<F>::Left{});
  }
  return x.copied;
}

// The arguments that all chunks share; Cell is the type in which the grid is multiplied.
template <class Scratch, class T, class Cell>
struct Correlation {
  const Scratch& scratch;
  const ConvTiling& tiling;
  const ConvGeometry& geometry;
  GradTarget w;
  const Cell* grid;
  const T* image;
  int64_t N;
};
template <class T, class F>
using DirectCorrelation = Correlation<DirectScratch<T, F>, T, typename Arithmetic<F>::Left>;
template <class T, class F>
using BandedCorrelation = Correlation<BandedScratch<T, F>, T, T>;

// Computes w[o, taps of a slice of channels] for all o from the images that are taken at once, from
// image `n` on.
template <class T, class F>
void correlate_slice(const DirectCorrelation<T, F>& correlation, int64_t n, int64_t slice,
                     int slot) {
  using W = Wide<T>;
  using Pixel = typename Arithmetic<F>::Left;
  const DirectScratch<T, F>& x = correlation.scratch;
  const ConvGeometry& g = correlation.geometry;
  const int64_t c_begin = slice * x.channels, c_end = std::min(c_begin + x.channels, g.C);
  const int64_t taps = (c_end - c_begin) * g.area(), N = round_up(taps, lanes<W>);
  const Frames<Pixel> frames{x.frames + slot * (x.images * x.frame_size + lanes<Pixel>),
                             x.frame_size, std::min(x.images, correlation.N - n)};
  const int64_t cells = frames.images * x.image_cells / x.elements;
  const Columns<Pixel> columns{x.columns + slot * x.columns_size, x.columns_stride, x.image_cells};
  F* const transposed = x.transposed + slot * x.transposed_size;
  W* const result = x.results + slot * x.result_size;
  W* const w = correlation.w.grad.template as<W>() + c_begin * g.area();
  load_frames(frames, correlation.image, x.whole, n, c_begin, c_end);
  pack_columns(columns, frames, x.tap_at, taps, x.whole);
  transpose(transposed, x.stride, reinterpret_cast<const F*>(columns.data),
            columns.stride / x.elements, taps, cells);
  const Partition blocks(g.O, block_rows);
  for (int64_t block = 0; block < blocks.parts; ++block) {
    const int64_t o = blocks.begin(block), rows = blocks.size(block);
    indirect_gemm<F>(result, correlation.grid + n * g.O * x.image_cells, transposed,
                     IndirectGemm{.M = rows,
                                  .N = N,
                                  .K = cells,
                                  .a_row = x.cell_row + o,
                                  .a_col = x.cell_at,
                                  .b_row = x.columns_at},
                     Result::write);
    with_beta(n > 0 ? 1.0f : correlation.w.beta, [&](auto accumulate) {
      for (int64_t r = 0; r < rows; ++r) {
        W* const out = w + (o + r) * g.filter_step();
        for (int64_t k = 0; k < taps; ++k) store(out[k], result[r * N + k], accumulate);
      }
    });
  }
}

template <class T, class F>
void correlate_directly(const DirectCorrelation<T, F>& correlation) {
  using Pixel = typename Arithmetic<F>::Left;
  const DirectScratch<T, F>& x = correlation.scratch;
  parallel_chunks(x.slices, static_cast<int>(x.slots), [&](int64_t slice, int slot) {
    const int64_t frames_size = x.images * x.frame_size + lanes<Pixel>;
    std::fill_n(x.frames + slot * frames_size, frames_size, Pixel{});
    std::fill_n(x.columns + slot * x.columns_size, x.columns_size, Pixel{});
    for (int64_t n = 0; n < correlation.N; n += x.images)
      correlate_slice<T, F>(correlation, n, slice, slot);
  });
}

// The partial sum of a group of bands, for a slice of the image's channels.
template <class T, class F>
void correlate_group(const BandedCorrelation<T, F>& correlation, const Partition& bands,
                     int64_t chunk, int slot) {
  const BandedScratch<T, F>& x = correlation.scratch;
  const ConvTiling& t = correlation.tiling;
  const ConvGeometry& g = correlation.geometry;
  const int64_t group = chunk / x.slices, slice = chunk % x.slices;
  const int64_t c_begin = g.C * slice / x.slices, c_end = g.C * (slice + 1) / x.slices;
  const int64_t first_tap = c_begin * g.area();
  const int64_t first_item = bands.begin(group), last_item = bands.begin(group + 1);
  auto* const frame = x.frames + slot * x.frames_size;
  F* const cells = x.cells + slot * x.at_once * x.cells_size;
  std::fill_n(frame, x.frames_size, typename Arithmetic<F>::Left{});
  for (int64_t item = first_item; item < last_item; item += x.at_once) {
    const int64_t count = std::min(x.at_once, last_item - item);
    for (int64_t i = 0; i < count; ++i) {
      const Band band(t, item + i);
      load_frame(frame + i * x.frame_size, correlation.image, t, band, c_begin, c_end);
      load_cells(cells + i * x.cells_size, x.widened + slot * x.widened_size, correlation.grid,
                 band, x, t, g);
    }
    const IndirectGemm product{.M = (c_end - c_begin) * g.area(),
                               .N = x.stride,
                               .K = count * Band(t, item).rows * x.row_cells,
                               .a_row = x.image_at,
                               .a_col = x.cell_at,
                               .b_row = x.transposed_at};
    indirect_gemm<F>(x.partials + group * x.partial_size + first_tap * x.stride, frame, cells,
                     product, item == first_item ? Result::write : Result::add);
  }
}

template <class T, class F>
void correlate_in_bands(GradTarget w, View grid, View image, const ConvGeometry& g,
                        View workspace) {
  const int64_t N = grid.shape[0];
  ConvTiling tiling(Direction::gather, g, N);
  tiling.source_apart = image.shape[1], tiling.target_apart = grid.shape[1];
  const BandedScratch<T, F> x(tiling, g, N, workspace.data);
  fill_tables(x, tiling, g);
  const BandedCorrelation<T, F> correlation{
      x, tiling, g, w, grid.as<const T>(), image.as<const T>(), N};
  const Partition bands(N * tiling.bands, ceil_div(N * tiling.bands, x.groups));
  parallel_chunks(bands.parts * x.slices, static_cast<int>(x.slots), [&](int64_t chunk, int slot) {
    correlate_group<T, F>(correlation, bands, chunk, slot);
  });
  add_partials(w, x, g);
}

// Groups one after the other, each with threads and scratch of its own.
template <class T, class F>
void correlate_groups(GradTarget w, View grid, View image, const ConvGeometry& g, View workspace) {
  const ConvGeometry one = g.of_group();
  for (int64_t group = 0; group < g.groups; ++group)
    correlate_in_bands<T, F>({behind(w.grad, group * one.O * g.filter_step()), w.beta},
                             behind(grid, group * one.O * g.GH * g.GW),
                             behind(image, group * one.C * g.H * g.W), one, workspace);
}

}  // namespace

int64_t correlate_bytes(const ConvGeometry& all, int64_t N, DType dtype) {
  if (all.is_depthwise()) return depthwise_correlate_bytes(all, N, dtype);
  const ConvGeometry g = all.of_group();
  return dispatch_factors(dtype, [&]<class T, class F>() {
    if constexpr (!is_16_bit<T>)
      if (winograd_correlate_pays(all, N)) return winograd_correlate_bytes<T>(g, N);
    const ConvTiling tiling(Direction::gather, g, N);
    const DirectScratch<T, F> direct(tiling, g, N, nullptr);
    return static_cast<int64_t>(all.groups == 1 && direct.pays
                                    ? direct.bytes
                                    : BandedScratch<T, F>(tiling, g, N, nullptr).bytes);
  });
}

void conv_correlate(GradTarget w, View grid, View image, const ConvGeometry& g, View workspace) {
  if (g.is_depthwise()) return depthwise_correlate(w, grid, image, g, workspace);
  dispatch_factors(grid.dtype, [&]<class T, class F>() {
    const int64_t N = grid.shape[0];
    if (g.groups > 1) return correlate_groups<T, F>(w, grid, image, g, workspace);
    if constexpr (!is_16_bit<T>)
      if (winograd_correlate_pays(g, N)) return winograd_correlate<T>(w, grid, image, g, workspace);
    const ConvTiling tiling(Direction::gather, g, N);
    if (const DirectScratch<T, F> x(tiling, g, N, workspace.data); x.pays) {
      fill_tables(x, g);
      return correlate_directly<T, F>(
          {x, tiling, g, w, cells_of(grid.as<const T>(), x, N * g.O), image.as<const T>(), N});
    }
    correlate_in_bands<T, F>(w, grid, image, g, workspace);
  });
}

}  // namespace accrue::cpu
