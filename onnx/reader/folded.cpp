#include "onnx/reader/folded.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/inside.h"

namespace accrue {

int64_t detail::most_folded() {
  static const double memory = double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGESIZE));
  return int64_t(std::min(memory / 64, 0x1p30));
}

size_t detail::check_folded(const Shape& shape) {
  double elements = 1;
  for (const int64_t size : shape.sizes()) elements *= double(size);
  check(elements <= double(most_folded()),
        "it gives {}: expected a constant of at most {} elements, which take up to an eighth of "
        "this machine's memory",
        shape, most_folded());
  return size_t(elements);
}

const Folded& FoldedNode::operator[](size_t i) const {
  check(has(i), "its input {} is left out: expected it", i);
  return *inputs[i];
}

double FoldedNode::number(size_t i) const {
  const Folded& x = (*this)[i];
  check(x.numbers.size() == 1, "its input {} is {}: expected one number", i, x.shape);
  return x.numbers.front();
}

std::vector<int64_t> FoldedNode::integers(size_t i) const {
  std::vector<int64_t> all;
  for (const double each : (*this)[i].numbers) all.push_back(onnx_integer(each));
  return all;
}

Shape FoldedNode::shape_in(size_t i) const {
  const std::vector<int64_t> sizes = integers(i);
  check(sizes.size() <= Shape::max_rank, "its input {} is a shape of {} sizes: expected at most {}",
        i, sizes.size(), Shape::max_rank);
  for (const int64_t size : sizes)
    check(size >= 0 && size < int64_t{1} << 40, "its input {} has the size {}: expected a size", i,
          size);
  return Shape(sizes);
}

std::vector<int64_t> FoldedNode::axes_in(const char* attribute, size_t input) const {
  if (has(input)) return integers(input);
  return node.integers(attribute, {});
}

int FoldedNode::dimension(int64_t axis, int rank) const {
  check(axis >= -rank && axis < rank, "axis is {} of a tensor of {}: expected one that is there",
        axis, counted(rank, "dimension"));
  return int(axis < 0 ? axis + rank : axis);
}

namespace {

std::vector<Folded> same(const FoldedNode& n) { return {n[0]}; }

std::vector<Folded> reshaped(const Folded& x, const std::vector<int64_t>& sizes) {
  check(sizes.size() <= Shape::max_rank, "it gives {}: expected at most {}",
        counted(std::ssize(sizes), "dimension"), Shape::max_rank);
  const Shape shape(sizes);
  check(shape.numel() == x.shape.numel(), "{} becomes {}: expected as many elements", x.shape,
        shape);
  return {{x.type, shape, x.numbers}};
}

std::vector<Folded> reshape_of(const FoldedNode& n) {
  std::vector<int64_t> sizes = n.integers(1);
  int64_t others = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0 && n.node.integer("allowzero", 0) == 0) {
      check(int(i) < n[0].shape.rank(),
            "{} is reshaped with 0 in place {}: expected a dimension "
            "there",
            n[0].shape, i);
      sizes[i] = n[0].shape[int(i)];
    }
    check(sizes[i] >= -1 && !(sizes[i] > 0 && __builtin_mul_overflow(others, sizes[i], &others)),
          "it has the size {}: expected a size, or -1 for the rest", sizes[i]);
    if (sizes[i] == 0) others = 0;
  }
  const auto rest = std::ranges::find(sizes, -1);
  if (rest != sizes.end()) {
    check(others > 0 && n[0].shape.numel() % others == 0, "{} is reshaped into multiples of {}",
          n[0].shape, others);
    *rest = n[0].shape.numel() / others;
  }
  for (const int64_t size : sizes) check(size >= 0, "it has the size -1 twice: expected it once");
  return reshaped(n[0], sizes);
}

std::vector<Folded> flatten_of(const FoldedNode& n) {
  const Shape& shape = n[0].shape;
  int64_t axis = n.node.integer("axis", 1);
  if (axis < 0) axis += shape.rank();
  check(axis >= 0 && axis <= shape.rank(), "axis is {}: expected 0 to {}", axis, shape.rank());
  return reshaped(n[0], {shape.numel(0, int(axis)), shape.numel(int(axis), shape.rank())});
}

