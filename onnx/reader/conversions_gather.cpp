// ONNX's operators that take elements by their places.

#include <algorithm>

#include "core/inside.h"
#include "onnx/reader/conversion_parts.h"

namespace accrue {
namespace {

using Values = OnnxValues;

// Integers i32 that a Graph takes as indices, from 0 on.
OnnxValue indices(OnnxConversion& c, const OnnxValue& index, int64_t size) {
  if (!index.is_constant()) {
    c.check(index.is_whole(),
            "its indices are computed from numbers of the data: expected integers "
            "that are an input, or constants");
    return index;
  }
  std::array<std::vector<double>, 2> numbers;
  for (size_t k = 0; k < 2; ++k)
    for (const double given : index.constant->numbers(k)) {
      c.check(given >= double(-size) && given < double(size),
              "it takes element {} of {}: expected one that is there", given, size);
      numbers[k].push_back(given < 0 ? given + double(size) : given);
    }
  OnnxValue made = index;
  made.constant = std::make_shared<const OnnxConstant>(
      OnnxType::i64, std::array{index.constant->shape(0), index.constant->shape(1)}, numbers);
  return made;
}

// The index's sizes in place of dimension `dim` of x.
Extents gathered_sizes(const OnnxValue& x, const OnnxValue& index, int dim) {
  Extents shape = x.sizes.shape;
  shape.erase(shape.begin() + dim);
  shape.insert(shape.begin() + dim, index.sizes.shape.begin(), index.sizes.shape.end());
  return shape;
}

// Elements by constant numbers: a part of the dimension where they follow each other.
OnnxValue picked(OnnxConversion& c, const OnnxValue& x, int dim, const OnnxValue& index) {
  const std::vector<double>& places = index.constant->numbers();
  bool is_part = !places.empty();
  for (size_t i = 1; i < places.size(); ++i) is_part &= places[i] == places[i - 1] + 1;
  if (is_part)
    return places.size() == size_t(x.sizes.shape[size_t(dim)].number)
               ? x
               : c.call("slice", {x},
                        {{"dim", int64_t{dim}},
                         {"start", int64_t(places.front())},
                         {"end", int64_t(places.back()) + 1}});
  const OnnxValue list = c.constant(places, Shape{int64_t(places.size())}, OnnxType::i64);
  return c.call("index_select", {x, list}, {{"dim", int64_t{dim}}});
}

// Rows of a table, which is the same for all samples, by integers of the data.
OnnxValue looked_up(OnnxConversion& c, OnnxValue table, int dim, const OnnxValue& index) {
  if (dim > 0) {
    std::vector<int> order = all_dimensions(table.rank());
    order.erase(order.begin() + dim);
    order.insert(order.begin(), dim);
    table = c.call("permute", {table}, {{"dims", as_integers(order)}});
  }
  const Extents rest(table.sizes.shape.begin() + 1, table.sizes.shape.end());
  const int64_t width = extent_product(c, rest, 0, rest.size()).number;
  if (table.rank() != 2) table = c.reshape(table, {table.sizes.shape.front(), width});
  OnnxValue y = c.call("embedding", {index, table});
  if (rest.size() != 1) {
    Extents shape = index.sizes.shape;
    shape.insert(shape.end(), rest.begin(), rest.end());
    y = c.reshape(y, shape);
  }
  if (dim == 0) return y;
  // The index's dimensions are in front, where `dim` dimensions of the table belong.
  const int many = index.rank();
  Integers order;
  for (int d = 0; d < dim; ++d) order.push_back(many + d);
  for (int d = 0; d < many; ++d) order.push_back(d);
  for (int d = many + dim; d < y.rank(); ++d) order.push_back(d);
  return c.call("permute", {y}, {{"dims", order}});
}

// Elements of each sample by places within it, where the index counts through all samples: x has
// `each` elements of every sample in its first dimension, and the index holds n * each + place for
// sample n. Nothing if it is no such index.
struct PlacesOfSamples {
  Extents shape;  // the index's
  size_t place = 0;
  std::vector<double> places{};  // of one sample, in the order of the index

