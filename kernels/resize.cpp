#include "kernels/resize.h"

#include <vector>

#include "kernels/backend.h"
#include "kernels/detail/resize_kernels.h"
#include "kernels/detail/wide_runs.h"

namespace accrue {
namespace cpu {

void make_taps(TapTable table, TapsOf of) {
  const TappedAxis& axis = table.axis;
  dispatch_wide(table.weight.dtype, [&]<class W>() {
    auto *begin = table.begin.as<int32_t>(), *index = table.index.as<int32_t>();
    W* weight = table.weight.as<W>();
    if (of == TapsOf::outputs)
      for (int64_t o = 0; o < axis.out; ++o) axis.write_taps(o, begin, index, weight);
    else
      for (int64_t i = 0; i < axis.in; ++i) axis.write_readers(i, begin, index, weight);
  });
}

namespace {

// The numbers of a row of x that are blended at once.
constexpr int64_t room = wide_run;

// Columns [begin, end) of y and the columns [first, last) of x that they read: at most `room`,
// unless it is one column of y that reads more.
struct ColumnTile {
  int64_t begin, end, first, last;
};

std::vector<ColumnTile> tiles_of(const TapTable& columns, int64_t n) {
  const auto *begin = columns.begin.as<int32_t>(), *index = columns.index.as<int32_t>();
  std::vector<ColumnTile> tiles;
  for (int64_t o = 0; o < n; ++o) {
    ColumnTile one{o, o + 1, 0, 0};
    if (begin[o] < begin[o + 1])
      one.first = index[begin[o]], one.last = index[begin[o + 1] - 1] + 1;
    if (!tiles.empty() && o - tiles.back().begin < room) {
      ColumnTile& tile = tiles.back();
      if (one.first == one.last) one.first = one.last = tile.last;
      if (tile.first == tile.last) tile.first = tile.last = one.first;
      const int64_t first = std::min(tile.first, one.first), last = std::max(tile.last, one.last);
      if (last - first <= room) {
        tile = {tile.begin, o + 1, first, last};
        continue;
      }
    }
    tiles.push_back(one);
  }
  return tiles;
}

// line[j] = sum over the taps (i, a) of a row of a * x[at + i * width + first + j], j in [0, n).
template <class W>
void blend_rows(W* line, const View& x, int64_t at, const TapTable& rows, int64_t row,
                int64_t width, int64_t first, int64_t n) {
  const auto *begin = rows.begin.as<int32_t>(), *index = rows.index.as<int32_t>();
  const W* weight = rows.weight.as<const W>();
  if (begin[row] == begin[row + 1]) std::fill_n(line, n, W(0));
  for (int64_t k = begin[row]; k < begin[row + 1]; ++k) {
    const WideInput<W> of_row(x, at + index[k] * width + first, n);
    const W* const in = of_row.data();
    const W a = weight[k];
    if (k == begin[row])
      for (int64_t j = 0; j < n; ++j) line[j] = a * in[j];
    else
      for (int64_t j = 0; j < n; ++j) line[j] += a * in[j];
  }
}

// out[o] = sum over the taps (j, b) of column tile.begin + o of b * line[j - tile.first].
template <int64_t each, class W, class Accumulate>
void blend_columns(W* out, const W* line, const TapTable& columns, const ColumnTile& tile,
                   Accumulate accumulate) {
  const auto *begin = columns.begin.as<int32_t>(), *index = columns.index.as<int32_t>();
  const W* weight = columns.weight.as<const W>();
  for (int64_t o = tile.begin; o < tile.end; ++o) {
    const int64_t from = each ? o * each : begin[o], to = each ? from + each : begin[o + 1];
    W sum = 0;
    for (int64_t k = from; k < to; ++k) sum += weight[k] * line[index[k] - tile.first];
    store(out[o - tile.begin], sum, accumulate);
  }
}

template <class Body>
void with_each(int64_t each, Body&& body) {
  if (each == 1) body(std::integral_constant<int64_t, 1>{});
  else if (each == 2) body(std::integral_constant<int64_t, 2>{});
  else if (each == 4) body(std::integral_constant<int64_t, 4>{});
  else body(std::integral_constant<int64_t, 0>{});
}

}  // namespace

// Each row of y blends rows of x, then the columns of that. A column that reads more of x than is
// blended at once goes on with its sum.
void resize(GradTarget y, View x, TapTable rows, TapTable columns) {
  const int64_t H = y.grad.shape[2], W0 = x.shape[3], width = y.grad.shape[3];
  const std::vector<ColumnTile> tiles = tiles_of(columns, width);
  const int64_t taps = columns.index.numel() + rows.index.numel() / H * W0;
  const auto make_row = [&]<class W>(int64_t row, auto accumulate, W* line) {
    const int64_t at = row / H * x.shape[2] * W0;
    for (const ColumnTile& tile : tiles) {
      const WideOutput<W> out(y.grad, y.beta, row * width + tile.begin, tile.end - tile.begin);
      if (tile.last - tile.first <= room) {
        blend_rows(line, x, at, rows, row % H, W0, tile.first, tile.last - tile.first);
        with_each(columns.each, [&](auto each) {
          blend_columns<each>(out.data(), line, columns, tile, accumulate);
        });
        continue;
      }
      const auto* index = columns.index.as<int32_t>();
      int64_t k = columns.begin.as<int32_t>()[tile.begin];
      const int64_t end = columns.begin.as<int32_t>()[tile.begin + 1];
      W sum = 0;
      for (int64_t first = tile.first; first < tile.last; first += room) {
        const int64_t n = std::min(room, tile.last - first);
        blend_rows(line, x, at, rows, row % H, W0, first, n);
        for (; k < end && index[k] < first + n; ++k)
          sum += columns.weight.as<const W>()[k] * line[index[k] - first];
      }
      store(out.data()[0], sum, accumulate);
    }
  };
  dispatch_widened(x.dtype, [&]<class W>() {
    with_beta(y.beta, [&](auto accumulate) {
      parallel_for(y.grad.shape.numel(0, 3), width + taps, [&](int64_t begin, int64_t end) {
        W line[room];
        for (int64_t row = begin; row < end; ++row) make_row(row, accumulate, line);
      });
    });
  });
}

}  // namespace cpu

namespace cuda {
decltype(cpu::make_taps) make_taps;
decltype(cpu::resize) resize;
}  // namespace cuda

namespace {

// The table of an axis, in scratch.
class TapScratch {
 public:
  TapScratch(const TappedAxis& axis, TapsOf of, DType dtype, Device device)
      : n_(of == TapsOf::outputs ? axis.out : axis.in),
        places_(Tensor::empty({n_ + 1 + axis.entries()}, DType::i32, device, Category::workspace)),
        weights_(Tensor::empty({axis.entries()}, wide(dtype), device, Category::workspace)),
        table_{axis, places_.view().part(0, n_ + 1),
               places_.view().part(n_ + 1, n_ + 1 + axis.entries()), weights_.view(),
               of == TapsOf::outputs ? axis.taps() : 0} {
    launch<cpu::make_taps, cuda::make_taps>(device, table_, of);
  }
  const TapTable& table() const { return table_; }