std::vector<Folded> unsqueeze_of(const FoldedNode& n) {
  std::vector<int64_t> axes = n.axes_in("axes", 1);
  const int rank = n[0].shape.rank() + int(axes.size());
  for (int64_t& axis : axes) axis = n.dimension(axis, rank);
  std::vector<int64_t> sizes;
  int next = 0;
  for (int64_t i = 0; i < rank; ++i) {
    const bool is_new = std::ranges::find(axes, i) != axes.end();
    check(is_new || next < n[0].shape.rank(), "an axis is there twice: expected it once");
    sizes.push_back(is_new ? 1 : n[0].shape[next++]);
  }
  return reshaped(n[0], sizes);
}

std::vector<Folded> squeeze_of(const FoldedNode& n) {
  std::vector<int64_t> axes = n.axes_in("axes", 1), sizes;
  const bool all = axes.empty();
  for (int64_t& axis : axes) axis = n.dimension(axis, n[0].shape.rank());
  for (int64_t i = 0; i < n[0].shape.rank(); ++i) {
    const int64_t size = n[0].shape[int(i)];
    const bool goes = all ? size == 1 : std::ranges::find(axes, i) != axes.end();
    if (!goes) sizes.push_back(size);
  }
  return reshaped(n[0], sizes);
}

// y[i] = x[place(index)], where index goes over the dimensions of y.
template <class Place>
Folded moved(const Folded& x, const Shape& shape, const Place& place) {
  Folded y{x.type, shape, {}};
  std::vector<int64_t> index(size_t(shape.rank()));
  y.numbers.reserve(size_t(shape.numel()));
  for (int64_t i = 0; i < shape.numel(); ++i) {
    y.numbers.push_back(x.numbers.at(size_t(place(index))));
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < shape[int(d)]) break;
      index[d] = 0;
    }
  }
  return y;
}

std::vector<int64_t> strides_of(const Shape& shape) {
  std::vector<int64_t> strides(size_t(shape.rank()));
  int64_t stride = 1;
  for (int d = shape.rank(); d-- > 0; stride *= shape[d]) strides[size_t(d)] = stride;
  return strides;
}

std::vector<Folded> transpose_of(const FoldedNode& n) {
  const Folded& x = n[0];
  std::vector<int64_t> turned(size_t(x.shape.rank()));
  std::iota(turned.rbegin(), turned.rend(), 0);
  const std::vector<int64_t> perm = n.node.integers("perm", turned);
  std::vector<int64_t> sorted = perm, sizes;
  std::ranges::sort(sorted);
  std::ranges::reverse(turned);
  check(sorted == turned, "its perm does not name each dimension of {} once", x.shape);
  for (const int64_t from : perm) sizes.push_back(x.shape[int(from)]);
  const std::vector<int64_t> strides = strides_of(x.shape);
  return {moved(x, Shape(sizes), [&](const std::vector<int64_t>& index) {
    int64_t at = 0;
    for (size_t d = 0; d < index.size(); ++d) at += index[d] * strides[size_t(perm[d])];
    return at;
  })};
}

std::vector<Folded> expand_of(const FoldedNode& n) {
  const Folded& x = n[0];
  const Shape wanted = n.shape_in(1);
  const int rank = std::max(wanted.rank(), x.shape.rank());
  std::vector<int64_t> sizes(size_t(rank), 1);
  for (const Shape* shape : {&x.shape, &wanted})
    for (int i = 0; i < shape->rank(); ++i) {
      int64_t& size = sizes[size_t(rank - shape->rank() + i)];
      const int64_t own = (*shape)[i];
      check(size == 1 || own == 1 || own == size, "{} is expanded to {}: expected sizes that fit",
            x.shape, wanted);
      if (size == 1) size = own;
    }
  const Shape shape(sizes);
  n.checked(shape);
  const std::vector<int64_t> strides = strides_of(x.shape);
  return {moved(x, shape, [&](const std::vector<int64_t>& index) {
    int64_t at = 0;
    const size_t more = size_t(rank - x.shape.rank());
    for (size_t d = more; d < index.size(); ++d)
      if (x.shape[int(d - more)] != 1) at += index[d] * strides[d - more];
    return at;
  })};
}

