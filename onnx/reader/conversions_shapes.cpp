// ONNX's operators that move data.

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/inside.h"
#include "onnx/reader/conversion_parts.h"

namespace accrue {
namespace {

using Values = OnnxValues;

// Sizes

// Sizes of 0 are x's, unless allowzero is 1.
Values reshape_of(OnnxConversion& c) {
  Extents shape;
  if (c.opset() < 5)
    for (const int64_t size : c.integers("shape", {})) shape.emplace_back(size);
  else shape = c.extents(1);
  const bool allows_zero = c.integer("allowzero", 0) == 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != Extent(0) || allows_zero) continue;
    c.check(i < c.sizes(0).size(), "size {} of its shape is 0, which means the input's, for {}", i,
            to_string(c[0].sizes));
    shape[i] = c.sizes(0)[i];
  }
  return {like_first(c, c.reshape(c[0], shape))};
}

Values flatten_of(OnnxConversion& c) {
  const int rank = c.rank(0);
  const int64_t given = c.integer("axis", 1);
  c.check(given >= -rank && given <= rank, "axis is {} for {}: expected {} to {}", given,
          to_string(c[0].sizes), -rank, rank);
  const auto axis = size_t(given < 0 ? given + rank : given);
  const Extents& sizes = c.sizes(0);
  return {like_first(c, c.reshape(c[0], {extent_product(c, sizes, 0, axis),
                                         extent_product(c, sizes, axis, sizes.size())}))};
}

std::vector<int> dimensions_of(const OnnxConversion& c, const Integers& axes, int rank) {
  std::vector<int> dims;
  for (const int64_t axis : axes) dims.push_back(c.dimension(axis, rank));
  return dims;
}

Values squeeze_of(OnnxConversion& c) {
  const auto axes = c.integers_of("axes", 1);
  std::vector<int> dims;
  if (axes) dims = dimensions_of(c, *axes, c.rank(0));
  Extents shape;
  for (int d = 0; d < c.rank(0); ++d) {
    const Extent& size = c.sizes(0)[size_t(d)];
    const bool is_named = std::ranges::find(dims, d) != dims.end();
    c.check(!is_named || size == Extent(1), "it removes dimension {} of {}: expected size 1", d,
            to_string(c[0].sizes));
    if (axes ? !is_named : size != Extent(1)) shape.push_back(size);
  }
  return {like_first(c, c.reshape(c[0], shape))};
}

Values unsqueeze_of(OnnxConversion& c) {
  const Integers axes = c.integers_of("axes", 1).value_or(Integers{});
  const int rank = c.rank(0) + int(axes.size());
  const std::vector<int> dims = dimensions_of(c, axes, rank);
  Extents shape;
  size_t next = 0;
  for (int d = 0; d < rank; ++d) {
    const bool is_new = std::ranges::find(dims, d) != dims.end();
    c.check(is_new || next < c.sizes(0).size(), "an axis is there twice: expected it once");
    shape.push_back(is_new ? Extent(1) : c.sizes(0)[next++]);
  }
  return {like_first(c, c.reshape(c[0], shape))};
}

// Sizes of 1 in the shape are x's.
Values expand_of(OnnxConversion& c) {
  Extents shape = c.with_samples(c.extents(1));
  const Extents& sizes = c.sizes(0);
  if (shape.size() < sizes.size())
    shape.insert(shape.begin(), sizes.size() - shape.size(), Extent(1));
  const size_t more = shape.size() - sizes.size();
  for (size_t i = more; i < shape.size(); ++i) {
    const Extent& size = sizes[i - more];
    if (shape[i] == Extent(1)) shape[i] = size;
    c.check(size == Extent(1) || size == shape[i],
            "it expands {} to {}: expected equal sizes, or 1", to_string(c[0].sizes),
            to_string(OpValue(shape)));
  }
  if (shape == sizes) return {c[0]};
  return {like_first(c, c.call("expand", {c[0]}, {{"size", shape}}))};
}

Values tile_of(OnnxConversion& c) {
  const Extents repeats = c.extents(1);
  c.check(std::ssize(repeats) == c.rank(0), "it has {} repeats for {}: expected one a dimension",
          repeats.size(), to_string(c[0].sizes));
  Integers numbers;
  Extents shape = c.sizes(0);
  bool expands = true;
  for (size_t i = 0; i < repeats.size(); ++i) {
    expands &= repeats[i] == Extent(1) || shape[i] == Extent(1);
    if (shape[i] == Extent(1)) shape[i] = repeats[i];
    numbers.push_back(repeats[i].number);
    if (repeats[i] != Extent(1)) c.keep_apart(c[0], {int(i)});
  }
  if (expands) return {like_first(c, c.call("expand", {c[0]}, {{"size", shape}}))};
  for (const Extent& each : repeats)
    c.check(!each.per_sample, "it repeats {} for each sample: expected sizes of 1 there",
            to_string(c[0].sizes));
  return {like_first(c, c.call("tile", {c[0]}, {{"dims", numbers}}))};
}