 private:
  int64_t n_;
  Tensor places_, weights_;
  TapTable table_;
};

void apply_taps(const GradTarget& y, const View& x, const TappedAxis& rows,
                const TappedAxis& columns, TapsOf of) {
  const TapScratch of_rows(rows, of, x.dtype, x.device), of_columns(columns, of, x.dtype, x.device);
  launch<cpu::resize, cuda::resize>(x.device, y, x, of_rows.table(), of_columns.table());
}

bool is_of_images(const Tensor& x) {
  return x.shape().rank() == 4 && x.size(2) >= 1 && x.size(3) >= 1;
}

void check_coordinates(std::string_view op, ResizeMode mode, Coordinates coordinates) {
  check(coordinates == Coordinates::half_pixel || mode == ResizeMode::bilinear ||
            mode == ResizeMode::bicubic,
        "[{}] {} with aligned corners: expected half_pixel, or bilinear or bicubic", op,
        name(mode));
}

Tensor resize(std::string_view op, const Tensor& x, const TappedAxis& rows,
              const TappedAxis& columns) {
  constexpr int64_t most = int64_t{1} << 31;
  check(rows.in + rows.entries() < most && columns.in + columns.entries() < most,
        "[{}] x {} to {} x {}: expected fewer than 2^29 rows and columns", op, x.shape(), rows.out,
        columns.out);
  if (rows.changes_nothing() && columns.changes_nothing()) return x;
  Tensor y = empty_result({x.size(0), x.size(1), rows.out, columns.out}, x.dtype(), x.device());
  if (!result_is_unread()) apply_taps({y.view(), 0}, x.view(), rows, columns, TapsOf::outputs);
  const Edge edge = x;
  record(op, y, {edge}, [=](Tensor& dy) {
    if (auto dx = claim_grad(edge)) apply_taps(*dx, dy.view(), rows, columns, TapsOf::inputs);
  });
  return y;
}

}  // namespace

std::string_view detail::name(ResizeMode mode) {
  switch (mode) {
    case ResizeMode::nearest: return "nearest";
    case ResizeMode::nearest_exact: return "nearest-exact";
    case ResizeMode::bilinear: return "bilinear";
    case ResizeMode::bicubic: return "bicubic";
  }
  return "";
}

Tensor resize(const Tensor& x, int64_t H, int64_t W, ResizeMode mode, Coordinates coordinates) {
  check_same("resize", {&x});
  check(is_of_images(x) && H >= 1 && W >= 1,
        "[resize] x {} to {} x {}: expected x [N, C, H, W], and at least 1 x 1 pixels of both",
        x.shape(), H, W);
  check_coordinates("resize", mode, coordinates);
  return resize("resize", x, TappedAxis(x.size(2), H, mode, coordinates, 0),
                TappedAxis(x.size(3), W, mode, coordinates, 0));
}

Tensor resize_by(const Tensor& x, double rows, double columns, ResizeMode mode,
                 Coordinates coordinates) {
  check_same("resize_by", {&x});
  const auto scaled = [](int64_t size, double factor) {
    const double whole = std::floor(static_cast<double>(size) * factor);
    return whole >= 1 && whole < 0x1p31 ? static_cast<int64_t>(whole) : 0;
  };
  const int64_t H = is_of_images(x) ? scaled(x.size(2), rows) : 0;
  const int64_t W = is_of_images(x) ? scaled(x.size(3), columns) : 0;
  check(H >= 1 && W >= 1,
        "[resize_by] x {} by {} x {}: expected x [N, C, H, W] and factors above 0 that leave at "
        "least one pixel",
        x.shape(), rows, columns);
  check_coordinates("resize_by", mode, coordinates);
  return resize("resize_by", x, TappedAxis(x.size(2), H, mode, coordinates, rows),
                TappedAxis(x.size(3), W, mode, coordinates, columns));
}

}  // namespace accrue
