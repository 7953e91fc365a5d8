#include "onnx/reader/conversion_parts.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <numeric>

#include "core/inside.h"

namespace accrue {

double detail::meant_by(double number) {
  const auto rounded = static_cast<float>(number);
  if (!std::isfinite(number) || double(rounded) != number) return number;
  // Fractions that have no short decimal.
  for (const double fraction :
       {1.0 / 3, 2.0 / 3, 1.0 / 6, 5.0 / 6, 1.0 / 7, 1.0 / 9, 1.0 / 12, 1 / std::sqrt(2.0),
        std::sqrt(2.0), std::sqrt(0.5 / std::atan(1.0)), 1.702, 0.044715})
    if (static_cast<float>(fraction) == rounded) return fraction;
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), rounded).ptr;
  double shortest = 0;
  std::from_chars(text.data(), end, shortest);
  return shortest;
}

OnnxValue detail::number_operand(OnnxConversion& c, const OnnxValue& value) {
  if (!value.is_whole()) return value;
  if (value.is_constant()) return c.as_numbers(value);
  if (value.type != OnnxType::u8)
    return c.as_numbers(OnnxConversion::typed(value, OnnxType::boolean));
  // Bytes, such as pixels: rows of a table.
  std::vector<double> bytes(256);
  std::iota(bytes.begin(), bytes.end(), 0.0);
  OnnxValue y = c.call("embedding", {value, real_constant(c, bytes, Shape{256, 1})});
  y = c.reshape(y, value.sizes.shape);
  return OnnxConversion::typed(y, OnnxType::f32);
}

OnnxValue detail::like_first(const OnnxConversion& c, OnnxValue y) {
  return OnnxConversion::typed(std::move(y), c[0].type);
}

OnnxValue detail::real_constant(const OnnxConversion& c, std::vector<double> numbers,
                                const Shape& shape) {
  return c.constant(std::move(numbers), shape, OnnxType::f64);
}

std::optional<double> detail::only_number(const OnnxValue& value) {
  if (!value.is_constant() || !value.constant->is_fixed() || value.constant->shape().numel() != 1)
    return {};
  const double number = value.constant->numbers().front();
  return value.type == OnnxType::f32 ? meant_by(number) : number;
}

OnnxValue detail::sum_of(OnnxConversion& c, const OnnxValue& x, double number) {
  return number == 0 ? x : c.call("add_scalar", {x}, {{"addend", number}});
}

OnnxValue detail::times(OnnxConversion& c, const OnnxValue& x, double number) {
  return number == 1 ? x : c.call("scale", {x}, {{"factor", number}});
}

OnnxValue detail::p_root(OnnxConversion& c, const OnnxValue& sum, double p) {
  if (p == 1) return sum;
  const OnnxValue is_zero = c.call("equal", {sum, c.constant(0)});
  const OnnxValue safe = c.call("add", {sum, is_zero});
  const OnnxValue root =
      p == 2 ? c.call("sqrt", {safe}) : c.call("pow_scalar", {safe}, {{"exponent", 1 / p}});
  return c.call("sub", {root, is_zero});
}

OnnxValue detail::folded(OnnxConversion& c, const std::string& op) {
  OnnxValue y = number_operand(c, c.for_each_sample(0));
  for (size_t i = 1; i < c.inputs(); ++i)
    y = c.call(op, {y, number_operand(c, c.for_each_sample(i))});
  return y;
}

Extent detail::extent_product(const OnnxConversion& c, const Extents& sizes, size_t begin,
                              size_t end) {
  Extent product = 1;
  for (size_t i = begin; i < end; ++i) {
    c.check(!(product.per_sample && sizes[i].per_sample),
            "two sizes of {} grow with the samples: expected one", to_string(OpValue(sizes)));
    product.number *= sizes[i].number;
    product.per_sample |= sizes[i].per_sample;
  }
  return product;
}