std::vector<Folded> tile_of(const FoldedNode& n) {
  const Folded& x = n[0];
  const std::vector<int64_t> repeats = n.integers(1);
  check(std::ssize(repeats) == x.shape.rank(),
        "it has {} repeats for {}: expected one for each "
        "dimension",
        repeats.size(), x.shape);
  std::vector<int64_t> sizes;
  for (int d = 0; d < x.shape.rank(); ++d) {
    check(repeats[size_t(d)] >= 0 && repeats[size_t(d)] < 1 << 30, "it has {} repeats",
          repeats[size_t(d)]);
    sizes.push_back(x.shape[d] * repeats[size_t(d)]);
  }
  n.checked(Shape(sizes));
  const std::vector<int64_t> strides = strides_of(x.shape);
  return {moved(x, Shape(sizes), [&](const std::vector<int64_t>& index) {
    int64_t at = 0;
    for (size_t d = 0; d < index.size(); ++d) at += index[d] % x.shape[int(d)] * strides[d];
    return at;
  })};
}

std::vector<Folded> concat_of(const FoldedNode& n) {
  check(n.has(0), "it has no inputs: expected some");
  const int dim = n.dimension(n.node.integer("axis", 0), n[0].shape.rank());
  Folded y{n[0].type, n[0].shape, {}};
  int64_t size = 0;
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    check(n[i].shape.rank() == y.shape.rank() && n[i].shape.with(dim, 0) == y.shape.with(dim, 0),
          "its inputs are {} and {}: expected the same sizes but in dimension {}", n[0].shape,
          n[i].shape, dim);
    size += n[i].shape[dim];
  }
  y.shape = y.shape.with(dim, size);
  for (int64_t outer = 0; outer < y.shape.numel(0, dim); ++outer)
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      const int64_t run = n[i].shape.numel(dim, y.shape.rank());
      const auto first = n[i].numbers.begin() + outer * run;
      y.numbers.insert(y.numbers.end(), first, first + run);
    }
  return {y};
}

int64_t place_in(double index, int64_t size) {
  const double at = index < 0 ? index + double(size) : index;
  check(at >= 0 && at < double(size), "its index is {} of {}: expected one within it", index, size);
  return int64_t(at);
}

std::vector<Folded> gather_of(const FoldedNode& n) {
  const Folded &x = n[0], &index = n[1];
  const int dim = n.dimension(n.node.integer("axis", 0), x.shape.rank());
  std::vector<int64_t> sizes;
  for (int d = 0; d < dim; ++d) sizes.push_back(x.shape[d]);
  for (const int64_t size : index.shape.sizes()) sizes.push_back(size);
  for (int d = dim + 1; d < x.shape.rank(); ++d) sizes.push_back(x.shape[d]);
  check(sizes.size() <= Shape::max_rank, "it gives {} dimensions: expected at most {}",
        sizes.size(), Shape::max_rank);
  Folded y{x.type, Shape(sizes), {}};
  n.checked(y.shape);
  const int64_t inner = x.shape.numel(dim + 1, x.shape.rank()), size = x.shape[dim];
  for (int64_t outer = 0; outer < x.shape.numel(0, dim); ++outer)
    for (const double each : index.numbers) {
      const auto first = x.numbers.begin() + (outer * size + place_in(each, size)) * inner;
      y.numbers.insert(y.numbers.end(), first, first + inner);
    }
  return {y};
}

std::vector<Folded> gather_elements_of(const FoldedNode& n) {
  const Folded &x = n[0], &indices = n[1];
  const int rank = x.shape.rank(), dim = n.dimension(n.node.integer("axis", 0), rank);
  bool fits = indices.shape.rank() == rank;
  for (int d = 0; d < rank && fits; ++d) fits = d == dim || indices.shape[d] <= x.shape[d];
  check(fits, "it takes elements of {} by {}: expected sizes within it", x.shape, indices.shape);
  const std::vector<int64_t> strides = strides_of(x.shape);
  size_t next = 0;
  return {moved(x, indices.shape, [&](const std::vector<int64_t>& index) {
    int64_t at = 0;
    for (size_t d = 0; d < index.size(); ++d)
      at += (int(d) == dim ? place_in(indices.numbers[next], x.shape[dim]) : index[d]) * strides[d];
    ++next;
    return at;
  })};
}