  int64_t before() const { return product(0, place); }
  int64_t own() const { return shape[place].number; }
  int64_t behind() const { return product(place + 1, shape.size()); }
  int64_t product(size_t begin, size_t end) const {
    int64_t product = 1;
    for (size_t i = begin; i < end; ++i) product *= shape[i].number;
    return product;
  }
};

std::optional<PlacesOfSamples> places_of_samples(const Extents& shape, int64_t each,
                                                 const std::array<std::vector<double>, 2>& index) {
  const auto found = std::ranges::find(shape, true, &Extent::per_sample);
  if (found == shape.end()) return {};
  PlacesOfSamples made{.shape = shape, .place = size_t(found - shape.begin())};
  const int64_t own = made.own(), behind = made.behind();
  made.places.resize(size_t(made.before() * own * behind), -1);
  for (size_t k = 0; k < 2; ++k) {
    const int64_t samples = rehearsed_samples[k];
    for (int64_t i = 0; i < std::ssize(index[k]); ++i) {
      const int64_t column = i / behind % (samples * own), row = i / behind / (samples * own);
      const double place = index[k][size_t(i)] - double(column / own * each);
      double& known = made.places[size_t((row * own + column % own) * behind + i % behind)];
      if (place < 0 || place >= double(each) || (known != -1 && known != place)) return {};
      known = place;
    }
  }
  return made;
}

std::optional<OnnxValue> elements_of_samples(OnnxConversion& c, const OnnxValue& x,
                                             const PlacesOfSamples& by, int64_t each) {
  // [N, each, ...] -> [N, places, ...]
  const Extents rest(x.sizes.shape.begin() + 1, x.sizes.shape.end());
  Extents split{Extent::of_samples(), each};
  split.insert(split.end(), rest.begin(), rest.end());
  const OnnxValue picked = c.call(
      "index_select",
      {c.reshape(x, split), c.constant(by.places, Shape{std::ssize(by.places)}, OnnxType::i64)},
      {{"dim", int64_t{1}}});
  Extents sizes{Extent::of_samples(), by.before(), by.own() * by.behind()};
  sizes.insert(sizes.end(), rest.begin(), rest.end());
  OnnxValue y = picked;
  if (by.before() != 1) {
    // Dimensions in front of the samples in the index are in front of them here.
    Integers order = as_integers(all_dimensions(int(sizes.size())));
    std::swap(order[0], order[1]);
    y = c.call("permute", {c.reshape(picked, sizes)}, {{"dims", order}});
  }
  Extents shape = by.shape;
  shape.insert(shape.end(), rest.begin(), rest.end());
  return c.reshape(y, shape);
}

std::optional<OnnxValue> by_sample(OnnxConversion& c, const OnnxValue& given, int dim,
                                   const OnnxConstant& index, const Extents& shape) {
  const OnnxValue x = number_operand(c, given);
  if (dim != 0 || x.outer != 1) return {};
  const int64_t each = x.sizes.shape[0].number;
  const auto by = places_of_samples(shape, each, {index.numbers(0), index.numbers(1)});
  if (!by) return {};
  return elements_of_samples(c, x, *by, each);
}

Values gather_of(OnnxConversion& c) {
  const int dim = c.dimension("axis", 0);
  const OnnxValue& x = c[0];
  if (c[1].is_constant() && OnnxConversion::samples_dimension(x) == dim)
    if (const auto y = by_sample(c, x, dim, *c[1].constant, c.sizes(1))) return {like_first(c, *y)};
  c.keep_apart(x, {dim});
  const OnnxValue index = indices(c, c[1], c.size(0, dim));
  const Extents shape = gathered_sizes(x, index, dim);
  if (index.is_constant()) {
    const OnnxValue one = constant_for_one(index);  // of the samples
    const Extents once = gathered_sizes(x, one, dim);
    OnnxValue y = picked(c, x, dim, one);
    if (y.sizes.shape != once) y = c.reshape(y, once);
    if (once != shape) y = c.call("expand", {y}, {{"size", shape}});
    return {like_first(c, y)};
  }
  if (!OnnxConversion::samples_dimension(x))
    return {like_first(c, looked_up(c, number_operand(c, x), dim, index))};
  c.check(!OnnxConversion::samples_dimension(index),
          "it takes elements of {} by integers of each sample ({}): expected GatherElements, or a "
          "table that is the same for all samples",
          to_string(x.sizes), to_string(index.sizes));
  c.fail("it takes elements of samples by integers that are computed: expected constants");
}

Values gather_elements_of(OnnxConversion& c) {
  const int dim = c.dimension("axis", 0);
  c.keep_apart(c[0], {dim});
  const OnnxValue index = indices(c, c[1], c.size(0, dim));
  return {
      like_first(c, c.call("gather", {number_operand(c, c[0]), index}, {{"dim", int64_t{dim}}}))};
}

// Elements by constant coordinates in the first dimensions of x.
Values gather_nd_of(OnnxConversion& c) {
  c.check(c.integer("batch_dims", 0) == 0, "batch_dims is not 0: expected 0");
  c.check(c[1].is_constant(), "its indices depend on the data: expected constants");
  const OnnxConstant& index = *c[1].constant;
  const Extents& sizes = c.sizes(0);
  const int64_t q = c.size(1, -1);
  c.check(q >= 1 && q <= c.rank(0), "it has {} coordinates for {}: expected 1 to {}", q,
          to_string(c[0].sizes), c.rank(0));
  const auto many = size_t(q);
  // As one dimension, with the places there.
  const OnnxValue x = number_operand(c, c[0]);
  Extents flat{extent_product(c, sizes, 0, many)};
  flat.insert(flat.end(), sizes.begin() + q, sizes.end());
  std::array<std::vector<double>, 2> places;
  for (size_t k = 0; k < 2; ++k) {
    const std::vector<double>& all = index.numbers(k);
    for (size_t i = 0; i + many <= all.size(); i += many) {
      double place = 0;
      for (size_t d = 0; d < many; ++d) {
        const auto size = double(sizes[d].of(rehearsed_samples[k]));
        const double at = all[i + d] < 0 ? all[i + d] + size : all[i + d];
        c.check(at >= 0 && at < size, "it takes element {} of {}: expected one that is there",
                all[i + d], size);
        place = place * size + at;
      }
      places[k].push_back(place);
    }
  }
  const Extents shape(c.sizes(1).begin(), c.sizes(1).end() - 1);
  const OnnxValue rows = c.reshape(x, flat);
  if (OnnxConversion::samples_dimension(rows) == 0) {
    const auto by = x.outer == 1 ? places_of_samples(shape, flat[0].number, places) : std::nullopt;
    c.check(by.has_value(), "its indices mix samples of {}: expected elements of each sample",
            to_string(c[0].sizes));
    return {like_first(c, *elements_of_samples(c, rows, *by, flat[0].number))};
  }
  c.check(places[0] == places[1],
          "its constant indices depend on the number of samples: expected "
          "the same for any number");
  const OnnxValue list = c.constant(places[0], Shape{std::ssize(places[0])}, OnnxType::i64);
  Extents whole = shape;
  whole.insert(whole.end(), flat.begin() + 1, flat.end());
  return {like_first(c, c.reshape(picked(c, rows, 0, list), whole))};
}

// values[0], and values[1] where the new dimension's place is the index. Negative indices count
// from the end only in constants.
Values one_hot_of(OnnxConversion& c) {
  c.check(is_floating(c[2].type) || c[2].type == OnnxType::undefined,
          "its values are {}: expected floating numbers", to_string(c[2].type));
  const int64_t depth = onnx_integer(c.number(1));
  const std::vector<double> values = c.numbers(2);
  c.check(depth >= 1 && values.size() == 2,
          "its depth is {} and it has {}: expected a depth from 1 on and 2 values", depth,
          counted(std::ssize(values), "value"));
  const OnnxValue index = indices(c, c[0], depth);
  const int rank = c.rank(0) + 1, dim = c.dimension(c.integer("axis", -1), rank);
  const Extents& sizes = c.sizes(0);
  OnnxValue y = c.reshape(index, {extent_product(c, sizes, 0, sizes.size())});
  y = c.call("one_hot", {y}, {{"num_classes", depth}});
  Extents shape = sizes;
  shape.emplace_back(depth);
  y = c.reshape(y, shape);
  if (dim != rank - 1) {
    Integers order = as_integers(all_dimensions(rank - 1));
    order.insert(order.begin() + dim, rank - 1);
    y = c.call("permute", {y}, {{"dims", order}});
  }
  return {
      OnnxConversion::typed(sum_of(c, times(c, y, values[1] - values[0]), values[0]), c[2].type)};
}

}  // namespace

void detail::add_onnx_gather_conversions(OnnxConverters& converters) {
  const OnnxConverters rows{
      {"Gather", {gather_of, {0}}},
      {"GatherElements", {gather_elements_of}},
      {"GatherND", {gather_nd_of}},
      {"OneHot", {one_hot_of}},
  };
  converters.insert(rows.begin(), rows.end());
}

}  // namespace accrue
