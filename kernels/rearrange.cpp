#include "kernels/rearrange.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "kernels/concat.h"
#include "kernels/detail/copy_strided.h"

namespace accrue {

int detail::dimension_of(std::string_view op, const Tensor& x, int dim) {
  const int rank = x.shape().rank();
  check(-rank <= dim && dim < rank, "[{}] dimension {} of shape {} does not exist", op, dim,
        x.shape());
  return dim < 0 ? dim + rank : dim;
}

void detail::check_movable(std::string_view op, const Tensor& x) {
  check(x.defined(), "[{}] x is undefined", op);
  check(is_floating(x.dtype()) || x.dtype() == DType::i32 || x.dtype() == DType::u8,
        "[{}] x {} {}: expected f32, f64, f16, bf16, i32 or u8", op, name(x.dtype()), x.shape());
}

namespace {

using Strides = std::array<int64_t, Shape::max_rank>;

Strides strides_of(const Shape& shape) {
  Strides strides{};
  int64_t stride = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    strides[d] = stride;
    stride *= shape[d];
  }
  return strides;
}

std::vector<int> dimensions_of(std::string_view op, const Tensor& x, const std::vector<int>& dims) {
  std::vector<int> found;
  for (const int dim : dims) {
    const int d = dimension_of(op, x, dim);
    check(std::ranges::find(found, d) == found.end(), "[{}] dimension {} of {} is named twice", op,
          dim, x.shape());
    found.push_back(d);
  }
  return found;
}

void copy_box(const GradTarget& to, const View& from, const StridedBox& box) {
  if (box.numel() > 0) launch<cpu::copy_strided, cuda::copy_strided>(from.device, to, from, box);
}

// y of this shape has each element of x once, where the boxes say.
Tensor moved(std::string_view op, const Tensor& x, const Shape& shape,
             const std::vector<StridedBox>& boxes) {
  if (x.numel() == 0 || (boxes.size() == 1 && boxes[0].moves_nothing())) return x.reshape(shape);
  Tensor y = Tensor::empty(shape, x.dtype(), x.device());
  for (const StridedBox& box : boxes) copy_box({y.view(), 0}, x.view(), box);
  const Edge edge = x;
  record(op, y, {edge}, [edge, boxes](Tensor& dy) {
    if (const auto dx = claim_grad(edge))
      for (const StridedBox& box : boxes) copy_box(*dx, dy.view(), box.reversed());
  });
  return y;
}

Tensor permuted(std::string_view op, const Tensor& x, const std::vector<int>& dims) {
  std::vector<int64_t> sizes;
  for (const int d : dims) sizes.push_back(x.size(d));
  const Shape shape{std::span<const int64_t>(sizes)};
  const Strides to = strides_of(shape), from = strides_of(x.shape());
  StridedBox box;
  for (size_t d = 0; d < dims.size(); ++d) box.add(sizes[d], to[d], from[dims[d]]);
  return moved(op, x, shape, {box});
}

}  // namespace

Tensor permute(const Tensor& x, const std::vector<int>& dims) {
  check_movable("permute", x);
  const std::vector<int> order = dimensions_of("permute", x, dims);
  check(static_cast<int>(order.size()) == x.shape().rank(),
        "[permute] x {} by ({}): expected each dimension once", x.shape(), fmt::join(dims, ", "));
  return permuted("permute", x, order);
}

