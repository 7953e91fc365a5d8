#include "kernels/im2col.h"

#include "kernels/formulas.h"
#include "kernels/gemm.h"

namespace accrue {
namespace {

// Cells that one tile covers, counted over all images: enough to keep the GEMM busy when images
// are small, and few enough to keep columns in cache when they are large.
int64_t tile_cells(const Windows& s, int64_t N) {
  constexpr int64_t cache_elements = 1 << 18, least = 64;
  const int64_t fitting = std::max(least, cache_elements / std::max<int64_t>(1, s.taps()));
  return std::min(N * s.cells(), fitting);
}

}  // namespace

Tensor windows_workspace(const Windows& s, int64_t N, DType dtype, Device device) {
  return Tensor::empty({s.taps() + s.O, tile_cells(s, N)}, dtype, device, Category::workspace);
}

namespace cpu {
namespace {

// A range of cells of all images together: cell = (n * GH + gh) * GW + gw.
struct Tile {
  int64_t begin, end;

  int64_t size() const { return end - begin; }
};

template <class Body>
void for_each_tile(const Windows& s, int64_t N, Body body) {
  const int64_t cells = N * s.cells(), step = tile_cells(s, N);
  for (int64_t begin = 0; begin < cells; begin += step)
    body(Tile{begin, std::min(begin + step, cells)});
}

// The part of a tile that lies in one grid row.
struct Run {
  int64_t n, gh, gw, size, column;  // column is counted from the tile's begin
};

template <class Body>
void for_each_run(const Windows& s, Tile tile, Body body) {
  for (int64_t cell = tile.begin; cell < tile.end;) {
    const int64_t row = cell / s.GW, gw = cell % s.GW;
    const int64_t size = std::min(s.GW - gw, tile.end - cell);
    body(Run{row / s.GH, row % s.GH, gw, size, cell - tile.begin});
    cell += size;
  }
}

// What tap (kh, kw) sees of an image row from the cells of a run: cell `first + i` of the run sees
// pixel `pixel + i * stride` of the row, for `count` of them; the others see zeros.
struct Seen {
  int64_t h, first, count, pixel;
};

Seen seen_by(const Windows& s, Run run, int64_t kh, int64_t kw) {
  const int64_t h = run.gh * s.stride - s.padding + kh * s.dilation;
  const int64_t w = run.gw * s.stride - s.padding + kw * s.dilation;
  const auto cells_before = [&](int64_t column) {
    return std::clamp<int64_t>((column - w + s.stride - 1) / s.stride, 0, run.size);
  };
  if (h < 0 || h >= s.H || s.W <= w) return {0, 0, 0, 0};
  const int64_t first = w < 0 ? cells_before(0) : 0;
  return {h, first, cells_before(s.W) - first, w + first * s.stride};
}

// columns[k, column] = what the tile's cells see of image [N, C, H, W].
template <class T>
void im2col(T* columns, const T* image, const Windows& s, Tile tile) {
  parallel_for(s.taps(), tile.size(), [&](int64_t k_begin, int64_t k_end) {
    for (int64_t k = k_begin; k < k_end; ++k) {
      const int64_t c = k / (s.KH * s.KW), kh = k / s.KW % s.KH, kw = k % s.KW;
      for_each_run(s, tile, [&](Run run) {
        const Seen seen = seen_by(s, run, kh, kw);
        T* out = columns + k * tile.size() + run.column;
        std::fill_n(out, seen.first, T(0));
        std::fill_n(out + seen.first + seen.count, run.size - seen.first - seen.count, T(0));
        const T* in = image + ((run.n * s.C + c) * s.H + seen.h) * s.W + seen.pixel;
        for (int64_t i = 0; i < seen.count; ++i) out[seen.first + i] = in[i * s.stride];
      });
    }
  });
}

// Adds columns to the pixels they were seen from; a thread owns whole channels.
template <class T>
void col2im(T* image, const T* columns, const Windows& s, Tile tile) {
  parallel_for(s.C, s.KH * s.KW * tile.size(), [&](int64_t c_begin, int64_t c_end) {
    for (int64_t k = c_begin * s.KH * s.KW; k < c_end * s.KH * s.KW; ++k) {
      const int64_t c = k / (s.KH * s.KW), kh = k / s.KW % s.KH, kw = k % s.KW;
      for_each_run(s, tile, [&](Run run) {
        const Seen seen = seen_by(s, run, kh, kw);
        const T* in = columns + k * tile.size() + run.column + seen.first;
        T* out = image + ((run.n * s.C + c) * s.H + seen.h) * s.W + seen.pixel;
        for (int64_t i = 0; i < seen.count; ++i) out[i * s.stride] += in[i];
      });
    }
  });
}

// Calls body(o, in_tile, in_grid, size) for the runs of the tile in every grid channel, with their
// offsets in a tile [O, tile.size()] and in the grid [N, O, GH, GW].
template <class Body>
void for_each_cell_run(const Windows& s, Tile tile, Body body) {
  parallel_for(s.O, tile.size(), [&](int64_t o_begin, int64_t o_end) {
    for (int64_t o = o_begin; o < o_end; ++o)
      for (int64_t cell = tile.begin; cell < tile.end;) {
        const int64_t n = cell / s.cells(), p = cell % s.cells();
        const int64_t size = std::min(s.cells() - p, tile.end - cell);
        body(o, o * tile.size() + cell - tile.begin, (n * s.O + o) * s.cells() + p, size);
        cell += size;
      }
  });
}

// cells[o, column] = the tile's part of grid [N, O, GH, GW].
template <class T>
void load_cells(T* cells, const T* grid, const Windows& s, Tile tile) {
  for_each_cell_run(s, tile, [&](int64_t, int64_t in_tile, int64_t in_grid, int64_t size) {
    std::copy_n(grid + in_grid, size, cells + in_tile);
  });
}

template <class T>
T* cells_of(View workspace, const Windows& s, int64_t N) {
  return workspace.as<T>() + s.taps() * tile_cells(s, N);
}

}  // namespace

void gather_windows(GradTarget grid, View image, View w, View b, Activation activation,
                    const Windows& s, View workspace) {
  dispatch_floating(image.dtype, [&]<class T>() {
    const int64_t N = image.shape[0];
    T *columns = workspace.as<T>(), *cells = cells_of<T>(workspace, s, N);
    const T* bias = b.data ? b.as<T>() : nullptr;
    with_beta(grid.beta, [&](auto accumulate) {
      for_each_tile(s, N, [&](Tile tile) {
        im2col(columns, image.as<T>(), s, tile);
        gemm(cells, w.as<T>(), columns, s.O, tile.size(), s.taps(), Transpose::no, Transpose::no,
             0);
        for_each_cell_run(s, tile, [&](int64_t o, int64_t in_tile, int64_t in_grid, int64_t size) {
          const T shift = bias ? bias[o] : T(0);
          const T low = activation == Activation::relu ? T(0) : -std::numeric_limits<T>::infinity();
          T* out = grid.grad.as<T>() + in_grid;
          for (int64_t i = 0; i < size; ++i) {
            const T value = cells[in_tile + i] + shift;
            store(out[i], value < low ? low : value, accumulate);
          }
        });
      });
    });
  });
}

void scatter_windows(GradTarget image, View grid, View w, View b, const Windows& s,
                     View workspace) {
  dispatch_floating(grid.dtype, [&]<class T>() {
    const int64_t N = grid.shape[0], pixels = s.H * s.W;
    T *columns = workspace.as<T>(), *cells = cells_of<T>(workspace, s, N);
    T* out = image.grad.as<T>();
    if (image.beta == 0)
      parallel_for(N * s.C, pixels, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          std::fill_n(out + i * pixels, pixels, b.data ? b.as<T>()[i % s.C] : T(0));
      });
    for_each_tile(s, N, [&](Tile tile) {
      load_cells(cells, grid.as<T>(), s, tile);
      gemm(columns, w.as<T>(), cells, s.taps(), tile.size(), s.O, Transpose::yes, Transpose::no, 0);
      col2im(out, columns, s, tile);
    });
  });
}

void correlate_windows(GradTarget w, View grid, View image, const Windows& s, View workspace) {
  dispatch_floating(grid.dtype, [&]<class T>() {
    const int64_t N = grid.shape[0];
    T *columns = workspace.as<T>(), *cells = cells_of<T>(workspace, s, N);
    for_each_tile(s, N, [&](Tile tile) {
      load_cells(cells, grid.as<T>(), s, tile);
      im2col(columns, image.as<T>(), s, tile);
      gemm(w.grad.as<T>(), cells, columns, s.O, s.taps(), tile.size(), Transpose::no,
           Transpose::yes, tile.begin == 0 ? w.beta : 1);
    });
  });
}

void channel_sum(GradTarget db, View dy) {
  dispatch_floating(dy.dtype, [&]<class T>() {
    const int64_t N = dy.shape[0], C = dy.shape[1], P = dy.shape.numel(2, dy.shape.rank());
    parallel_for(C, N * P, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        T sum = 0;
        for (int64_t n = 0; n < N; ++n) {
          const T* plane = dy.as<T>() + (n * C + c) * P;
          T plane_sum = 0;
#pragma omp simd reduction(+ : plane_sum)
          for (int64_t p = 0; p < P; ++p) plane_sum += plane[p];
          sum += plane_sum;
        }
        T& out = db.grad.as<T>()[c];
        out = blend(sum, db.beta, out);
      }
    });
  });
}

}  // namespace cpu
}  // namespace accrue