// Order

Values transpose_of(OnnxConversion& c) {
  Integers order = as_integers(all_dimensions(c.rank(0)));
  std::ranges::reverse(order);
  order = c.integers("perm", order);
  Integers all = order;
  std::ranges::sort(all);
  c.check(all == as_integers(all_dimensions(c.rank(0))),
          "its perm is {} for {}: expected each dimension once", to_string(OpValue(order)),
          to_string(c[0].sizes));
  if (std::ranges::is_sorted(order)) return {c[0]};
  return {like_first(c, c.call("permute", {c[0]}, {{"dims", order}}))};
}

Values concat_of(OnnxConversion& c) {
  Values all;
  const bool is_whole = c[0].is_whole() && !c[0].is_constant();
  // Before opset 4, 1 is the default.
  const int dim = c.dimension("axis", 1);
  for (size_t i = 0; i < c.inputs(); ++i) {
    const OnnxValue each = dim > 0 ? c.for_each_sample(i) : c[i];
    all.push_back(is_whole ? each : number_operand(c, each));
  }
  if (all.size() == 1) return {all[0]};
  // A file that says a number of samples may hold once what it joins to each, such as a class
  // token.
  const bool has_samples = std::ranges::any_of(
      all, [](const OnnxValue& each) { return OnnxConversion::samples_dimension(each) == 0; });
  for (size_t i = 0; i < all.size(); ++i) {
    OnnxValue& each = all[i];
    const Extents& shape = c.sizes(i);
    const Extents by_sample = c.with_samples(shape);
    const bool is_one = each.rank() > 0 && each.sizes.shape.front() == Extent(1);
    if (dim > 0 && has_samples && shape != by_sample && is_one)
      each = c.call("expand", {each}, {{"size", by_sample}});
    c.keep_apart(each, {dim});
  }
  return {like_first(c, c.call("cat", all, {{"dim", int64_t{dim}}}))};
}

// Elements begin, begin + step, ... of a dimension, up to `end`.
struct Cut {
  int dim;
  Extent begin, end;
  int64_t step;
};

OnnxValue cut(OnnxConversion& c, const OnnxValue& x, const Cut& by) {
  const Extent& size = x.sizes.shape[size_t(by.dim)];
  const auto is_all = [&](const Extent& end) {
    return end == size || (!end.per_sample && end.number >= std::numeric_limits<int32_t>::max());
  };
  if (by.begin == Extent(0) && is_all(by.end) && by.step == 1) return x;
  c.keep_apart(x, {by.dim});
  c.check(!by.begin.per_sample && !by.end.per_sample,
          "it begins or ends at a multiple of the number of samples: expected a number");
  const int64_t n = size.number;
  const auto within = [&](int64_t place) {
    return std::clamp(place < 0 ? place + n : place, int64_t{-1}, n);
  };
  Graph::Attributes attributes{{"dim", int64_t{by.dim}}, {"step", by.step}};
  int64_t begin = within(by.begin.number), end = within(by.end.number);
  if (by.step > 0) {
    attributes.emplace_back("start", std::max<int64_t>(begin, 0));
    attributes.emplace_back("end", std::max<int64_t>(end, 0));
  } else {
    attributes.emplace_back("start", std::clamp<int64_t>(begin, 0, n - 1));
    // -1 would count from the end: beyond it, the first element is the last one.
    attributes.emplace_back("end", end < 0 ? -n - 1 : end);
  }
  return c.call("slice", {x}, attributes);
}

// Attributes before opset 10, since then inputs.
Values slice_of(OnnxConversion& c) {
  Extents begin, end;
  Integers axes, steps;
  if (c.opset() < 10) {
    for (const int64_t each : c.integers("starts", {})) begin.emplace_back(each);
    for (const int64_t each : c.integers("ends", {})) end.emplace_back(each);
    axes = c.integers("axes", {});
  } else {
    begin = c.extents(1);
    end = c.extents(2);
    if (c.has(3)) axes = c.integers(3);
    if (c.has(4)) steps = c.integers(4);
  }
  if (axes.empty()) axes = as_integers(all_dimensions(int(begin.size())));
  if (steps.empty()) steps.assign(axes.size(), 1);
  c.check(begin.size() == axes.size() && end.size() == axes.size() && steps.size() == axes.size(),
          "it has {} starts, {} ends, {} axes and {} steps: expected as many of each", begin.size(),
          end.size(), axes.size(), steps.size());
  OnnxValue y = c[0];
  for (size_t i = 0; i < axes.size(); ++i) {
    c.check(steps[i] != 0, "a step is 0: expected another");
    y = cut(c, y, {c.dimension(axes[i], c.rank(0)), begin[i], end[i], steps[i]});
  }
  return {like_first(c, y)};
}

