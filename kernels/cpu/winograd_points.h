#pragma once

#include <algorithm>

#include "kernels/cpu/indirect_gemm.h"
#include "kernels/cpu/winograd_transforms.h"
#include "kernels/detail/conv_geometry.h"

// Lays out images for Winograd's products: in tiles, each at 16 points.
namespace accrue::cpu::winograd {

inline constexpr int64_t all_points = points * points;
inline constexpr int64_t area = taps * taps;

// The planes of an image or of a grid.
struct Planes {
  int64_t channels, H, W;
  int64_t size() const { return H * W; }
};

// Tile rows [begin, begin + rows) of image n, each of `columns` tiles of 2x2 cells.
struct Piece {
  int64_t n, begin, rows, columns;
  int64_t tiles() const { return rows * columns; }
  // The rows of cells, in the grid that is tiled. The last tiles may reach beyond the grid.
  int64_t first_row() const { return cells * begin; }
  int64_t last_row(int64_t H) const { return std::min(cells * (begin + rows), H); }
};

// The tiles of N images, cut into pieces of nearly equal size: an image each, or some of its tile
// rows.
struct Pieces {
  int64_t columns;
  Partition rows;  // of an image
  int64_t count;

  Pieces(const Planes& tiled, int64_t N, int64_t most_tiles)
      : columns(ceil_div<int64_t>(tiled.W, cells)),
        rows(ceil_div<int64_t>(tiled.H, cells), std::max<int64_t>(1, most_tiles / columns)),
        count(N * rows.parts) {}

  int64_t most_rows() const { return rows.size(0); }
  int64_t most_tiles() const { return most_rows() * columns; }
  Piece operator[](int64_t i) const {
    const int64_t band = i % rows.parts;
    return {i / rows.parts, rows.begin(band), rows.size(band), columns};
  }
};

// Matrices at all points: [point, tile, channel]. Each row has an extra vector, because rows a
// power of two apart would compete for the same cache lines.
template <class T>
struct Points {
  T* data = nullptr;
  int64_t tiles, stride;

  Points(int64_t tiles, int64_t channels)
      : tiles(tiles), stride(round_up(channels, lanes<T>) + lanes<T>) {}
  int64_t size() const { return all_points * tiles * stride; }
  T* at(int64_t point, int64_t tile) const { return data + (point * tiles + tile) * stride; }
};

// The number of elements of the frame that load_points() needs: the pixels of a piece, channel by
// channel, and a pixel of zeros.
template <class T>
int64_t frame_size(const Planes& planes, int64_t most_rows) {
  return ((cells * most_rows + taps - 1) * planes.W + 1) * round_up(planes.channels, lanes<T>);
}

// Images, `image_step` elements apart, of which the given planes are loaded. A tile's pixels begin
// `padding` before its first cell.
template <class T>
struct Source {
  const T* data;
  int64_t image_step;
  Planes planes;
  int64_t padding;
};

// Loads a piece's tiles at the points, from first_tile on: step applied to each tile's from x from
// pixels.
template <int from, class T, class Step>
void load_points(const Points<T>& out, int64_t first_tile, const Source<T>& source,
                 const Piece& piece, T* frame, Step step) {
  const Planes& planes = source.planes;
  const int64_t channels = round_up(planes.channels, lanes<T>), W = planes.W, H = planes.H;
  const int64_t top = piece.first_row() - source.padding;
  const int64_t h_begin = std::clamp<int64_t>(top, 0, H);
  const int64_t h_end = std::clamp<int64_t>(top + cells * (piece.rows - 1) + from, h_begin, H);
  T* const zeros = frame + (h_end - h_begin) * W * channels;
  std::fill_n(zeros, channels, T(0));
  transpose(frame, channels, source.data + piece.n * source.image_step + h_begin * W, planes.size(),
            planes.channels, (h_end - h_begin) * W);
  for (int64_t tile = 0; tile < piece.tiles(); ++tile) {
    const int64_t h0 = top + cells * (tile / piece.columns);
    const int64_t w0 = cells * (tile % piece.columns) - source.padding;
    const T* pixels[from][from];
#pragma GCC unroll 4
    for (int i = 0; i < from; ++i) {
      const int64_t h = h0 + i;
      const T* const row = frame + (h - h_begin) * W * channels;
#pragma GCC unroll 4
      for (int j = 0; j < from; ++j) {
        const int64_t w = w0 + j;
        pixels[i][j] =
            uint64_t(h) < uint64_t(H) && uint64_t(w) < uint64_t(W) ? row + w * channels : zeros;
      }
    }
    T* const to = out.at(0, first_tile + tile);
    const int64_t point_step = out.tiles * out.stride;
    for (int64_t c = 0; c < channels; c += lanes<T>)
      in_two_dimensions<Lanes<T>, from, points>(
          step, [&](int i, int j) { return load(pixels[i][j] + c); },
          [&](int i, int j, const Lanes<T>& v) {
            store_lanes(to + (points * i + j) * point_step + c, v);
          });
  }
}

inline int64_t tiles_of(const Planes& planes) {
  return ceil_div(planes.H, int64_t{cells}) * ceil_div(planes.W, int64_t{cells});
}

// True where the transforms cost less than the multiplications that they save. They cost more if
// few channels share the costs of a tile, or if tiles reach far beyond an odd image.
inline bool pays(const ConvGeometry& g, const Planes& tiled) {
  constexpr int64_t least_channels = 16, tile_cells = cells * cells;
  return g.KH == taps && g.KW == taps && g.stride == 1 && g.dilation == 1 && g.padding.is_even() &&
         g.groups == 1 && std::min(g.C, g.O) >= least_channels &&
         3 * tiled.size() >= 2 * tiles_of(tiled) * tile_cells;
}

}  // namespace accrue::cpu::winograd
