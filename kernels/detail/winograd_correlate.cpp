// Weight gradients with 16 multiplications for each 2x2 cells and 3x3 taps; the products that go
// from images to images are in winograd.cpp.

#include <algorithm>
#include <array>

#include "kernels/backend.h"
#include "kernels/detail/carver.h"
#include "kernels/detail/conv_tiling.h"
#include "kernels/detail/gemm.h"
#include "kernels/detail/winograd.h"
#include "kernels/detail/winograd_points.h"

namespace accrue::cpu {
namespace {

using winograd::all_points, winograd::area, winograd::in_two_dimensions;
using winograd::Piece, winograd::Pieces, winograd::Planes, winograd::Points;

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
    frame = std::max(winograd::frame_size<T>(grid, pieces.most_rows()),
                     winograd::frame_size<T>(slice, pieces.most_rows()));
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
          winograd::load_points<winograd::points>(
              t.pixels, tile, image.as<const T>() + c * slice.size(), g.C * slice.size(), slice,
              g.padding, piece, frame, winograd::pixels);
        else
          winograd::load_points<winograd::cells>(t.slopes, tile, grid.as<const T>(),
                                                 g.O * t.grid.size(), t.grid, 0, piece, frame,
                                                 winograd::slopes);
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

bool winograd_correlate_pays(const ConvGeometry& g, int64_t N) {
  constexpr int64_t least_tiles = 16;
  const winograd::Planes grid{g.O, g.GH, g.GW};
  return winograd::pays(g, grid) && N * winograd::tiles_of(grid) >= least_tiles;
}

template int64_t winograd_correlate_bytes<float>(const ConvGeometry&, int64_t);
template int64_t winograd_correlate_bytes<double>(const ConvGeometry&, int64_t);
template void winograd_correlate<float>(GradTarget, View, View, const ConvGeometry&, View);
template void winograd_correlate<double>(GradTarget, View, View, const ConvGeometry&, View);

}  // namespace accrue::cpu