Values split_of(OnnxConversion& c) {
  const int dim = c.dimension("axis", 0);
  const auto given = c.integers_of("split", 1);
  const auto parts = int64_t(c.outputs());
  const int64_t named = c.integer("num_outputs", parts);
  c.check(named == parts, "num_outputs is {} for {} outputs: expected as many", named, parts);
  if (parts == 1 && !given) return {c[0]};
  c.keep_apart(c[0], {dim});
  const int64_t n = c.size(0, dim);
  Integers sizes = given.value_or(Integers{});
  if (sizes.empty()) {
    const int64_t each = (n + parts - 1) / parts;
    for (int64_t i = 0; i < parts; ++i) sizes.push_back(std::clamp<int64_t>(n - i * each, 0, each));
  }
  c.check(std::ssize(sizes) == parts, "it has {} sizes for {} outputs: expected as many",
          sizes.size(), parts);
  // A list of one number would be the size of every part.
  Values made = parts == 1 ? Values{cut(c, c[0], {dim, 0, sizes[0], 1})}
                           : c.call("split", {c[0]}, size_t(parts),
                                    {{"split_size_or_sections", sizes}, {"dim", int64_t{dim}}});
  for (OnnxValue& each : made) each = like_first(c, each);
  return made;
}

// Parts of a sequence by their numbers (onnx/reader/passes.h).
Values parts_of(OnnxConversion& c) {
  const int dim = c.dimension("axis", 0);
  const bool keeps = c.has(1) || c.integer("keepdims", 1) != 0;
  c.pass_over("keepdims");
  c.keep_apart(c[0], {dim});
  const int64_t n = c.size(0, dim);
  c.check(n < 1 << 20, "it makes {} parts: expected fewer than 2^20", n);
  Integers sizes = c.has(1) ? c.integers(1) : Integers(size_t(n), 1);
  // One number is the size of each part.
  if (c.has(1) && c[1].rank() == 0) {
    const int64_t each = onnx_integer(c.number(1));
    c.check(each >= 1, "its parts have size {}: expected at least 1", each);
    sizes.clear();
    for (int64_t begin = 0; begin < n; begin += each) sizes.push_back(std::min(each, n - begin));
  }
  Values made;
  for (int64_t place : c.integers("places", {})) {
    if (place < 0) place += std::ssize(sizes);
    c.check(place >= 0 && place < std::ssize(sizes),
            "it takes part {} of {}: expected one that "
            "is there",
            place, sizes.size());
    const int64_t begin = std::accumulate(sizes.begin(), sizes.begin() + place, int64_t{0});
    OnnxValue part = cut(c, c[0], {dim, begin, begin + sizes[size_t(place)], 1});
    if (!keeps) {
      Extents shape = part.sizes.shape;
      shape.erase(shape.begin() + dim);
      part = c.reshape(part, shape);
    }
    made.push_back(like_first(c, part));
  }
  return made;
}

// Borders. ONNX names the numbers in front of all dimensions, then the numbers behind them; PyTorch
// begins with the last dimension.
Values pad_of(OnnxConversion& c) {
  Integers pads;
  double value = 0;
  if (c.opset() < 11) {
    pads = c.integers("pads", {});
    value = c.number("value", 0);
  } else {
    pads = c.integers(1);
    if (c.has(2)) value = c.number(2);
  }
  const int rank = c.rank(0);
  Integers axes = as_integers(all_dimensions(rank));
  if (c.has(3)) axes = c.integers(3);
  c.check(pads.size() == 2 * axes.size(), "it has {} pads for {} dimensions: expected two for each",
          pads.size(), axes.size());
  Integers given(size_t(2 * rank), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int dim = c.dimension(axes[i], rank);
    if (pads[i] != 0 || pads[i + axes.size()] != 0) c.keep_apart(c[0], {dim});
    given[size_t(2 * (rank - 1 - dim))] = pads[i];
    given[size_t(2 * (rank - 1 - dim)) + 1] = pads[i + axes.size()];
  }
  const std::string mode = c.text("mode", "constant");
  if (std::ranges::all_of(given, [](int64_t each) { return each == 0; })) return {c[0]};
  if (mode == "constant")
    return {like_first(c, c.call("pad", {c[0]}, {{"pad", given}, {"value", meant_by(value)}}))};
  const char* const known = mode == "reflect" ? "reflect"
                            : mode == "edge"  ? "replicate"
                            : mode == "wrap"  ? "circular"
                                              : nullptr;
  c.check(known != nullptr, "mode is '{}': expected constant, reflect, edge or wrap", mode);
  return {like_first(c, c.call("pad", {c[0]}, {{"pad", given}, {"mode", std::string(known)}}))};
}

