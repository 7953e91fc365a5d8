#include "kernels/detail/winograd.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/backend.h"
#include "kernels/detail/carver.h"
#include "kernels/detail/conv_frames.h"
#include "kernels/detail/formulas.h"
#include "kernels/detail/gemm.h"
#include "kernels/detail/indirect_gemm.h"
#include "kernels/detail/winograd_transforms.h"

namespace accrue::cpu {
namespace {

using winograd::in_two_dimensions;

constexpr int64_t all_points = winograd::points * winograd::points;
constexpr int64_t area = winograd::taps * winograd::taps;

// Planes of an image, or of a grid.
struct Planes {
  int64_t channels, H, W;
  int64_t size() const { return H * W; }
};

// Tile rows [begin, begin + rows) of image n, each `columns` tiles of 2x2 cells.
struct Piece {
  int64_t n, begin, rows, columns;
  int64_t tiles() const { return rows * columns; }
  // Cells of the grid that is tiled: those of its last row or column may be outside.
  int64_t first_row() const { return winograd::cells * begin; }
  int64_t last_row(int64_t H) const { return std::min(winograd::cells * (begin + rows), H); }
};

// The tiles of N images, in pieces of nearly equal size: an image, or some of its tile rows.
struct Pieces {
  int64_t columns;
  Partition rows;  // of an image
  int64_t count;

  Pieces(const Planes& tiled, int64_t N, int64_t most_tiles)
      : columns(ceil_div<int64_t>(tiled.W, winograd::cells)),
        rows(ceil_div<int64_t>(tiled.H, winograd::cells),
             std::max<int64_t>(1, most_tiles / columns)),
        count(N * rows.parts) {}

  int64_t most_rows() const { return rows.size(0); }
  int64_t most_tiles() const { return most_rows() * columns; }
  Piece operator[](int64_t i) const {
    const int64_t band = i % rows.parts;
    return {i / rows.parts, rows.begin(band), rows.size(band), columns};
  }
};

// Matrices of all points: [point, tile, channel] with a vector more in each row, as rows a power of
// two apart would compete for the same lines of a cache.
template <class T>
struct Points {
  T* data = nullptr;
  int64_t tiles, stride;

  Points(int64_t tiles, int64_t channels)
      : tiles(tiles), stride(round_up(channels, lanes<T>) + lanes<T>) {}
  int64_t size() const { return all_points * tiles * stride; }
  T* at(int64_t point, int64_t tile) const { return data + (point * tiles + tile) * stride; }
};

// Elements that load_points() needs besides: the pixels of a piece, channel by channel, and a pixel
// of zeros.
template <class T>
int64_t frame_size(const Planes& planes, int64_t most_rows) {
  return ((winograd::cells * most_rows + winograd::taps - 1) * planes.W + 1) *
         round_up(planes.channels, lanes<T>);
}

// Points [first_tile, ...) of a piece: step applied to the from x from pixels of each tile, which
// begin `padding` before its first cell. `source` is that of image 0, `image_step` elements apart.
template <int from, class T, class Step>
void load_points(const Points<T>& out, int64_t first_tile, const T* source, int64_t image_step,
                 const Planes& planes, int64_t padding, const Piece& piece, T* frame, Step step) {
  const int64_t channels = round_up(planes.channels, lanes<T>), W = planes.W;
  const int64_t top = piece.first_row() - padding;
  const int64_t h_begin = std::clamp<int64_t>(top, 0, planes.H);
  const int64_t h_end =
      std::clamp<int64_t>(top + winograd::cells * (piece.rows - 1) + from, h_begin, planes.H);
  T* const zeros = frame + (h_end - h_begin) * W * channels;
  std::fill_n(zeros, channels, T(0));
  transpose(frame, channels, source + piece.n * image_step + h_begin * W, planes.size(),
            planes.channels, (h_end - h_begin) * W);
  for (int64_t tile = 0; tile < piece.tiles(); ++tile) {
    const int64_t h0 = top + winograd::cells * (tile / piece.columns);
    const int64_t w0 = winograd::cells * (tile % piece.columns) - padding;
    const T* pixels[from][from];
#pragma GCC unroll 4
    for (int i = 0; i < from; ++i) {
      const int64_t h = h0 + i;
      const T* const row = frame + (h - h_begin) * W * channels;
#pragma GCC unroll 4
      for (int j = 0; j < from; ++j) {
        const int64_t w = w0 + j;
        pixels[i][j] = uint64_t(h) < uint64_t(planes.H) && uint64_t(w) < uint64_t(W)
                           ? row + w * channels
                           : zeros;
      }
    }
    T* const to = out.at(0, first_tile + tile);
    const int64_t point_step = out.tiles * out.stride;
    for (int64_t c = 0; c < channels; c += lanes<T>)
      in_two_dimensions<Lanes<T>, from, winograd::points>(
          step, [&](int i, int j) { return load(pixels[i][j] + c); },
          [&](int i, int j, const Lanes<T>& v) {
            store_lanes(to + (winograd::points * i + j) * point_step + c, v);
          });
  }
}

// gather and scatter

// Weights at the points, in panels of target channels as wide as a block of registers:
// [panel, point, source channel, target channel].
template <class T>
struct WeightPanels {
  Partition vectors;  // of target channels
  int64_t sources;

