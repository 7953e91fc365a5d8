#include "onnx/reader/conversion.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/dtype.h"
#include "core/inside.h"
#include "onnx/reader/recipe.h"

namespace accrue {

// OnnxConstant

namespace {

// The number as one of the type.
double rounded(OnnxType type, double x) {
  switch (type) {
    case OnnxType::f64: return x;
    case OnnxType::f16: return double(float(Half(float(x))));
    case OnnxType::bf16: return double(float(BFloat16(float(x))));
    case OnnxType::f32: return double(float(x));
    case OnnxType::boolean: return x != 0 ? 1 : 0;
    default: return std::trunc(x);
  }
}

std::vector<double> rounded(OnnxType type, std::vector<double> numbers) {
  for (double& each : numbers) each = rounded(type, each);
  return numbers;
}

bool are_equal(const std::vector<double>& a, const std::vector<double>& b) {
  return std::ranges::equal(
      a, b, [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

}  // namespace

OnnxConstant::OnnxConstant(OnnxTensor tensor)
    : type_(tensor.type), shapes_{tensor.shape, tensor.shape}, initializer_(std::move(tensor)) {}

OnnxConstant::OnnxConstant(OnnxType type, const Shape& shape, std::vector<double> numbers)
    : type_(type), shapes_{shape, shape} {
  check(std::ssize(numbers) == shape.numel(), "a constant {} has {} numbers", shape,
        numbers.size());
  numbers_[0] = std::make_shared<const std::vector<double>>(rounded(type, std::move(numbers)));
  numbers_[1] = numbers_[0];
}

OnnxConstant::OnnxConstant(OnnxType type, std::array<Shape, 2> shapes,
                           std::array<std::vector<double>, 2> numbers)
    : type_(type), shapes_(shapes) {
  for (const size_t i : {size_t{0}, size_t{1}}) {
    check(std::ssize(numbers[i]) == shapes[i].numel(), "a constant {} has {} numbers", shapes[i],
          numbers[i].size());
    numbers_[i] = std::make_shared<const std::vector<double>>(rounded(type, std::move(numbers[i])));
  }
  if (shapes_[0] == shapes_[1] && are_equal(*numbers_[0], *numbers_[1])) numbers_[1] = numbers_[0];
}

const std::vector<double>& OnnxConstant::numbers(size_t i) const {
  if (!numbers_[i]) {
    numbers_[0] = std::make_shared<const std::vector<double>>(initializer_->numbers());
    numbers_[1] = numbers_[0];
  }
  return *numbers_[i];
}

bool OnnxConstant::is_fixed() const { return initializer_ || numbers_[0] == numbers_[1]; }

// OnnxConversion

OnnxConversion::OnnxConversion(const OnnxNode& node, OnnxValues inputs, OnnxRecipe& recipe)
    : node(node), inputs_(std::move(inputs)), recipe_(recipe) {}

int64_t OnnxConversion::opset() const { return recipe_.opset; }

bool OnnxConversion::has(size_t i) const {
  return i < inputs_.size() && (inputs_[i].is_constant() || inputs_[i].number != OnnxValue::none);
}

bool OnnxConversion::needs(size_t output) const {
  return output < node.outputs.size() && !node.outputs[output].empty();
}

const OnnxValue& OnnxConversion::operator[](size_t i) const {
  check(has(i), "its input {} is left out: expected it", i);
  return inputs_[i];
}

// Attributes

const OnnxAttribute* OnnxConversion::find(const std::string& attribute) {
  asked_.push_back(attribute);
  const auto found = node.attributes.find(attribute);
  return found == node.attributes.end() ? nullptr : &found->second;
}

bool OnnxConversion::has(const std::string& attribute) { return find(attribute) != nullptr; }

// Sizes and places are below 2^31 (OnnxWalk::add()), so that beyond it is beyond all of them. Sums
// and products of two then fit into 64 bits.
int64_t detail::onnx_integer(double number) {
  check(!std::isnan(number), "it has NaN as an integer: expected a number");
  return int64_t(std::clamp(number, -0x1p31, 0x1p31));
}

int64_t OnnxConversion::integer(const std::string& attribute, int64_t by_default) {
  find(attribute);
  return onnx_integer(double(node.integer(attribute, by_default)));
}

double OnnxConversion::number(const std::string& attribute, double by_default) {
  find(attribute);
  return node.number(attribute, by_default);
}

std::string OnnxConversion::text(const std::string& attribute, const std::string& by_default) {
  find(attribute);
  return node.text(attribute, by_default);
}

Integers OnnxConversion::integers(const std::string& attribute, Integers by_default) {
  find(attribute);
  Integers all = node.integers(attribute, std::move(by_default));
  for (int64_t& each : all) each = onnx_integer(double(each));
  return all;
}

int OnnxConversion::dimension(int64_t axis, int rank) const {
  check(axis >= -rank && axis < rank, "axis is {} of a tensor of {}: expected one that is there",
        axis, counted(rank, "dimension"));
  return int(axis < 0 ? axis + rank : axis);
}

int OnnxConversion::dimension(const std::string& attribute, int64_t by_default, size_t i) {
  return dimension(integer(attribute, by_default), rank(i));
}

const OnnxTensor& OnnxConversion::tensor(const std::string& attribute) {
  const OnnxAttribute* const found = find(attribute);
  const OnnxTensor* const value = found ? std::get_if<OnnxTensor>(found) : nullptr;
  check(value != nullptr, "its attribute '{}' is {}: expected a tensor", attribute,
        found ? "of another kind" : "left out");
  return *value;
}

void OnnxConversion::pass_over(const std::string& attribute) { find(attribute); }

void OnnxConversion::expect(const std::string& attribute, int64_t value) {
  const int64_t given = integer(attribute, value);
  check(given == value, "its attribute '{}' is {}: expected {}", attribute, given, value);
}

void OnnxConversion::check_attributes() const {
  for (const auto& [name, value] : node.attributes)
    check(std::ranges::find(asked_, name) != asked_.end(),
          "its attribute '{}' is not understood: expected a node without it", name);
}

// Constants

std::vector<double> OnnxConversion::numbers(size_t i) const {
  const OnnxValue& value = (*this)[i];
  check(value.is_constant(),
        "its input {} depends on {}: expected a constant, because sizes and places must be known "
        "before there are samples",
        i, value.is_parameter ? "weights" : "the data");
  check(value.constant->is_fixed(),
        "its input {} depends on the number of samples: expected the same for any number", i);
  return value.constant->numbers();
}

Integers OnnxConversion::integers(size_t i) const {
  Integers all;
  for (const double each : numbers(i)) all.push_back(onnx_integer(each));
  return all;
}

double OnnxConversion::number(size_t i) const {
  const std::vector<double> all = numbers(i);
  check(all.size() == 1, "its input {} has {}: expected one", i,
        counted(std::ssize(all), "number"));
  return all.front();
}

Extents OnnxConversion::extents(size_t i) const {
  const OnnxValue& value = (*this)[i];
  if (!value.is_constant()) numbers(i);  // throws Error
  const auto &few = value.constant->numbers(0), &many = value.constant->numbers(1);
  check(few.size() == many.size(),
        "its input {} has as many elements as the samples: expected a shape", i);
  Extents extents;
  for (size_t k = 0; k < few.size(); ++k) {
    const auto extent = extent_of(onnx_integer(few[k]), onnx_integer(many[k]));
    check(extent.has_value(),
          "its input {} holds {} for {} samples and {} for {}: expected numbers that are the same, "
          "or multiples of the samples",
          i, few[k], rehearsed_samples[0], many[k], rehearsed_samples[1]);
    extents.push_back(*extent);
  }
  return extents;
}

std::optional<Integers> OnnxConversion::integers_of(const std::string& attribute, size_t input) {
  if (has(input)) return integers(input);
  if (!has(attribute)) return std::nullopt;
  return integers(attribute, Integers{});
}

// Sizes

int64_t OnnxConversion::size(size_t i, int dim) const {
  const Extent extent = sizes(i).at(size_t(dimension(int64_t(dim), rank(i))));
  check(!extent.per_sample,
        "size {} of its input {} depends on the number of samples: expected the same for any", dim,
        i);
  return extent.number;
}

Extents OnnxConversion::with_samples(Extents sizes) const {
  if (!sizes.empty() && recipe_.fixed_samples && sizes.front() == Extent(*recipe_.fixed_samples))
    sizes.front() = Extent::of_samples();
  return sizes;
}

OnnxValue OnnxConversion::for_each_sample(size_t i) const {
  const OnnxValue& value = (*this)[i];
  const int64_t samples = recipe_.fixed_samples.value_or(1);
  const bool has_rows = samples > 1 && value.is_constant() && value.constant->is_fixed() &&
                        value.rank() > 0 && value.sizes.shape.front() == Extent(samples);
  const auto is_of_samples = [&](const OnnxValue& other) {
    return other.rank() == value.rank() && samples_dimension(other) == 0;
  };
  if (!has_rows || std::ranges::none_of(inputs_, is_of_samples)) return value;
  const OnnxConstant& constant = *value.constant;
  const std::vector<double>& numbers = constant.numbers();
  const auto row = std::ptrdiff_t(numbers.size()) / samples;
  for (std::ptrdiff_t k = row; k < std::ssize(numbers); ++k) {
    const double first = numbers[size_t(k % row)], each = numbers[size_t(k)];
    if (each != first && !(std::isnan(each) && std::isnan(first))) return value;
  }
  return onnx_value_of(
      std::make_shared<const OnnxConstant>(constant.type(), constant.shape().with(0, 1),
                                           std::vector(numbers.begin(), numbers.begin() + row)),
      value.name);
}

std::optional<int> OnnxConversion::samples_dimension(const OnnxValue& value) {
  const Extents& sizes = value.sizes.shape;
  const auto found = std::ranges::find(sizes, true, &Extent::per_sample);
  if (found == sizes.end()) return std::nullopt;
  return int(found - sizes.begin());
}

void OnnxConversion::keep_apart(const OnnxValue& value, const std::vector<int>& dims) const {
  const auto samples = samples_dimension(value);
  check(!samples || std::ranges::find(dims, *samples) == dims.end(),
        "it acts along dimension {} of {}, across samples, so that the result would depend on the "
        "split into micro-batches: expected calls within a sample",
        samples.value_or(0), to_string(value.sizes));
}

// Calls

OnnxValues OnnxConversion::call(std::string_view op, const OnnxValues& operands, size_t results,
                                const Graph::Attributes& attributes) {
  std::string scope = node.name;
  if (scope.empty())
    for (const std::string& output : node.outputs)
      if (scope.empty()) scope = output;
  return recipe_.call(op, operands, results, attributes, scope);
}

OnnxValue OnnxConversion::call(std::string_view op, const OnnxValues& operands,
                               const Graph::Attributes& attributes) {
  return call(op, operands, 1, attributes).front();
}

namespace {

int64_t product(const Extents& sizes, size_t begin, size_t end) {
  int64_t product = 1;
  for (size_t i = begin; i < end; ++i)
    check(!__builtin_mul_overflow(product, sizes[i].number, &product) &&
              product > -(int64_t{1} << 48) && product < int64_t{1} << 48,
          "{} has more elements than memory: expected a smaller shape", to_string(OpValue(sizes)));
  return product;
}

// The shape with the rest in the place of -1, if sizes are multiples of the samples or not.
void find_rest(const OnnxConversion& c, const OnnxValue& x, Extents& shape) {
  const auto rest = std::ranges::find(shape, Extent(-1));
  const int64_t elements = product(x.sizes.shape, 0, x.sizes.shape.size());
  const bool grows = OnnxConversion::samples_dimension(x).has_value();
  if (rest != shape.end()) {
    *rest = Extent(1);
    const bool has_samples = std::ranges::find(shape, true, &Extent::per_sample) != shape.end();
    const int64_t others = product(shape, 0, shape.size());
    c.check(others != 0 && elements % others == 0 &&
                std::ranges::find(shape, Extent(-1)) == shape.end(),
            "{} becomes {}, with one size for the rest: expected as many elements",
            to_string(x.sizes), to_string(OpValue(shape)));
    *rest =
        grows && !has_samples ? Extent::of_samples(elements / others) : Extent(elements / others);
  }
  const auto times = std::ranges::count(shape, true, &Extent::per_sample);
  c.check(product(shape, 0, shape.size()) == elements && times == int(grows),
          "{} becomes {}: expected as many elements for any number of samples", to_string(x.sizes),
          to_string(OpValue(shape)));
}

// How the elements of a value with samples lie: all turns of the samples, one after the other, and
// what a sample has in each turn.
struct Turns {
  int64_t count, inside;

  explicit Turns(const OnnxValue& x) {
    const Extents& sizes = x.sizes.shape;
    const auto samples = size_t(*OnnxConversion::samples_dimension(x));
    count = product(sizes, 0, samples) * x.outer;
    inside = product(sizes, samples, sizes.size()) / x.outer;
  }
};

// A shape as the file says it, for its number of samples, with N in one of the sizes for which the
// samples of x stay apart. It is the first size if that is the number itself. Else it is the rest
// (-1) if a sample's elements lie together in it, else a size that is the number, else one before
// the last. The shape stays as it is if no size will do.
Extents shape_with_samples(const OnnxValue& x, int64_t samples, const Extents& said) {
  const Turns turns(x);
  Extents shape = said;
  const auto rest = std::ranges::find(shape, Extent(-1));
  if (rest != shape.end()) {
    *rest = Extent(1);
    const int64_t others = std::max<int64_t>(product(shape, 0, shape.size()), 1);
    *rest = Extent(turns.count * turns.inside * samples / others);
  }
  if (product(shape, 0, shape.size()) != turns.count * turns.inside * samples) return said;
  std::optional<std::pair<int, size_t>> best;  // what it is, and where
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t first = product(shape, 0, i), last = product(shape, i + 1, shape.size());
    if (first == 0 || last == 0 || turns.count % first != 0 || turns.inside % last != 0) continue;
    const bool is_rest = shape.begin() + std::ptrdiff_t(i) == rest && turns.count == first,
               is_number = shape[i] == Extent(samples), is_last = i + 1 == shape.size();
    const int what = is_number && i == 0 ? 0 : is_rest ? 1 : is_number ? 2 : is_last ? 4 : 3;
    // Among sizes that are multiples, the last one has the fewest turns within it.
    if (!best || what < best->first || (what == 3 && what == best->first)) best = {what, i};
  }
  if (best) shape[best->second] = Extent::of_samples(shape[best->second].number / samples);
  return best ? shape : said;
}

}  // namespace

OnnxValue OnnxConversion::reshape(const OnnxValue& x, Extents shape) {
  const auto before = samples_dimension(x);
  if (before && recipe_.fixed_samples &&
      std::ranges::find(shape, true, &Extent::per_sample) == shape.end())
    shape = shape_with_samples(x, *recipe_.fixed_samples, shape);
  find_rest(*this, x, shape);
  if (x.sizes.shape == shape) return x;
  OnnxValue y = call("reshape", {x}, {{"shape", shape}});
  y.type = x.type;
  if (!before) return y;
  const auto place = size_t(*samples_dimension(y));
  const auto [turns, inside] = Turns(x);
  const int64_t first = product(shape, 0, place), last = product(shape, place + 1, shape.size());
  if (first == 0 || last == 0) return y;  // without elements
  check(turns % first == 0 && inside % last == 0,
        "{} becomes {}, which mixes samples: expected a shape that keeps them apart",
        to_string(x.sizes), to_string(y.sizes));
  y.outer = turns / first;
  return y;
}

OnnxValue OnnxConversion::constant(std::vector<double> numbers, const Shape& shape,
                                   OnnxType type) const {
  return onnx_value_of(std::make_shared<const OnnxConstant>(type, shape, std::move(numbers)));
}

OnnxValue OnnxConversion::as_numbers(const OnnxValue& value) {
  if (!value.is_whole()) return value;
  if (value.is_constant()) {
    const OnnxConstant& c = *value.constant;
    return onnx_value_of(std::make_shared<const OnnxConstant>(
        OnnxType::f32, std::array{c.shape(0), c.shape(1)}, std::array{c.numbers(0), c.numbers(1)}));
  }
  check(value.type == OnnxType::boolean,
        "it calculates with integers of the data: expected them as indices alone, or as truth "
        "values");
  // A table of two rows turns indices into numbers.
  const Extents shape = value.sizes.shape;
  OnnxValue y = call("embedding", {value, constant({0, 1}, {2, 1})});
  y = reshape(y, shape);
  y.type = OnnxType::f32;
  return y;
}

OnnxValue OnnxConversion::typed(OnnxValue value, OnnxType type) {
  value.type = type;
  return value;
}

OnnxValue OnnxConversion::buffer(size_t i) {
  const OnnxValue& value = (*this)[i];
  check(value.is_constant() && value.constant->is_fixed(),
        "its input {} is no constant: expected running statistics that the file holds", i);
  const OnnxTensor* const initializer = value.constant->initializer();
  return initializer ? recipe_.held(*initializer, true) : recipe_.tensor(value);
}

void OnnxConversion::note(const std::string& sentence) { recipe_.note(sentence); }

void OnnxConversion::fail(const std::string& why) const { throw Error(why); }

}  // namespace accrue