// Channels and places

struct Blocks {
  int64_t size, C, H, W;
  Extent N;
};

Blocks blocks_of(OnnxConversion& c, int64_t size) {
  c.check(c.rank(0) == 4, "its input is {}: expected [N, C, H, W]", to_string(c[0].sizes));
  c.check(size >= 1, "blocksize is {}: expected at least 1", size);
  c.keep_apart(c[0], {1, 2, 3});
  return {size, c.size(0, 1), c.size(0, 2), c.size(0, 3), c.sizes(0)[0]};
}

Values depth_to_space_of(OnnxConversion& c) {
  const Blocks b = blocks_of(c, c.integer("blocksize", 0));
  const std::string mode = c.text("mode", "DCR");
  c.check(b.C % (b.size * b.size) == 0,
          "blocksize is {} for {} channels: expected its square to "
          "divide them",
          b.size, b.C);
  if (mode == "CRD") return {c.call("pixel_shuffle", {c[0]}, {{"upscale_factor", b.size}})};
  c.check(mode == "DCR", "mode is '{}': expected DCR or CRD", mode);
  const int64_t left = b.C / (b.size * b.size);
  const OnnxValue split = c.reshape(c[0], {b.N, b.size, b.size, left, b.H, b.W});
  const OnnxValue moved = c.call("permute", {split}, {{"dims", Integers{0, 3, 4, 1, 5, 2}}});
  return {c.reshape(moved, {b.N, left, b.H * b.size, b.W * b.size})};
}

Values space_to_depth_of(OnnxConversion& c) {
  const Blocks b = blocks_of(c, c.integer("blocksize", 0));
  const int64_t H = b.H / b.size, W = b.W / b.size;
  c.check(H * b.size == b.H && W * b.size == b.W, "blocksize is {} for {}: expected a divisor",
          b.size, to_string(c[0].sizes));
  const OnnxValue split = c.reshape(c[0], {b.N, b.C, H, b.size, W, b.size});
  const OnnxValue moved = c.call("permute", {split}, {{"dims", Integers{0, 3, 5, 1, 2, 4}}});
  return {c.reshape(moved, {b.N, b.C * b.size * b.size, H, W})};
}

// Others

// Elements above or below a diagonal, 0 elsewhere.
Values trilu_of(OnnxConversion& c) {
  const bool is_upper = c.integer("upper", 1) != 0;
  const double k = c.has(1) ? c.number(1) : 0;
  const int rank = c.rank(0);
  c.check(rank >= 2, "its input is {}: expected two dimensions", to_string(c[0].sizes));
  c.keep_apart(c[0], {rank - 2, rank - 1});
  const int64_t rows = c.size(0, rank - 2), columns = c.size(0, rank - 1);
  std::vector<double> kept;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      kept.push_back((is_upper ? double(j - i) >= k : double(j - i) <= k) ? 1 : 0);
  return {like_first(c, c.call("where", {c.constant(kept, Shape{rows, columns}),
                                         number_operand(c, c[0]), c.constant(0)}))};
}

}  // namespace

void detail::add_onnx_shape_conversions(OnnxConverters& converters) {
  const OnnxConverters rows{
      {"Reshape", {reshape_of}},
      {"Flatten", {flatten_of}},
      {"Squeeze", {squeeze_of}},
      {"Unsqueeze", {unsqueeze_of}},
      {"Expand", {expand_of}},
      {"Tile", {tile_of}},
      {"Transpose", {transpose_of}},
      {"Concat", {concat_of}},
      {"Slice", {slice_of}},
      {"Split", {split_of}},
      {"accrue.Parts", {parts_of}},
      {"Pad", {pad_of}},
      {"DepthToSpace", {depth_to_space_of}},
      {"SpaceToDepth", {space_to_depth_of}},
      {"Trilu", {trilu_of}},
  };
  converters.insert(rows.begin(), rows.end());
}

}  // namespace accrue