  WeightPanels(Direction direction, const ConvGeometry& g)
      : vectors(ceil_div(direction == Direction::gather ? g.O : g.C, lanes<T>), block_vectors),
        sources(direction == Direction::gather ? g.C : g.O) {}
  int64_t size() const { return begin(vectors.parts); }
  int64_t columns(int64_t panel) const { return vectors.size(panel) * lanes<T>; }
  int64_t begin(int64_t panel) const {
    return vectors.begin(panel) * lanes<T> * all_points * sources;
  }
  int64_t most_columns() const { return columns(0); }
};

// How gather and scatter run. A chunk is some pieces and some panels of target channels; the points
// of its source stay in the second-level cache while the panels' weights pass by.
template <class T>
struct Tiling {
  Planes source, target;
  int64_t padding;
  Pieces pieces;
  int64_t at_once, panel_groups;
  WeightPanels<T> panels;
  Points<T> points;
  int64_t frame, products, pixels, transposed, slots;

  Tiling(Direction direction, const ConvGeometry& g, int64_t N)
      : source(direction == Direction::gather ? Planes{g.C, g.H, g.W} : Planes{g.O, g.GH, g.GW}),
        target(direction == Direction::gather ? Planes{g.O, g.GH, g.GW} : Planes{g.C, g.H, g.W}),
        padding(direction == Direction::gather ? g.padding : winograd::taps - 1 - g.padding),
        pieces(target, N, most_tiles(source)),
        at_once(std::clamp<int64_t>(most_tiles(source) / pieces.most_tiles(), 1,
                                    ceil_div(pieces.count, least_chunks))),
        panels(direction, g),
        points(at_once * pieces.most_tiles(), source.channels) {
    panel_groups =
        std::min(ceil_div(least_chunks, ceil_div(pieces.count, at_once)), panels.vectors.parts);
    frame = frame_size<T>(source, pieces.most_rows());
    products = all_points * points.tiles * panels.most_columns();
    const int64_t cells = winograd::cells * pieces.most_rows() * target.W;
    pixels = (cells + 1) * panels.most_columns();
    transposed = round_up(cells, lanes<T>) * panels.most_columns();
    slots = std::min(chunks(),
                     ConvTiling(direction, g, N).slots_for(N, frame + points.size() + products));
  }

  static constexpr int64_t least_chunks = 4;
  static int64_t most_tiles(const Planes& source) {
    constexpr int64_t elements = 160 << 10;  // of the points and of a panel's products
    return std::clamp<int64_t>(
        elements / (all_points * (source.channels + block_vectors * lanes<T>)), 16, 48);
  }
  int64_t chunks() const { return ceil_div(pieces.count, at_once) * panel_groups; }
};

template <class T>
struct Scratch {
  T *frames, *points, *products, *pixels, *transposed;
  size_t bytes;