// Where the slices that rows of indices name begin, and the elements of each.
struct Slices {
  std::vector<int64_t> begins;
  int64_t elements;
  int depth;  // the leading dimensions that a row of indices names
};

Slices slices_of(const Shape& shape, const Folded& indices) {
  check(indices.shape.rank() >= 1 && indices.shape[-1] <= shape.rank(),
        "it takes parts of {} by indices {}: expected at most {} in a row", shape, indices.shape,
        shape.rank());
  const int depth = int(indices.shape[-1]);
  Slices slices{{}, shape.numel(depth, shape.rank()), depth};
  const std::vector<int64_t> strides = strides_of(shape);
  for (int64_t i = 0; i < indices.shape.numel(0, indices.shape.rank() - 1); ++i) {
    int64_t begin = 0;
    for (int d = 0; d < depth; ++d)
      begin += place_in(indices.numbers[size_t(i * depth + d)], shape[d]) * strides[size_t(d)];
    slices.begins.push_back(begin);
  }
  return slices;
}

std::vector<Folded> gather_nd(const FoldedNode& n) {
  check(n.node.integer("batch_dims", 0) == 0, "its batch_dims are {}: expected 0",
        n.node.integer("batch_dims", 0));
  const Folded &x = n[0], &indices = n[1];
  const Slices slices = slices_of(x.shape, indices);
  std::vector<int64_t> sizes(indices.shape.sizes().begin(), indices.shape.sizes().end() - 1);
  for (int d = slices.depth; d < x.shape.rank(); ++d) sizes.push_back(x.shape[d]);
  check(sizes.size() <= Shape::max_rank, "it gives {} dimensions: expected at most {}",
        sizes.size(), Shape::max_rank);
  Folded y{x.type, Shape(sizes), {}};
  n.checked(y.shape);
  for (const int64_t begin : slices.begins) {
    const auto first = x.numbers.begin() + begin;
    y.numbers.insert(y.numbers.end(), first, first + slices.elements);
  }
  return {y};
}

std::vector<Folded> scatter_nd(const FoldedNode& n) {
  check(n.node.text("reduction", "none") == "none", "its reduction is {}: expected none",
        n.node.text("reduction", "none"));
  Folded y = n[0];
  const Slices slices = slices_of(y.shape, n[1]);
  check(std::ssize(n[2].numbers) == std::ssize(slices.begins) * slices.elements,
        "it writes {} into {}: expected {} for each row of indices", n[2].shape, y.shape,
        counted(slices.elements, "element"));
  auto from = n[2].numbers.begin();
  for (const int64_t begin : slices.begins) {
    std::copy(from, from + slices.elements, y.numbers.begin() + begin);
    from += slices.elements;
  }
  return {y};
}

// One dimension of a slice.
Folded sliced(const Folded& x, int dim, int64_t begin, int64_t end, int64_t step) {
  const int64_t size = x.shape[dim];
  check(step != 0, "its step is 0: expected another");
  const auto place = [&](int64_t at) {
    if (at < 0) at += size;
    return std::clamp(at, int64_t{step > 0 ? 0 : -1}, step > 0 ? size : size - 1);
  };
  const int64_t first = place(begin), last = place(end);
  const int64_t span = step > 0 ? last - first : first - last;
  const int64_t by = std::abs(step);
  const int64_t many = span <= 0 ? 0 : (span + by - 1) / by;
  const std::vector<int64_t> strides = strides_of(x.shape);
  return moved(x, x.shape.with(dim, many), [&](const std::vector<int64_t>& index) {
    int64_t at = 0;
    for (size_t d = 0; d < index.size(); ++d)
      at += (int(d) == dim ? first + index[d] * step : index[d]) * strides[d];
    return at;
  });
}

