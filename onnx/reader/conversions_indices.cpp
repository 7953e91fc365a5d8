// Elements that each sample takes of itself by constant places, which files count among all
// samples.

#include <algorithm>

#include "core/inside.h"
#include "onnx/reader/conversion_parts.h"

namespace accrue {
namespace {

// The places within a sample, which must be the same for all: index[n, j] is n * size +
// places[j]. Nothing if they are not.
std::optional<std::vector<double>> places_within(const OnnxConstant& index, int64_t size) {
  std::vector<double> places;
  for (const size_t which : {size_t{0}, size_t{1}}) {
    const std::vector<double>& all = index.numbers(which);
    const int64_t samples = rehearsed_samples[which], many = std::ssize(all) / samples;
    if (which == 0) places.assign(all.begin(), all.begin() + many);
    if (std::ssize(places) != many) return std::nullopt;
    for (int64_t i = 0; i < std::ssize(all); ++i) {
      const double place = all[size_t(i)] - double(i / many * size);
      if (place != places[size_t(i % many)] || place < 0 || place >= double(size))
        return std::nullopt;
    }
  }
  return places;
}

bool begins_with_samples(const Extents& sizes) {
  const auto first = std::ranges::find_if(sizes, [](Extent e) { return e != Extent(1); });
  return first != sizes.end() && *first == Extent::of_samples();
}

// x is [N, size, ...].
OnnxValue picked_within(OnnxConversion& c, const OnnxValue& x, const std::vector<double>& places,
                        Extents shape) {
  const OnnxValue list = c.constant(places, Shape{int64_t(places.size())}, OnnxType::i64);
  const OnnxValue y = c.call("index_select", {x, list}, {{"dim", int64_t{1}}});
  shape.insert(shape.end(), x.sizes.shape.begin() + 2, x.sizes.shape.end());
  return c.reshape(y, shape);
}

}  // namespace

std::optional<OnnxValue> detail::gathered_within_samples(OnnxConversion& c, const OnnxValue& given,
                                                         const OnnxValue& index) {
  const bool is_flat = given.outer == 1 && OnnxConversion::samples_dimension(given) == 0;
  if (!is_flat || !index.is_constant() || !begins_with_samples(index.sizes.shape)) return {};
  const OnnxValue x = number_operand(c, given);
  const int64_t size = x.sizes.shape.front().number;
  const auto places = places_within(*index.constant, size);
  if (!places) return {};
  Extents rows{Extent::of_samples(), size};
  rows.insert(rows.end(), x.sizes.shape.begin() + 1, x.sizes.shape.end());
  return picked_within(c, c.reshape(x, rows), *places, index.sizes.shape);
}

namespace {

// Parts of x by rows of places [..., depth], of which the first is the sample's own.
OnnxValues gather_nd_of(OnnxConversion& c) {
  c.expect("batch_dims", 0);
  const OnnxValue &x = c[0], &index = c[1];
  c.check(index.is_constant(),
          "it takes elements by places that depend on the data: expected "
          "constants");
  c.check(index.rank() >= 1 && OnnxConversion::samples_dimension(x) == 0 && x.outer == 1 &&
              begins_with_samples(index.sizes.shape),
          "it takes elements of {} by places {}: expected samples first in both",
          to_string(x.sizes), to_string(index.sizes));
  const Extents& sizes = x.sizes.shape;
  const auto depth = size_t(index.sizes.shape.back().number);
  c.check(depth >= 1 && depth <= sizes.size() && sizes.front() == Extent::of_samples(),
          "it takes elements of {} by rows of {}: expected samples first", to_string(x.sizes),
          counted(int64_t(depth), "place"));
  // The places as numbers of elements among those of all samples.
  Extents within(sizes.begin() + 1, sizes.begin() + std::ptrdiff_t(depth));
  const int64_t size = extent_product(c, within, 0, within.size()).number;
  std::array<std::vector<double>, 2> numbers;
  std::array<Shape, 2> shapes;
  Extents shape(index.sizes.shape.begin(), index.sizes.shape.end() - 1);
  for (const size_t which : {size_t{0}, size_t{1}}) {
    const std::vector<double>& all = index.constant->numbers(which);
    for (size_t row = 0; row + depth <= all.size(); row += depth) {
      double place = all[row];
      for (size_t d = 1; d < depth; ++d) {
        const auto own = double(sizes[d].number);
        place = place * own + (all[row + d] < 0 ? all[row + d] + own : all[row + d]);
      }
      numbers[which].push_back(place);
    }
    shapes[which] = ValueSizes{.shape = shape}.of(rehearsed_samples[which]);
  }
  OnnxValue places = index;
  places.constant = std::make_shared<const OnnxConstant>(OnnxType::i64, shapes, numbers);
  places.sizes.shape = shape;
  Extents rows{Extent::of_samples(size)};
  rows.insert(rows.end(), sizes.begin() + std::ptrdiff_t(depth), sizes.end());
  const auto y = gathered_within_samples(c, c.reshape(x, rows), places);
  c.check(y.has_value(), "it takes elements of other samples: expected each sample's own");
  return {OnnxConversion::typed(*y, x.type)};
}

}  // namespace

void detail::add_onnx_index_conversions(OnnxConverters& converters) {
  converters.insert({{"GatherND", {gather_nd_of}}});
}

}  // namespace accrue
