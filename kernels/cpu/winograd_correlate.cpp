// Weight gradients with 16 multiplications for each 2x2 cells and 3x3 taps. The products that make
// images or grids are in winograd.cpp.

#include <algorithm>
#include <array>

#include "kernels/backend.h"
#include "kernels/cpu/bump_allocator.h"
#include "kernels/cpu/conv_tiling.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/winograd.h"
#include "kernels/cpu/winograd_points.h"

namespace accrue::cpu {
namespace {

using winograd::all_points, winograd::area, winograd::in_two_dimensions;
using winograd::Piece, winograd::Pieces, winograd::Planes, winograd::Points, winograd::Source;

// How correlate runs. It takes a slice of the image's channels at a time, and in the slice some
// pieces of the tiles at a time, whose products are added up at the points: [point, o, c]. Where
// these sums are small, several groups of pieces have separate sums; a chunk is then a group, whose
// points stay in one processor's caches. Otherwise there is one group, and its steps are cut into
// chunks.
template <class T>
struct CorrelateTiling {
  Planes grid, slice, image;
  Points<T> sums;
  int64_t most_groups;
  Pieces pieces;
  Partition groups;
  int64_t at_once;
  Points<T> slopes, pixels;
  int64_t frame, frames, slots;

  CorrelateTiling(const ConvGeometry& g, int64_t N)
      : grid{g.O, g.GH, g.GW},
        slice{slice_channels(g), g.H, g.W},
        image{g.C, g.H, g.W},
        sums(g.O, slice.channels),
        most_groups(groups_of(sums.size(),
                              N * (grid.channels * grid.size() + image.channels * image.size()))),
        pieces(grid, N, wanted_tiles() / (most_groups > 1 ? 1 : least_chunks)),
        groups(pieces.count, ceil_div(pieces.count, most_groups)),
        at_once(std::clamp<int64_t>(wanted_tiles() / pieces.most_tiles(), 1, groups.size(0))),
        slopes(at_once * pieces.most_tiles(), g.O),
        pixels(at_once * pieces.most_tiles(), slice.channels) {
    frame = std::max(winograd::frame_size<T>(grid, pieces.most_rows()),
                     winograd::frame_size<T>(slice, pieces.most_rows()));
    const ConvTiling plain(Direction::gather, g, N);
    const bool shared = groups.parts == 1;
    slots = shared
                ? 1
                : std::min(groups.parts, plain.slots_for(N, frame + slopes.size() + pixels.size()));
    frames = shared ? std::min(2 * at_once, plain.slots_for(N, frame)) : 1;
  }