  Scratch(const Tiling<T>& t, void* base) {
    Carver carver(base);
    frames = carver.take<T>(t.slots * t.frame);
    points = carver.take<T>(t.slots * t.points.size());
    products = carver.take<T>(t.slots * t.products);
    pixels = carver.take<T>(t.slots * t.pixels);
    transposed = carver.take<T>(t.slots * t.transposed);
    bytes = carver.used();
  }
};

// A piece's cells of some target channels, from their products at the points [point, tile,
// channel].
template <class T>
struct Results {
  const T* products;
  int64_t tiles, columns;
};

// target = act(cells + b) + beta * target for channels [m, m + count) of a piece.
template <class T, class F, class Accumulate>
void store_piece(T* target, const T* b, const Planes& planes, const Results<T>& in,
                 int64_t first_tile, int64_t m, const Piece& piece, T* pixels, T* transposed, F f,
                 Accumulate accumulate) {
  const int64_t W = planes.W, top = piece.first_row(), height = piece.last_row(planes.H) - top;
  const int64_t cells = height * W, columns = in.columns;
  T* const outside = pixels + cells * columns;
  for (int64_t tile = 0; tile < piece.tiles(); ++tile) {
    const int64_t h0 = winograd::cells * (tile / piece.columns);
    const int64_t w0 = winograd::cells * (tile % piece.columns);
    const T* const from = in.products + (first_tile + tile) * columns;
    for (int64_t v = 0; v < columns; v += lanes<T>)
      in_two_dimensions<Lanes<T>, winograd::points, winograd::cells>(
          winograd::results,
          [&](int i, int j) {
            return load(from + (winograd::points * i + j) * in.tiles * columns + v);
          },
          [&](int i, int j, const Lanes<T>& cell) {
            const int64_t h = h0 + i, w = w0 + j;
            store_lanes((h < height && w < W ? pixels + (h * W + w) * columns : outside) + v, cell);
          });
  }
  const int64_t stride = round_up(cells, lanes<T>);
  transpose(transposed, stride, pixels, columns, cells, columns);
  const int64_t count = std::min(columns, planes.channels - m);
  for (int64_t i = 0; i < count; ++i)
    store_row(target + (piece.n * planes.channels + m + i) * planes.size() + top * W,
              transposed + i * stride, cells, 1, b ? b[m + i] : T(0), f, accumulate);
}

}  // namespace

template <class T>
int64_t winograd_weights(Direction direction, const ConvGeometry& g) {
  return WeightPanels<T>(direction, g).size();
}

// The panels, from w[o, c, i, j], which scatter reads backwards.
template <class T>
void winograd_pack(T* packed, const T* w, Direction direction, const ConvGeometry& g) {
  const WeightPanels<T> panels(direction, g);
  const bool gather = direction == Direction::gather;
  const int64_t targets = gather ? g.O : g.C;
  constexpr int64_t most_sources = 16;
  const int64_t vectors = ceil_div(targets, lanes<T>);
  parallel_for(vectors, panels.sources * all_points * lanes<T>, [&](int64_t begin, int64_t end) {
    T taps[most_sources * area * lanes<T>];  // [source, tap, target]
    for (int64_t vector = begin; vector < end; ++vector) {
      int64_t panel = 0;
      while (panels.vectors.begin(panel + 1) <= vector) ++panel;
      const int64_t columns = panels.columns(panel), m = vector * lanes<T>;
      const int64_t rows = std::min(lanes<T>, targets - m);
      T* const to = packed + panels.begin(panel) + m - panels.vectors.begin(panel) * lanes<T>;
      for (int64_t k = 0; k < panels.sources; k += most_sources) {
        const int64_t sources = std::min(most_sources, panels.sources - k);
        if (gather)
          transpose(taps, lanes<T>, w + m * g.filter_step() + k * area, g.filter_step(), rows,
                    sources * area);
        else
          for (int64_t s = 0; s < sources; ++s)
            transpose(taps + s * area * lanes<T>, lanes<T>,
                      w + (k + s) * g.filter_step() + m * area, area, rows, area);
        for (int64_t s = 0; s < sources; ++s)
          in_two_dimensions<Lanes<T>, winograd::taps, winograd::points>(
              winograd::weights,
              [&](int i, int j) {
                const int tap = winograd::taps * i + j;
                return load(taps + (s * area + (gather ? tap : area - 1 - tap)) * lanes<T>);
              },
              [&](int i, int j, const Lanes<T>& v) {
                const int64_t point = winograd::points * i + j;
                store_lanes(to + (point * panels.sources + k + s) * columns, v);
              });
      }
    }
  });
}

template <class T>
void winograd_multiply(Direction direction, GradTarget target, View source, View packed, View b,
                       Activation activation, const ConvGeometry& g, View workspace) {
  const int64_t N = source.shape[0];
  const Tiling<T> t(direction, g, N);
  const Scratch<T> x(t, workspace.data);
  const T* const weights = packed.as<const T>();
  const Partition panel_groups(t.panels.vectors.parts,
                               ceil_div(t.panels.vectors.parts, t.panel_groups));
  parallel_chunks(
      ceil_div(t.pieces.count, t.at_once) * panel_groups.parts, static_cast<int>(t.slots),
      [&](int64_t chunk, int slot) {
        const int64_t group = chunk % panel_groups.parts;
        const int64_t begin = chunk / panel_groups.parts * t.at_once;
        const int64_t end = std::min(begin + t.at_once, t.pieces.count);
        Points<T> points = t.points;
        points.data = x.points + slot * t.points.size();
        T* const products = x.products + slot * t.products;
        int64_t tiles = 0;
        for (int64_t i = begin; i < end; tiles += t.pieces[i++].tiles())
          load_points<winograd::points>(points, tiles, source.as<const T>(),
                                        t.source.channels * t.source.size(), t.source, t.padding,
                                        t.pieces[i], x.frames + slot * t.frame, winograd::pixels);
        for (int64_t panel = panel_groups.begin(group); panel < panel_groups.begin(group + 1);
             ++panel) {
          const int64_t columns = t.panels.columns(panel);
          for (int64_t point = 0; point < all_points; ++point)
            multiply_panel<T>(
                {products + point * points.tiles * columns, columns},
                {points.at(point, 0), points.stride}, Transpose::no,
                {weights + t.panels.begin(panel) + point * t.source.channels * columns, columns},
                {tiles, columns, t.source.channels}, false);
          int64_t first_tile = 0;
          for (int64_t i = begin; i < end; first_tile += t.pieces[i++].tiles())
            with_formula(activation, [&](auto f) {
              with_beta(target.beta, [&](auto accumulate) {
                store_piece(target.grad.as<T>(), b.data ? b.as<const T>() : nullptr, t.target,
                            Results<T>{products, points.tiles, columns}, first_tile,
                            t.panels.vectors.begin(panel) * lanes<T>, t.pieces[i],
                            x.pixels + slot * t.pixels, x.transposed + slot * t.transposed, f,
                            accumulate);
              });
            });
        }
      });
}

namespace {

int64_t tiles_of(const Planes& planes) {
  return ceil_div(planes.H, int64_t{winograd::cells}) *
         ceil_div(planes.W, int64_t{winograd::cells});
}

// True where the transforms take less than the multiplications that they save: not for few
// channels, which share what a tile costs, nor where tiles reach far beyond an odd image.
bool pays(const ConvGeometry& g, const Planes& tiled) {
  constexpr int64_t least_channels = 16, tile_cells = winograd::cells * winograd::cells;
  return g.KH == winograd::taps && g.KW == winograd::taps && g.stride == 1 && g.dilation == 1 &&
         std::min(g.C, g.O) >= least_channels &&
         3 * tiled.size() >= 2 * tiles_of(tiled) * tile_cells;
}

}  // namespace

bool winograd_pays(Direction direction, const ConvGeometry& g) {
  constexpr int64_t least_tiles = 16, weights_of_a_tile = 8192;
  const Planes target =
      direction == Direction::gather ? Planes{g.O, g.GH, g.GW} : Planes{g.C, g.H, g.W};
  return pays(g, target) &&
         tiles_of(target) >= std::max(least_tiles, g.C * g.O / weights_of_a_tile);
}
bool winograd_packing_pays(Direction direction, const ConvGeometry& g, int64_t N) {
  constexpr int64_t weights_of_a_tile = 1024;
  const bool gather = direction == Direction::gather;
  const Planes target = gather ? Planes{g.O, g.GH, g.GW} : Planes{g.C, g.H, g.W};
  return g.C * g.O >= weights_of_a_tile * N * tiles_of(target);
}

bool winograd_correlate_pays(const ConvGeometry& g, int64_t N) {
  constexpr int64_t least_tiles = 16;
  const Planes grid{g.O, g.GH, g.GW};
  return pays(g, grid) && N * tiles_of(grid) >= least_tiles;
}

template <class T>
int64_t winograd_bytes(Direction direction, const ConvGeometry& g, int64_t N) {
  return static_cast<int64_t>(Scratch<T>(Tiling<T>(direction, g, N), nullptr).bytes);
}

namespace {

// correlate

// How correlate runs: a slice of the image's channels at a time, and in it some pieces of the tiles
// at a time, whose products at the points are added up for all of them: [point, o, c].
template <class T>
struct CorrelateTiling {
  Planes grid, slice, image;
  Pieces pieces;
  int64_t at_once;
  Points<T> slopes, pixels, sums;
  int64_t frame, slots;

