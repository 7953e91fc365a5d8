#include "kernels/cpu/winograd.h"

#include <algorithm>
#include <utility>

#include "kernels/backend.h"
#include "kernels/cpu/bump_allocator.h"
#include "kernels/cpu/conv_frames.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/winograd_points.h"
#include "kernels/detail/formulas.h"

namespace accrue::cpu {
namespace {

using winograd::all_points, winograd::area, winograd::in_two_dimensions;
using winograd::Piece, winograd::Pieces, winograd::Planes, winograd::Points, winograd::Source;

Planes image_of(const ConvGeometry& g) { return {g.C, g.H, g.W}; }
Planes grid_of(const ConvGeometry& g) { return {g.O, g.GH, g.GW}; }
Planes source_of(Direction direction, const ConvGeometry& g) {
  return direction == Direction::gather ? image_of(g) : grid_of(g);
}
Planes target_of(Direction direction, const ConvGeometry& g) {
  return direction == Direction::gather ? grid_of(g) : image_of(g);
}

// The weights at the points, in panels of target channels that are as wide as a block of registers:
// [panel, point, source channel, target channel].
template <class T>
struct WeightPanels {
  Partition vectors;  // of target channels
  int64_t sources;

  WeightPanels(Direction direction, const ConvGeometry& g)
      : vectors(ceil_div(target_of(direction, g).channels, lanes<T>), block_vectors),
        sources(source_of(direction, g).channels) {}
  int64_t size() const { return begin(vectors.parts); }
  int64_t columns(int64_t panel) const { return vectors.size(panel) * lanes<T>; }
  int64_t begin(int64_t panel) const {
    return vectors.begin(panel) * lanes<T> * all_points * sources;
  }
  int64_t most_columns() const { return columns(0); }
};

// How gather and scatter run. A chunk is some pieces and some panels of target channels. The points
// of its source stay in the second-level cache while it reads the weights of its panels.
template <class T>
struct WinogradTiling {
  Planes source, target;
  int64_t padding;
  Pieces pieces;
  int64_t at_once, panel_groups;
  WeightPanels<T> panels;
  Points<T> points;
  int64_t frame, products, pixels, transposed, slots;