  static constexpr int64_t most_tiles = 64, least_chunks = 4;
  // All sums together take at most as much memory as the images and grids that they are computed
  // from.
  static int64_t groups_of(int64_t sums_size, int64_t elements) {
    constexpr int64_t least = 1 << 15, most = 3 << 17, groups = 4;
    return groups * sums_size <= std::clamp(elements, least, most) ? groups : 1;
  }
  // The more tiles are taken at once, the less often sums are read and written. But the points of
  // many tiles need memory, with several groups in each slot.
  int64_t wanted_tiles() const {
    constexpr int64_t elements = 1 << 20, least = 32;  // elements of the points
    if (most_groups > 1) return least;
    return std::clamp<int64_t>(elements / (all_points * (grid.channels + slice.channels)), least,
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
    BumpAllocator allocator(base);
    frames = allocator.take<T>(t.slots * t.frames * t.frame);
    slopes = allocator.take<T>(t.slots * t.slopes.size());
    pixels = allocator.take<T>(t.slots * t.pixels.size());
    sums = allocator.take<T>(t.groups.parts * t.sums.size());
    bytes = allocator.used();
  }
};

// sums[point, o, c] = sum over tiles of slopes[point, tile, o] * pixels[point, tile, c] (+ sums),
// for M channels o, N channels c and K tiles.
template <class T>
void add_products(const Points<T>& sums, const Points<T>& slopes, const Points<T>& pixels,
                  const GemmSize& size, Result result) {
  const Partition rows(size.M, 8 * block_rows), panels(ceil_div(size.N, lanes<T>), block_vectors);
  parallel_chunks(all_points * rows.parts, any_slots, [&](int64_t chunk, int) {
    const int64_t point = chunk / rows.parts, part = chunk % rows.parts, o = rows.begin(part);
    for (int64_t panel = 0; panel < panels.parts; ++panel) {
      const int64_t c = panels.begin(panel) * lanes<T>;
      multiply_panel<T>({sums.at(point, o) + c, sums.stride},
                        {slopes.at(point, 0) + o, slopes.stride}, Transpose::yes,
                        {pixels.at(point, 0) + c, pixels.stride},
                        {rows.size(part), panels.size(panel) * lanes<T>, size.K}, result);
    }
  });
}

// The arguments that all groups share.
template <class T>
struct WinogradCorrelation {
  const CorrelateTiling<T>& tiling;
  const CorrelateScratch<T>& scratch;
  const ConvGeometry& geometry;
  Source<T> grid, image;  // image: a slice of its channels, from c_begin on
  int64_t c_begin;
};

// Computes the sums of a group of pieces. If a chunk calls this, all of it runs on one thread.
template <class T>
void add_group(const WinogradCorrelation<T>& x, int64_t group, int slot) {
  const CorrelateTiling<T>& t = x.tiling;
  Points<T> slopes = t.slopes, pixels = t.pixels, sums = t.sums;
  slopes.data = x.scratch.slopes + slot * slopes.size();
  pixels.data = x.scratch.pixels + slot * pixels.size();
  sums.data = x.scratch.sums + group * sums.size();
  T* const frames = x.scratch.frames + slot * t.frames * t.frame;
  const int64_t first = t.groups.begin(group), last = t.groups.begin(group + 1);
  for (int64_t begin = first; begin < last; begin += t.at_once) {
    const int64_t count = std::min(t.at_once, last - begin);
    std::array<int64_t, CorrelateTiling<T>::most_tiles + 1> first_tile{};
    for (int64_t i = 0; i < count; ++i)
      first_tile[size_t(i + 1)] = first_tile[size_t(i)] + t.pieces[begin + i].tiles();
    parallel_chunks(2 * count, static_cast<int>(t.frames), [&](int64_t chunk, int frame_slot) {
      const Piece piece = t.pieces[begin + chunk / 2];
      const int64_t tile = first_tile[size_t(chunk / 2)];
      T* const frame = frames + frame_slot * t.frame;
      if (chunk % 2 == 0)
        winograd::load_points<winograd::points>(pixels, tile, x.image, piece, frame,
                                                winograd::pixels);
      else
        winograd::load_points<winograd::cells>(slopes, tile, x.grid, piece, frame,
                                               winograd::slopes);
    });
    add_products(sums, slopes, pixels,
                 {t.grid.channels, x.image.planes.channels, first_tile[size_t(count)]},
                 begin > first ? Result::add : Result::write);
  }
}

// w[o, c, i, j] = (C^T sums C)[i, j] + beta * w for all o and the slice's channels c, where `sums`
// adds up all groups, in their order.
template <class T>
void store_weight_slopes(GradTarget w, const WinogradCorrelation<T>& x) {
  Points<T> sums = x.tiling.sums;
  sums.data = x.scratch.sums;
  const int64_t C = x.image.planes.channels, groups = x.tiling.groups.parts;
  with_beta(w.beta, [&](auto accumulate) {
    parallel_for(x.geometry.O, groups * all_points * C, [&](int64_t begin, int64_t end) {
      T taps[area * lanes<T>];
      for (int64_t o = begin; o < end; ++o)
        for (int64_t c = 0; c < C; c += lanes<T>) {
          in_two_dimensions<Lanes<T>, winograd::points, winograd::taps>(
              winograd::weight_slopes,
              [&](int i, int j) {
                const T* from = sums.at(winograd::points * i + j, o) + c;
                Lanes<T> sum = load(from);
                for (int64_t group = 1; group < groups; ++group) sum += load(from += sums.size());
                return sum;
              },
              [&](int i, int j, const Lanes<T>& v) {
                store_lanes(taps + (winograd::taps * i + j) * lanes<T>, v);
              });
          T* const out = w.grad.as<T>() + o * x.geometry.filter_step() + (x.c_begin + c) * area;
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
  const CorrelateTiling<T> t(g, grid.shape[0]);
  const CorrelateScratch<T> scratch(t, workspace.data);
  for (int64_t c = 0; c < g.C; c += t.slice.channels) {
    const Planes slice{std::min(t.slice.channels, g.C - c), g.H, g.W};
    const WinogradCorrelation<T> x{t,
                                   scratch,
                                   g,
                                   {grid.as<const T>(), t.grid.channels * t.grid.size(), t.grid, 0},
                                   {image.as<const T>() + c * t.image.size(),
                                    t.image.channels * t.image.size(), slice, g.padding.h},
                                   c};
    if (t.groups.parts == 1) add_group(x, 0, 0);
    else
      parallel_chunks(t.groups.parts, static_cast<int>(t.slots),
                      [&](int64_t group, int slot) { add_group(x, group, slot); });
    store_weight_slopes(w, x);
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