std::vector<Folded> slice_of(const FoldedNode& n) {
  const bool is_old = n.opset < 10;
  const auto starts = is_old ? n.node.integers("starts", {}) : n.integers(1);
  const auto ends = is_old ? n.node.integers("ends", {}) : n.integers(2);
  std::vector<int64_t> axes(starts.size()), steps(starts.size(), 1);
  std::iota(axes.begin(), axes.end(), 0);
  if (is_old) axes = n.node.integers("axes", axes);
  else if (n.has(3)) axes = n.integers(3);
  if (n.has(4)) steps = n.integers(4);
  check(
      ends.size() == starts.size() && axes.size() == starts.size() && steps.size() == starts.size(),
      "it has {} starts, {} ends, {} axes and {} steps: expected as many of each", starts.size(),
      ends.size(), axes.size(), steps.size());
  Folded y = n[0];
  for (size_t i = 0; i < starts.size(); ++i)
    y = sliced(y, n.dimension(axes[i], y.shape.rank()), starts[i], ends[i],
               std::clamp(steps[i], -(int64_t{1} << 40), int64_t{1} << 40));
  return {y};
}

std::vector<Folded> split_of(const FoldedNode& n) {
  const int dim = n.dimension(n.node.integer("axis", 0), n[0].shape.rank());
  const int64_t size = n[0].shape[dim], many = std::ssize(n.node.outputs);
  std::vector<int64_t> sizes = n.axes_in("split", 1);
  if (sizes.empty())
    for (int64_t i = 0; i < many; ++i) {
      const int64_t each = (size + many - 1) / many;
      sizes.push_back(std::clamp<int64_t>(size - i * each, 0, each));
    }
  std::vector<Folded> parts;
  int64_t begin = 0;
  for (const int64_t each : sizes) {
    check(each >= 0 && each <= size - begin, "it splits {} into more than it has", n[0].shape);
    parts.push_back(sliced(n[0], dim, begin, begin + each, 1));
    begin += each;
  }
  check(begin == size && std::ssize(parts) == many, "it splits {} into {} of {} elements",
        n[0].shape, parts.size(), begin);
  return parts;
}

std::vector<Folded> trilu_of(const FoldedNode& n) {
  Folded y = n[0];
  check(y.shape.rank() >= 2, "its input is {}: expected two dimensions or more", y.shape);
  const int64_t k = n.has(1) ? onnx_integer(n.number(1)) : 0, columns = y.shape[-1];
  const bool upper = n.node.integer("upper", 1) == 1;
  for (int64_t i = 0; i < std::ssize(y.numbers); ++i) {
    const int64_t row = i / columns % y.shape[-2], offset = i % columns - row;
    if (upper ? offset < k : offset > k) y.numbers[size_t(i)] = 0;
  }
  return {y};
}

std::vector<Folded> non_zero(const FoldedNode& n) {
  const Folded& x = n[0];
  const std::vector<int64_t> strides = strides_of(x.shape);
  std::vector<int64_t> found;
  for (int64_t i = 0; i < std::ssize(x.numbers); ++i)
    if (x.numbers[size_t(i)] != 0) found.push_back(i);
  Folded y{OnnxType::i64, Shape({x.shape.rank(), std::ssize(found)}), {}};
  for (int d = 0; d < x.shape.rank(); ++d)
    for (const int64_t i : found) y.numbers.push_back(double(i / strides[size_t(d)] % x.shape[d]));
  return {y};
}

}  // namespace

const std::map<std::string, FoldedMove, std::less<>>& detail::folded_moves() {
  static const std::map<std::string, FoldedMove, std::less<>> all{
      {"Identity", same},          {"Dropout", same},
      {"Reshape", reshape_of},     {"Flatten", flatten_of},
      {"Squeeze", squeeze_of},     {"Unsqueeze", unsqueeze_of},
      {"Transpose", transpose_of}, {"Expand", expand_of},
      {"Tile", tile_of},           {"Concat", concat_of},
      {"Gather", gather_of},       {"Slice", slice_of},
      {"Split", split_of},         {"Trilu", trilu_of},
      {"NonZero", non_zero},       {"GatherElements", gather_elements_of},
      {"GatherND", gather_nd},     {"ScatterND", scatter_nd}};
  return all;
}

}  // namespace accrue