Tensor transpose(const Tensor& x, int a, int b) {
  check_movable("transpose", x);
  std::vector<int> order(static_cast<size_t>(x.shape().rank()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[dimension_of("transpose", x, a)], order[dimension_of("transpose", x, b)]);
  return permuted("transpose", x, order);
}

Tensor detail::channels_last(const Tensor& x) { return permute(x, {0, 2, 3, 1}); }
Tensor detail::channels_first(const Tensor& x) { return permute(x, {0, 3, 1, 2}); }

Tensor flip(const Tensor& x, const std::vector<int>& dims) {
  check_movable("flip", x);
  const std::vector<int> flipped = dimensions_of("flip", x, dims);
  const Strides strides = strides_of(x.shape());
  StridedBox box;
  for (int d = 0; d < x.shape().rank(); ++d) {
    const bool backwards = std::ranges::find(flipped, d) != flipped.end();
    if (backwards) box.from_begin += (x.size(d) - 1) * strides[d];
    box.add(x.size(d), strides[d], backwards ? -strides[d] : strides[d]);
  }
  return moved("flip", x, x.shape(), {box});
}

Tensor roll(const Tensor& x, const std::vector<int64_t>& shifts, const std::vector<int>& dims) {
  check_movable("roll", x);
  check(shifts.size() == dims.size(), "[roll] {} of {}: expected a shift for each dimension",
        counted(static_cast<int64_t>(shifts.size()), "shift"),
        counted(static_cast<int64_t>(dims.size()), "dimension"));
  Strides by{};
  for (size_t k = 0; k < dims.size(); ++k) {
    const int d = dimension_of("roll", x, dims[k]);
    const int64_t n = std::max<int64_t>(x.size(d), 1);
    by[d] = (by[d] + shifts[k] % n + n) % n;
  }
  // In a dimension that is rolled, what goes to its beginning and the rest are boxes of their own.
  const Strides strides = strides_of(x.shape());
  std::vector<StridedBox> boxes;
  const int rank = x.shape().rank();
  for (unsigned wrapped = 0; wrapped < 1U << rank; ++wrapped) {
    StridedBox box;
    bool exists = true;
    for (int d = 0; d < rank; ++d) {
      const bool is_wrapped = (wrapped >> d & 1U) != 0;
      const int64_t n = x.size(d), size = is_wrapped ? by[d] : n - by[d];
      exists = exists && size > 0;
      box.add(size, strides[d], strides[d]);
      (is_wrapped ? box.from_begin : box.to_begin) += (is_wrapped ? n - by[d] : by[d]) * strides[d];
    }
    if (exists) boxes.push_back(box);
  }
  return moved("roll", x, x.shape(), boxes);
}

Tensor slice(const Tensor& x, int dim, int64_t begin, int64_t end, int64_t step) {
  check_movable("slice", x);
  const int sliced = dimension_of("slice", x, dim);
  check(step != 0, "[slice] of {} by step 0: expected another one", x.shape());
  const int64_t n = x.size(sliced), lowest = step > 0 ? 0 : -1, highest = step > 0 ? n : n - 1;
  const auto place_of = [&](int64_t i) { return std::clamp(i < 0 ? i + n : i, lowest, highest); };
  const int64_t first = place_of(begin), beyond = place_of(end);
  const int64_t distance = step > 0 ? beyond - first : first - beyond;
  // A step beyond the dimension is as good as its size.
  const int64_t stride = std::clamp(step, -n - 1, n + 1), size = std::abs(stride);
  const int64_t count = distance > 0 ? (distance - 1) / size + 1 : 0;
  if (count == n && (step == 1 || n <= 1)) return x;

  const Shape shape = x.shape().with(sliced, count);
  const Strides to = strides_of(shape), from = strides_of(x.shape());
  StridedBox box;
  Placement back;
  // The lowest of the elements, and where dy has it.
  const int64_t lowest_one = stride > 0 ? first : first + (count - 1) * stride;
  for (int d = 0; d < x.shape().rank(); ++d) {
    if (d == sliced) {
      box.add(count, to[d], stride * from[d]);
      back.add({n, count > 0 ? lowest_one : 0, size, count, stride > 0 ? to[d] : -to[d]});
    } else {
      box.add(x.size(d), to[d], from[d]);
      back.add({x.size(d), 0, 1, x.size(d), to[d]});
    }
  }
  if (count > 0) box.from_begin = first * from[sliced];
  if (count > 0 && stride < 0) back.from_begin = (count - 1) * to[sliced];

  Tensor y = Tensor::empty(shape, x.dtype(), x.device());
  copy_box({y.view(), 0}, x.view(), box);
  const Edge edge = x;
  record("slice", y, {edge}, [edge, box, back](Tensor& dy) {
    const auto dx = claim_grad(edge);
    if (!dx || dx->grad.numel() == 0) return;
    if (dx->beta != 0) copy_box(*dx, dy.view(), box.reversed());
    else launch<cpu::place, cuda::place>(dy.device(), dx->grad, dy.view(), back, 0.0);
  });
  return y;
}

std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int dim) {
  check_movable("split", x);
  const int d = dimension_of("split", x, dim);
  const bool valid = std::ranges::all_of(sizes, [](int64_t size) { return size >= 0; });
  check(valid && std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) == x.size(d),
        "[split] dimension {} of {} into ({}): expected sizes that add up to {}", dim, x.shape(),
        fmt::join(sizes, ", "), x.size(d));
  std::vector<Tensor> parts;
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    parts.push_back(slice(x, d, begin, begin + size));
    begin += size;
  }
  return parts;
}

Tensor stack(const std::vector<Tensor>& tensors, int dim) {
  check(!tensors.empty() && tensors[0].defined(), "[stack] there is no tensor to stack");
  const int rank = tensors[0].shape().rank() + 1;
  check(-rank <= dim && dim < rank, "[stack] dimension {} among {} does not exist", dim, rank);
  std::vector<Tensor> parts;
  for (const Tensor& x : tensors) {
    check(x.defined() && x.shape() == tensors[0].shape(),
          "[stack] tensor {} is {}, tensor 0 is {}: expected the same shapes", parts.size(),
          x.shape(), tensors[0].shape());
    parts.push_back(unsqueeze(x, dim));
  }
  return concat(parts, dim);
}

namespace {

// y of this shape: each element of x as often as there are terms, in the order of the dimensions.
// A dimension that is repeated has the stride 0 in x.
struct Repeats {
  StridedBox copies;       // all of y from x
  StridedBox sums, terms;  // dx from dy: the elements of x, and the copies of each