  CorrelateTiling(const ConvGeometry& g, int64_t N)
      : grid{g.O, g.GH, g.GW},
        slice{slice_channels(g), g.H, g.W},
        image{g.C, g.H, g.W},
        pieces(grid, N, wanted_tiles(grid, slice) / 4),
        at_once(
            std::clamp<int64_t>(wanted_tiles(grid, slice) / pieces.most_tiles(), 1, pieces.count)),
        slopes(at_once * pieces.most_tiles(), g.O),
        pixels(at_once * pieces.most_tiles(), slice.channels),
        sums(g.O, slice.channels) {
    frame =
        std::max(frame_size<T>(grid, pieces.most_rows()), frame_size<T>(slice, pieces.most_rows()));
    slots = std::min(2 * at_once, ConvTiling(Direction::gather, g, N).slots_for(N, frame));
  }

  // Sums over many tiles are read and written seldom; the points of many tiles need room.
  static constexpr int64_t most_tiles = 64;
  static int64_t wanted_tiles(const Planes& grid, const Planes& slice) {
    constexpr int64_t elements = 1 << 20;  // of the points
    return std::clamp<int64_t>(elements / (all_points * (grid.channels + slice.channels)), 32,
                               most_tiles);
  }
  static int64_t slice_channels(const ConvGeometry& g) {
    constexpr int64_t elements = 1 << 19;  // of the sums
    const int64_t most = std::max<int64_t>(1, elements / (all_points * g.O * lanes<T>)) * lanes<T>;
    return ceil_div(g.C, ceil_div(g.C, most));
  }
};

template <class T>
struct CorrelateScratch {
  T *frames, *slopes, *pixels, *sums;
  size_t bytes;