OnnxValue detail::as_image(OnnxConversion& c, const OnnxValue& x) {
  c.check(x.rank() == 3 || x.rank() == 4, "its input is {}: expected [N, C, H, W] or [N, C, L]",
          to_string(x.sizes));
  c.keep_apart(x, x.rank() == 3 ? std::vector{2} : std::vector{2, 3});
  if (x.rank() == 4) return x;
  const Extents& shape = x.sizes.shape;
  return c.reshape(x, {shape[0], shape[1], 1, shape[2]});
}

OnnxValue detail::from_image(OnnxConversion& c, const OnnxValue& image, int rank) {
  if (rank == 4) return image;
  const Extents& shape = image.sizes.shape;
  return c.reshape(image, {shape[0], shape[1], shape[3]});
}

Integers detail::for_both(OnnxConversion& c, const std::string& name, int places,
                          int64_t by_default) {
  Integers all = c.integers(name, Integers(size_t(places), by_default));
  c.check(std::ssize(all) == places, "its {} are {}: expected {}", name, to_string(OpValue(all)),
          counted(places, "number"));
  for (const int64_t each : all)
    c.check(each >= by_default && each < 1 << 30, "its {} are {}: expected numbers from {} on",
            name, to_string(OpValue(all)), by_default);
  if (places == 1) all.insert(all.begin(), by_default);
  return all;
}

namespace {

// The padding for ceil(size / stride) windows.
void pad_for_same(OnnxWindow& w, const OnnxValue& image, bool more_after) {
  for (size_t i : {size_t{0}, size_t{1}}) {
    const int64_t size = image.sizes.shape[2 + i].number;
    const int64_t windows = (size + w.strides[i] - 1) / w.strides[i];
    const int64_t all = std::max<int64_t>(0, (windows - 1) * w.strides[i] + w.extent(i) - size);
    w.before[i] = more_after ? all / 2 : all - all / 2;
    w.after[i] = all - w.before[i];
  }
}

}  // namespace

OnnxWindow detail::window_of(OnnxConversion& c, const OnnxValue& image, int places,
                             Integers kernel) {
  OnnxWindow w{.kernel = std::move(kernel),
               .strides = for_both(c, "strides", places, 1),
               .dilations = for_both(c, "dilations", places, 1),
               .before = {0, 0},
               .after = {0, 0}};
  const std::string rule = c.text("auto_pad", "NOTSET");
  const Integers pads = c.integers("pads", Integers(size_t(2 * places), 0));
  c.check(std::ssize(pads) == 2 * places, "its pads are {}: expected {}", to_string(OpValue(pads)),
          counted(2 * places, "number"));
  if (rule == "SAME_UPPER" || rule == "SAME_LOWER") {
    pad_for_same(w, image, rule == "SAME_UPPER");
  } else if (rule == "NOTSET") {
    for (int i = 0; i < places; ++i) {
      w.before[size_t(i + 2 - places)] = pads[size_t(i)];
      w.after[size_t(i + 2 - places)] = pads[size_t(i + places)];
    }
  } else {
    c.check(rule == "VALID",
            "its auto_pad is '{}': expected NOTSET, SAME_UPPER, SAME_LOWER or "
            "VALID",
            rule);
  }
  for (size_t i : {size_t{0}, size_t{1}})
    c.check(std::abs(w.before[i]) < 1 << 30 && std::abs(w.after[i]) < 1 << 30,
            "its pads are {}: expected small numbers", to_string(OpValue(pads)));
  return w;
}

OnnxValue detail::padded(OnnxConversion& c, const OnnxValue& image, const Integers& before,
                         const Integers& after, double value) {
  const Integers pads{before[1], after[1], before[0], after[0]};
  if (std::ranges::all_of(pads, [](int64_t each) { return each == 0; })) return image;
  Graph::Attributes attributes{{"pad", pads}};
  if (value != 0) attributes.emplace_back("value", value);
  return c.call("pad", {image}, attributes);
}

std::vector<int> detail::all_dimensions(int rank) {
  std::vector<int> dims(static_cast<size_t>(rank));
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

Integers detail::as_integers(const std::vector<int>& dims) { return {dims.begin(), dims.end()}; }

}  // namespace accrue