  void keep(int64_t size, int64_t y_stride, int64_t x_stride) {
    copies.add(size, y_stride, x_stride);
    sums.add(size, x_stride, y_stride);
  }
  void repeat(int64_t size, int64_t y_stride) {
    copies.add(size, y_stride, 0);
    terms.add(size, 0, y_stride);
  }
};

Tensor repeated(std::string_view op, const Tensor& x, const Shape& shape, const Repeats& repeats) {
  if (x.numel() == shape.numel()) return x.reshape(shape);
  Tensor y = Tensor::empty(shape, x.dtype(), x.device());
  copy_box({y.view(), 0}, x.view(), repeats.copies);
  const Edge edge = x;
  record(op, y, {edge}, [edge, repeats](Tensor& dy) {
    const auto dx = claim_grad(edge);
    if (dx && dx->grad.numel() > 0)
      launch<cpu::sum_strided, cuda::sum_strided>(dy.device(), *dx, dy.view(), repeats.sums,
                                                  repeats.terms);
  });
  return y;
}

}  // namespace

Tensor expand(const Tensor& x, const Shape& shape) {
  check_movable("expand", x);
  const int more = shape.rank() - x.shape().rank();
  bool fits = more >= 0;
  for (int d = 0; fits && d < x.shape().rank(); ++d)
    fits = x.size(d) == 1 || x.size(d) == shape[d + more];
  check(fits, "[expand] x {} to {}: expected sizes that agree from the end on, or are 1", x.shape(),
        shape);
  const Strides to = strides_of(shape), from = strides_of(x.shape());
  Repeats repeats;
  for (int d = 0; d < shape.rank(); ++d) {
    if (d < more || x.size(d - more) != shape[d]) repeats.repeat(shape[d], to[d]);
    else repeats.keep(shape[d], to[d], from[d - more]);
  }
  return repeated("expand", x, shape, repeats);
}

Tensor tile(const Tensor& x, const std::vector<int64_t>& repeats) {
  check_movable("tile", x);
  const auto count = static_cast<int>(repeats.size());
  const int rank = std::max(count, x.shape().rank());
  check(std::ranges::all_of(repeats, [](int64_t r) { return r >= 0; }) && rank <= Shape::max_rank,
        "[tile] x {} by ({}): expected numbers from 0 on, for at most {} dimensions", x.shape(),
        fmt::join(repeats, ", "), Shape::max_rank);
  std::vector<int64_t> sizes(static_cast<size_t>(rank), 1), times = sizes, result;
  std::ranges::copy(x.shape().sizes(), sizes.begin() + (rank - x.shape().rank()));
  std::ranges::copy(repeats, times.begin() + (rank - count));
  std::ranges::transform(sizes, times, std::back_inserter(result), std::multiplies<>());
  const Shape shape{std::span<const int64_t>(result)}, own{std::span<const int64_t>(sizes)};
  const Strides to = strides_of(shape), from = strides_of(own);
  Repeats how;
  for (int d = 0; d < rank; ++d) {
    how.repeat(times[d], own[d] * to[d]);
    how.keep(own[d], to[d], from[d]);
  }
  return repeated("tile", x, shape, how);
}

Tensor squeeze(const Tensor& x) {
  check_movable("squeeze", x);
  std::vector<int64_t> sizes;
  std::ranges::copy_if(x.shape().sizes(), std::back_inserter(sizes),
                       [](int64_t size) { return size != 1; });
  return x.reshape(Shape{std::span<const int64_t>(sizes)});
}

Tensor squeeze(const Tensor& x, int dim) {
  check_movable("squeeze", x);
  const int d = dimension_of("squeeze", x, dim);
  if (x.size(d) != 1) return x;
  std::vector<int64_t> sizes(x.shape().sizes().begin(), x.shape().sizes().end());
  sizes.erase(sizes.begin() + d);
  return x.reshape(Shape{std::span<const int64_t>(sizes)});
}

Tensor unsqueeze(const Tensor& x, int dim) {
  check_movable("unsqueeze", x);
  const int rank = x.shape().rank() + 1;
  check(-rank <= dim && dim < rank, "[unsqueeze] dimension {} among {} does not exist", dim, rank);
  std::vector<int64_t> sizes(x.shape().sizes().begin(), x.shape().sizes().end());
  sizes.insert(sizes.begin() + (dim < 0 ? dim + rank : dim), 1);
  return x.reshape(Shape{std::span<const int64_t>(sizes)});
}

Tensor flatten(const Tensor& x, int first, int last) {
  check_movable("flatten", x);
  if (x.shape().rank() == 0) return x.reshape({1});
  const int begin = dimension_of("flatten", x, first), end = dimension_of("flatten", x, last) + 1;
  check(begin < end, "[flatten] dimensions {} to {} of {}: expected the first one first", first,
        last, x.shape());
  std::vector<int64_t> sizes(x.shape().sizes().begin(), x.shape().sizes().begin() + begin);
  sizes.push_back(x.shape().numel(begin, end));
  sizes.insert(sizes.end(), x.shape().sizes().begin() + end, x.shape().sizes().end());
  return x.reshape(Shape{std::span<const int64_t>(sizes)});
}

}  // namespace accrue
