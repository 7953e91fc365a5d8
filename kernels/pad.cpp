#include "kernels/pad.h"

#include <algorithm>

#include "kernels/detail/copy_strided.h"
#include "kernels/detail/pad_border.h"
#include "kernels/rearrange.h"

namespace accrue {

void BorderedBox::add(const BorderedDimension& next) {
  const bool plain = next.before == 0 && next.after == 0;
  if (rank > 0 && plain) {
    BorderedDimension& last = dimensions[rank - 1];
    if (last.before == 0 && last.after == 0) {
      last.n *= next.n;
      return;
    }
    if (next.n == 1) return;
  }
  dimensions[rank++] = next;
}

namespace cpu {
namespace {

// The place of a row of x, or of y, whose dimensions have the padded sizes.
struct RowOfBox {
  std::array<int64_t, Shape::max_rank> j{};

  RowOfBox(const BorderedBox& box, int64_t row, bool is_padded) {
    for (int d = box.rank - 2; d >= 0; --d) {
      const BorderedDimension& dimension = box.dimensions[d];
      const int64_t size = is_padded ? dimension.padded() : dimension.n;
      j[d] = row % size;
      row /= size;
    }
  }
};

}  // namespace

void pad_border(View y, View x, const BorderedBox& box) {
  const BorderedDimension inner = box.dimensions[box.rank - 1];
  dispatch_bits(x.dtype, [&]<class T>() {
    const T* const in = bits_of<const T>(x);
    T* const out = bits_of<T>(y);
    parallel_each(y.numel() / inner.padded(), inner.padded(), [&](int64_t row) {
      const RowOfBox place(box, row, true);
      int64_t source = 0;
      for (int d = 0; d < box.rank - 1; ++d)
        source = source * box.dimensions[d].n + box.dimensions[d].source(place.j[d]);
      const T* const from = in + source * inner.n;
      T* const to = out + row * inner.padded();
      for (int64_t i = 0; i < inner.before; ++i) to[i] = from[inner.source(i)];
      std::copy_n(from, inner.n, to + inner.before);
      for (int64_t i = inner.before + inner.n; i < inner.padded(); ++i)
        to[i] = from[inner.source(i)];
    });
  });
}

// A thread owns rows of dx, and goes over the rows of dy that are copies of one.
void pad_border_backward(GradTarget dx, View dy, const BorderedBox& box) {
  constexpr int64_t piece = 512;
  const BorderedDimension inner = box.dimensions[box.rank - 1];
  dispatch_floating(dy.dtype, [&]<class T>() {
    T* const out = dx.grad.as<T>();
    const T* const in = dy.as<const T>();
    parallel_each(dx.grad.numel() / inner.n, 2 * inner.n, [&](int64_t row) {
      const RowOfBox place(box, row, false);
      int64_t copies = 1;
      for (int d = 0; d < box.rank - 1; ++d) copies *= box.dimensions[d].copies(place.j[d]);
      for (int64_t begin = 0; begin < inner.n; begin += piece) {
        const int64_t count = std::min(piece, inner.n - begin);
        Wide<T> sums[piece] = {};
        for (int64_t c = 0; c < copies; ++c) {
          int64_t from = 0, rest = c, ways = copies;
          for (int d = 0; d < box.rank - 1; ++d) {
            const BorderedDimension& dimension = box.dimensions[d];
            ways /= dimension.copies(place.j[d]);
            from = from * dimension.padded() + dimension.copy(place.j[d], rest / ways);
            rest %= ways;
          }
          const T* const x = in + from * inner.padded();
          const auto add_border = [&](int64_t i) {
            const int64_t j = inner.source(i) - begin;
            if (0 <= j && j < count) sums[j] += x[i];
          };
          for (int64_t i = 0; i < inner.before; ++i) add_border(i);
          for (int64_t j = 0; j < count; ++j) sums[j] += x[inner.before + begin + j];
          for (int64_t i = inner.before + inner.n; i < inner.padded(); ++i) add_border(i);
        }
        T* const to = out + row * inner.n + begin;
        with_beta(dx.beta, [&](auto accumulate) {
          for (int64_t j = 0; j < count; ++j) store(to[j], sums[j], accumulate);
        });
      }
    });
  });
}

}  // namespace cpu

namespace {

// The numbers for each dimension of x. Throws Error if there are more than dimensions.
Pads for_all_dimensions(const Tensor& x, const Pads& pads) {
  check_movable("pad", x);
  const auto rank = static_cast<size_t>(x.shape().rank());
  check(pads.size() <= rank, "[pad] x {} and numbers for {}: expected them for its dimensions",
        x.shape(), counted(static_cast<int64_t>(pads.size()), "dimension"));
  Pads all(rank);
  std::ranges::copy(pads, all.end() - static_cast<std::ptrdiff_t>(pads.size()));
  return all;
}

bool is_empty(const Pads& pads) {
  return std::ranges::all_of(pads,
                             [](const auto& pad) { return pad == std::pair<int64_t, int64_t>(); });
}

Shape padded_shape(const Tensor& x, const Pads& pads) {
  Shape shape = x.shape();
  for (int d = 0; d < shape.rank(); ++d) {
    const auto [before, after] = pads[static_cast<size_t>(d)];
    const int64_t size = x.size(d) + before + after;
    check(size >= 0,
          "[pad] dimension {} of {} with {} before and {} after: expected no less than "
          "0 elements",
          d, x.shape(), before, after);
    shape = shape.with(d, size);
  }
  return shape;
}

// The elements that `to` has in common with `from`, which begins at `before` within it: sign 1.
// With sign -1, `to` begins there within `from`.
Placement overlap(const Shape& to, const Shape& from, const Pads& pads, int sign) {
  Placement placement;
  int64_t stride = from.numel();
  for (int d = 0; d < to.rank(); ++d) {
    const int64_t shift = sign * pads[static_cast<size_t>(d)].first;
    const int64_t first = std::clamp<int64_t>(shift, 0, to[d]), skipped = first - shift;
    const int64_t count = std::clamp<int64_t>(from[d] - skipped, 0, to[d] - first);
    stride = from[d] > 0 ? stride / from[d] : 0;
    placement.from_begin += skipped * stride;
    placement.add({to[d], first, 1, count, stride});
  }
  return placement;
}

// The same elements alone.
StridedBox box_of(const Placement& placement) {
  StridedBox box;
  box.from_begin = placement.from_begin;
  int64_t stride = 1;
  for (int d = 0; d < placement.rank; ++d) stride *= placement.dimensions[d].size;
  for (int d = 0; d < placement.rank; ++d) {
    const PlacedDimension& dimension = placement.dimensions[d];
    stride /= dimension.size;
    box.to_begin += dimension.first * stride;
    box.add(dimension.count, stride, dimension.from);
  }
  return box;
}

}  // namespace

Tensor pad(const Tensor& x, const Pads& pads, double value) {
  const Pads all = for_all_dimensions(x, pads);
  if (is_empty(all)) return x;
  Tensor y = Tensor::empty(padded_shape(x, all), x.dtype(), x.device());
  if (y.numel() > 0)
    launch<cpu::place, cuda::place>(y.device(), y.view(), x.view(),
                                    overlap(y.shape(), x.shape(), all, 1), value);
  const Edge edge = x;
  record("pad", y, {edge}, [edge, all](Tensor& dy) {
    const auto dx = claim_grad(edge);
    if (!dx || dx->grad.numel() == 0) return;
    const Placement back = overlap(edge.shape(), dy.shape(), all, -1);
    const StridedBox box = box_of(back);
    // Without what is 0, where that is written or where there is none.
    const bool is_all = back.numel_copied() == dx->grad.numel();
    if (dx->beta == 0 && !is_all)
      launch<cpu::place, cuda::place>(dy.device(), dx->grad, dy.view(), back, 0.0);
    else if (box.numel() > 0)
      launch<cpu::copy_strided, cuda::copy_strided>(dy.device(), *dx, dy.view(), box);
  });
  return y;
}

Tensor pad(const Tensor& x, const Pads& pads, Border border) {
  const Pads all = for_all_dimensions(x, pads);
  if (is_empty(all)) return x;
  BorderedBox box;
  for (int d = 0; d < x.shape().rank(); ++d) {
    const auto [before, after] = all[static_cast<size_t>(d)];
    const int64_t n = x.size(d), most = std::max(before, after);
    const bool fits = border == Border::edge      ? n > 0 || most == 0
                      : border == Border::reflect ? most < n || most == 0
                                                  : most <= n;
    check(
        before >= 0 && after >= 0 && fits,
        "[pad] dimension {} of {} with {} before and {} after: expected numbers from 0 on, and {}",
        d, x.shape(), before, after,
        border == Border::edge      ? "an element to repeat"
        : border == Border::reflect ? "less than its size"
                                    : "at most its size");
    box.add({n, before, after, border});
  }
  Tensor y = Tensor::empty(padded_shape(x, all), x.dtype(), x.device());
  if (y.numel() > 0) launch<cpu::pad_border, cuda::pad_border>(y.device(), y.view(), x.view(), box);
  const Edge edge = x;
  record("pad", y, {edge}, [edge, box](Tensor& dy) {
    const auto dx = claim_grad(edge);
    if (dx && dx->grad.numel() > 0)
      launch<cpu::pad_border_backward, cuda::pad_border_backward>(dy.device(), *dx, dy.view(), box);
  });
  return y;
}

}  // namespace accrue