  CorrelateScratch(const CorrelateTiling<T>& t, void* base) {
    Carver carver(base);
    frames = carver.take<T>(t.slots * t.frame);
    slopes = carver.take<T>(t.slopes.size());
    pixels = carver.take<T>(t.pixels.size());
    sums = carver.take<T>(t.sums.size());
    bytes = carver.used();
  }
};

// sums[point, o, c] = sum over tiles of slopes[point, tile, o] * pixels[point, tile, c] (+ sums).
template <class T>
void add_products(const Points<T>& sums, const Points<T>& slopes, const Points<T>& pixels,
                  int64_t tiles, int64_t O, int64_t C, bool add) {
  const Partition rows(O, 8 * block_rows), panels(ceil_div(C, lanes<T>), block_vectors);
  parallel_chunks(all_points * rows.parts, any_slots, [&](int64_t chunk, int) {
    const int64_t point = chunk / rows.parts, part = chunk % rows.parts, o = rows.begin(part);
    for (int64_t panel = 0; panel < panels.parts; ++panel) {
      const int64_t c = panels.begin(panel) * lanes<T>;
      multiply_panel<T>({sums.at(point, o) + c, sums.stride},
                        {slopes.at(point, 0) + o, slopes.stride}, Transpose::yes,
                        {pixels.at(point, 0) + c, pixels.stride},
                        {rows.size(part), panels.size(panel) * lanes<T>, tiles}, add);
    }
  });
}

// w[o, c, i, j] = (C^T sums C)[i, j] + beta * w for channels [c_begin, c_begin + C) of all o.
template <class T>
void store_weight_slopes(GradTarget w, const Points<T>& sums, int64_t c_begin, int64_t C,
                         const ConvGeometry& g) {
  with_beta(w.beta, [&](auto accumulate) {
    parallel_for(g.O, all_points * C, [&](int64_t begin, int64_t end) {
      T taps[area * lanes<T>];
      for (int64_t o = begin; o < end; ++o)
        for (int64_t c = 0; c < C; c += lanes<T>) {
          in_two_dimensions<Lanes<T>, winograd::points, winograd::taps>(
              winograd::weight_slopes,
              [&](int i, int j) { return load(sums.at(winograd::points * i + j, o) + c); },
              [&](int i, int j, const Lanes<T>& v) {
                store_lanes(taps + (winograd::taps * i + j) * lanes<T>, v);
              });
          T* const out = w.grad.as<T>() + o * g.filter_step() + (c_begin + c) * area;
          for (int64_t l = 0; l < std::min(lanes<T>, C - c); ++l)
            for (int64_t tap = 0; tap < area; ++tap)
              store(out[l * area + tap], taps[tap * lanes<T> + l], accumulate);
        }
    });
  });
}

}  // namespace

template <class T>
void winograd_correlate(GradTarget w, View grid, View image, const ConvGeometry& g,
                        View workspace) {
  CorrelateTiling<T> t(g, grid.shape[0]);
  const CorrelateScratch<T> x(t, workspace.data);
  t.slopes.data = x.slopes, t.pixels.data = x.pixels, t.sums.data = x.sums;
  for (int64_t c = 0; c < g.C; c += t.slice.channels) {
    const Planes slice{std::min(t.slice.channels, g.C - c), g.H, g.W};
    for (int64_t begin = 0; begin < t.pieces.count; begin += t.at_once) {
      const int64_t count = std::min(t.at_once, t.pieces.count - begin);
      std::array<int64_t, CorrelateTiling<T>::most_tiles + 1> first_tile{};
      for (int64_t i = 0; i < count; ++i)
        first_tile[size_t(i + 1)] = first_tile[size_t(i)] + t.pieces[begin + i].tiles();
      parallel_chunks(2 * count, static_cast<int>(t.slots), [&](int64_t chunk, int slot) {
        const Piece piece = t.pieces[begin + chunk / 2];
        const int64_t tile = first_tile[size_t(chunk / 2)];
        T* const frame = x.frames + slot * t.frame;
        if (chunk % 2 == 0)
          load_points<winograd::points>(t.pixels, tile, image.as<const T>() + c * slice.size(),
                                        g.C * slice.size(), slice, g.padding, piece, frame,
                                        winograd::pixels);
        else
          load_points<winograd::cells>(t.slopes, tile, grid.as<const T>(), g.O * t.grid.size(),
                                       t.grid, 0, piece, frame, winograd::slopes);
      });
      add_products(t.sums, t.slopes, t.pixels, first_tile[size_t(count)], g.O, slice.channels,
                   begin > 0);
    }
    store_weight_slopes(w, t.sums, c, slice.channels, g);
  }
}

template <class T>
int64_t winograd_correlate_bytes(const ConvGeometry& g, int64_t N) {
  return static_cast<int64_t>(CorrelateScratch<T>(CorrelateTiling<T>(g, N), nullptr).bytes);
}

template int64_t winograd_weights<float>(Direction, const ConvGeometry&);
template int64_t winograd_weights<double>(Direction, const ConvGeometry&);
template void winograd_pack(float*, const float*, Direction, const ConvGeometry&);
template void winograd_pack(double*, const double*, Direction, const ConvGeometry&);
template int64_t winograd_bytes<float>(Direction, const ConvGeometry&, int64_t);
template int64_t winograd_bytes<double>(Direction, const ConvGeometry&, int64_t);
template void winograd_multiply<float>(Direction, GradTarget, View, View, View, Activation,
                                       const ConvGeometry&, View);
template void winograd_multiply<double>(Direction, GradTarget, View, View, View, Activation,
                                        const ConvGeometry&, View);
template int64_t winograd_correlate_bytes<float>(const ConvGeometry&, int64_t);
template int64_t winograd_correlate_bytes<double>(const ConvGeometry&, int64_t);
template void winograd_correlate<float>(GradTarget, View, View, const ConvGeometry&, View);
template void winograd_correlate<double>(GradTarget, View, View, const ConvGeometry&, View);

}  // namespace accrue::cpu