  WinogradTiling(Direction direction, const ConvGeometry& g, int64_t N)
      : source(source_of(direction, g)),
        target(target_of(direction, g)),
        padding(direction == Direction::gather ? g.padding.h : winograd::taps - 1 - g.padding.h),
        pieces(target, N, most_tiles(source)),
        at_once(std::clamp<int64_t>(most_tiles(source) / pieces.most_tiles(), 1,
                                    ceil_div(pieces.count, least_chunks))),
        panels(direction, g),
        points(at_once * pieces.most_tiles(), source.channels) {
    panel_groups =
        std::min(ceil_div(least_chunks, ceil_div(pieces.count, at_once)), panels.vectors.parts);
    frame = winograd::frame_size<T>(source, pieces.most_rows());
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
struct WinogradScratch {
  T *frames, *points, *products, *pixels, *transposed;
  size_t bytes;

  WinogradScratch(const WinogradTiling<T>& t, void* base) {
    BumpAllocator allocator(base);
    frames = allocator.take<T>(t.slots * t.frame);
    points = allocator.take<T>(t.slots * t.points.size());
    products = allocator.take<T>(t.slots * t.products);
    pixels = allocator.take<T>(t.slots * t.pixels);
    transposed = allocator.take<T>(t.slots * t.transposed);
    bytes = allocator.used();
  }
};

// Products at the points, [point, tile, channel], for the target channels of a panel, which begin
// with m. The tiles of a piece begin at first_tile.
template <class T>
struct Products {
  const T* data;
  int64_t tiles, columns, m, first_tile = 0;
};

// Where a piece is stored, and scratch for its cells.
template <class T>
struct PieceTarget {
  T* data;
  const T* b;
  Planes planes;
  T *pixels, *transposed;
};

// target = act(cells + b) + beta * target for a piece's cells of the channels in `in`.
template <class T, class F, class Accumulate>
void store_piece(const PieceTarget<T>& target, const Products<T>& in, const Piece& piece, F f,
                 Accumulate accumulate) {
  const Planes& planes = target.planes;
  const int64_t W = planes.W, top = piece.first_row(), height = piece.last_row(planes.H) - top;
  const int64_t cells = height * W, columns = in.columns;
  T *const pixels = target.pixels, *const outside = pixels + cells * columns;
  for (int64_t tile = 0; tile < piece.tiles(); ++tile) {
    const int64_t h0 = winograd::cells * (tile / piece.columns);
    const int64_t w0 = winograd::cells * (tile % piece.columns);
    const T* const from = in.data + (in.first_tile + tile) * columns;
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
  transpose(target.transposed, stride, pixels, columns, cells, columns);
  const int64_t count = std::min(columns, planes.channels - in.m);
  for (int64_t i = 0; i < count; ++i)
    store_row(target.data + (piece.n * planes.channels + in.m + i) * planes.size() + top * W,
              target.transposed + i * stride, cells, 1, target.b ? target.b[in.m + i] : T(0), f,
              accumulate);
}

}  // namespace

template <class T>
int64_t winograd_weights(Direction direction, const ConvGeometry& g) {
  return WeightPanels<T>(direction, g).size();
}

// Makes the panels from w[o, c, i, j]; scatter reads its taps backwards.
template <class T>
void winograd_pack(T* packed, const T* w, Direction direction, const ConvGeometry& g) {
  const WeightPanels<T> panels(direction, g);
  const bool gather = direction == Direction::gather;
  const int64_t targets = target_of(direction, g).channels;
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
void winograd_multiply(const ConvProduct& p) {
  const WinogradTiling<T> t(p.direction, p.geometry, p.N());
  const WinogradScratch<T> scratch(t, p.workspace.data);
  const Source<T> source{p.source.as<const T>(), t.source.channels * t.source.size(), t.source,
                         t.padding};
  const T* const weights = p.weights.packed.as<const T>();
  const Partition panel_groups(t.panels.vectors.parts,
                               ceil_div(t.panels.vectors.parts, t.panel_groups));
  parallel_chunks(
      ceil_div(t.pieces.count, t.at_once) * panel_groups.parts, static_cast<int>(t.slots),
      [&](int64_t chunk, int slot) {
        const int64_t group = chunk % panel_groups.parts;
        const int64_t begin = chunk / panel_groups.parts * t.at_once;
        const int64_t end = std::min(begin + t.at_once, t.pieces.count);
        Points<T> points = t.points;
        points.data = scratch.points + slot * t.points.size();
        T* const products = scratch.products + slot * t.products;
        const PieceTarget<T> target{
            p.target.grad.as<T>(), p.bias.data ? p.bias.as<const T>() : nullptr, t.target,
            scratch.pixels + slot * t.pixels, scratch.transposed + slot * t.transposed};
        int64_t tiles = 0;
        for (int64_t i = begin; i < end; tiles += t.pieces[i++].tiles())
          winograd::load_points<winograd::points>(points, tiles, source, t.pieces[i],
                                                  scratch.frames + slot * t.frame,
                                                  winograd::pixels);
        for (int64_t panel = panel_groups.begin(group); panel < panel_groups.begin(group + 1);
             ++panel) {
          const int64_t columns = t.panels.columns(panel);
          for (int64_t point = 0; point < all_points; ++point)
            multiply_panel<T>(
                {products + point * points.tiles * columns, columns},
                {points.at(point, 0), points.stride}, Transpose::no,
                {weights + t.panels.begin(panel) + point * t.source.channels * columns, columns},
                {tiles, columns, t.source.channels}, Result::write);
          Products<T> in{products, points.tiles, columns, t.panels.vectors.begin(panel) * lanes<T>};
          for (int64_t i = begin; i < end; in.first_tile += t.pieces[i++].tiles())
            with_formula(p.activation, [&](auto f) {
              with_beta(p.target.beta, [&](auto accumulate) {
                store_piece(target, in, t.pieces[i], f, accumulate);
              });
            });
        }
      });
}

bool winograd_pays(Direction direction, const ConvGeometry& g) {
  constexpr int64_t least_tiles = 16, weights_of_a_tile = 8192;
  const Planes target = target_of(direction, g);
  return winograd::pays(g, target) &&
         winograd::tiles_of(target) >= std::max(least_tiles, g.C * g.O / weights_of_a_tile);
}
bool winograd_packing_pays(Direction direction, const ConvGeometry& g, int64_t N) {
  constexpr int64_t weights_of_a_tile = 1024;
  return g.C * g.O >= weights_of_a_tile * N * winograd::tiles_of(target_of(direction, g));
}

template <class T>
int64_t winograd_bytes(Direction direction, const ConvGeometry& g, int64_t N) {
  return static_cast<int64_t>(
      WinogradScratch<T>(WinogradTiling<T>(direction, g, N), nullptr).bytes);
}

template int64_t winograd_weights<float>(Direction, const ConvGeometry&);
template int64_t winograd_weights<double>(Direction, const ConvGeometry&);
template void winograd_pack(float*, const float*, Direction, const ConvGeometry&);
template void winograd_pack(double*, const double*, Direction, const ConvGeometry&);
template int64_t winograd_bytes<float>(Direction, const ConvGeometry&, int64_t);
template int64_t winograd_bytes<double>(Direction, const ConvGeometry&, int64_t);
template void winograd_multiply<float>(const ConvProduct&);
template void winograd_multiply<double>(const ConvProduct&);

}  // namespace accrue::cpu
