#include "python/arrays.h"

#include <fmt/ranges.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "data/samples.h"
#include "kernels/judged.h"
#include "python/fetched.h"
#include "train/weights.h"

namespace accrue::python {
namespace {

void check_no_masked(nb::handle object, const char* what, const nb::module_& numpy) {
  const nb::object masked = numpy.attr("ma");
  if (!nb::isinstance(object, masked.attr("MaskedArray"))) return;
  check(
      !nb::cast<bool>(masked.attr("is_masked")(object)),
      "{} is a masked array, and masked elements are no data: expected an array without them, such "
      "as {}.filled(VALUE) or the samples that have none",
      what, what);
}

// The object, for example a list, as a NumPy array in C order and the machine's byte order.
nb::object as_numpy(nb::handle object, const char* what, const nb::module_& numpy) {
  try {
    const nb::object array = numpy.attr("ascontiguousarray")(object);
    const nb::object type = array.attr("dtype").attr("newbyteorder")("=");
    return numpy.attr("ascontiguousarray")(array, type);
  } catch (nb::python_error& error) {
    fail("{} is no array: expected anything that numpy.asarray() takes ({})", what, error.what());
  }
}

}  // namespace

Array as_array(nb::handle object, const char* what) {
  check(!object.is_none(), "{} is None: expected an array", what);
  const nb::module_ numpy = nb::module_::import_("numpy");
  check_no_masked(object, what, numpy);
  Array array;
  if (nb::try_cast(object, array)) return array;
  const nb::object converted = as_numpy(object, what, numpy);
  if (nb::try_cast(converted, array)) return array;
  const nb::object type = converted.attr("dtype"), flat = converted.attr("ravel")();
  const bool are_names = nb::len(flat) > 0 && nb::isinstance<nb::str>(flat[0]);
  fail("{} is an array of {}: expected numbers{}", what, nb::cast<std::string>(nb::str(type)),
       are_names ? fmt::format("; numpy.unique({}, return_inverse=True)[1] numbers names", what)
                 : "");
}

bool is_integers(const Array& array) {
  using enum nb::dlpack::dtype_code;
  const nb::dlpack::dtype type = array.dtype();
  return type.lanes == 1 && (type.code == uint8_t(Int) || type.code == uint8_t(UInt)) &&
         type.bits <= 64;
}
bool is_truth(const Array& array) {
  const nb::dlpack::dtype type = array.dtype();
  return type.lanes == 1 && type.code == uint8_t(nb::dlpack::dtype_code::Bool);
}

std::string described(const Array& array) {
  using enum nb::dlpack::dtype_code;
  const nb::dlpack::dtype type = array.dtype();
  const auto kind = [&]() -> std::string {
    switch (static_cast<nb::dlpack::dtype_code>(type.code)) {
      case Int: return "int";
      case UInt: return "uint";
      case Float: return "float";
      case Bfloat: return "bfloat";
      case Complex: return "complex";
      case Bool: return "bool";
      default: return fmt::format("type {} of ", type.code);
    }
  }();
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < array.ndim(); ++i) sizes.push_back(int64_t(array.shape(i)));
  return fmt::format("{} [{}]", is_truth(array) ? kind : kind + std::to_string(type.bits),
                     fmt::join(sizes, ", "));
}

Shape shape_of(const Array& array, const char* what, size_t least) {
  constexpr size_t most = Shape::max_rank;
  check(least <= array.ndim() && array.ndim() <= most, "{} is {}: expected {} to {} dimensions",
        what, described(array), least, most);
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < array.ndim(); ++i) sizes.push_back(int64_t(array.shape(i)));
  return Shape(sizes);
}

namespace {

bool has(const Array& array, nb::dlpack::dtype_code code, int bits) {
  const nb::dlpack::dtype type = array.dtype();
  return type.lanes == 1 && type.code == uint8_t(code) && type.bits == bits;
}
bool is(const Array& array, nb::dlpack::dtype_code code) {
  return array.dtype().lanes == 1 && array.dtype().code == uint8_t(code);
}

// Whether a network takes these images as they are, and not with their last dimension first.
bool has_its_channels_first(const Array& array, const Taken& taken) {
  if (!taken.images || array.ndim() != 4) return false;
  const auto size = [&](size_t i) { return int64_t(array.shape(i)); };
  return taken.images({size(0), size(1), size(2), size(3)}) &&
         !taken.images({size(0), size(3), size(1), size(2)});
}

// Channels that come last, as other libraries have them, would be taken for a width.
void check_channels_first(const Array& array, const char* what, const Taken& taken = {}) {
  const size_t rank = array.ndim();
  if (rank != 4 && !(rank == 3 && has(array, nb::dlpack::dtype_code::UInt, 8))) return;
  const auto may_be_channels = [&](size_t size) {
    return size == 3 || size == 4 || (size == 1 && rank == 4);
  };
  const size_t last = array.shape(rank - 1), before = array.shape(rank - 2);
  if (!may_be_channels(last) || last == before || has_its_channels_first(array, taken)) return;
  if (rank == 3)
    check(may_be_channels(array.shape(0)),
          "{} is {}, which looks like one image with its channels last: expected [N, H, W] or "
          "[N, C, H, W], which {}.transpose(2, 0, 1)[None] makes of it",
          what, described(array), what);
  else
    check(
        may_be_channels(array.shape(1)),
        "{} is {}, which looks like [N, H, W, C], the channels last: expected [N, C, H, W], which "
        "{}.transpose(0, 3, 1, 2) makes of it",
        what, described(array), what);
}

// A tensor over the array's elements, which keeps the array alive.
Tensor borrowed(const Array& array, const Shape& shape, DType dtype) {
  return Tensor::borrow(array.data(), kept_by_python(array), shape, dtype, Category::data);
}

template <class To, class From>
Tensor converted(const Array& array, const Shape& shape) {
  const Tensor y = Tensor::empty(shape, dtype_of<To>(), Device::cpu, Category::data);
  const auto* const x = static_cast<const From*>(array.data());
  std::transform(x, x + y.numel(), y.span<To>().begin(), [](From v) { return static_cast<To>(v); });
  return y;
}

// As f64 or f32.
Tensor numbers(const Array& array, const Shape& shape, const char* what) {
  using enum nb::dlpack::dtype_code;
  if (has(array, Float, 32)) return borrowed(array, shape, DType::f32);
  if (has(array, Float, 64)) return borrowed(array, shape, DType::f64);
  if (has(array, Bfloat, 16)) return converted<float, BFloat16>(array, shape);
  check(has(array, Float, 16), "{} is {}: expected float32, 16 or 64, or bfloat16", what,
        described(array));
  return converted<float, Half>(array, shape);
}

template <class T>
Tensor classes_of(const Array& array, std::span<const T> y, const Shape& shape, const char* what,
                  SampleShape of) {
  constexpr int64_t most = 1 << 24;
  bool are_all_judged = true;
  for (size_t i = 0; i < y.size(); ++i) {
    const bool is_judged = of != SampleShape::own || !std::cmp_equal(y[i], torch_ignored);
    are_all_judged &= is_judged;
    check(!is_judged || (std::cmp_greater_equal(y[i], 0) && std::cmp_less(y[i], most)),
          "{} is {} for sample {}: expected classes from 0 on{}", what, y[i],
          int64_t(i) / (shape.numel() / shape[0]),
          of == SampleShape::own
              ? fmt::format(", or {} for a label that counts nowhere", torch_ignored)
              : "");
  }
  Tensor classes;
  if constexpr (std::is_same_v<T, int32_t>)
    if (are_all_judged) return borrowed(array, shape, DType::i32);
  classes = converted<int32_t, T>(array, shape);
  if (!are_all_judged)
    std::ranges::replace(classes.span<int32_t>(), int32_t{torch_ignored}, not_judged);
  return classes;
}

// A class for each sample, or for each of its places or pixels. Some that a network of the caller's
// own learns may be not_judged. `has_places`: samples have some.
Field labels(const Array& array, const char* what = "y", SampleShape of = SampleShape::image,
             bool has_places = false) {
  const Shape shape = shape_of(array, what);
  const bool of_pixels = shape.rank() == 3, of_places = shape.rank() == 2 && has_places;
  check(is_integers(array), "{} is {}: expected integers, truth values, or float32", what,
        described(array));
  std::string hint;
  if (shape.rank() == 2)
    hint = fmt::format("; {}.{} makes [N] of it", what,
                       shape[1] == 1 ? "reshape(-1)" : "argmax(axis=1)");
  check(shape.rank() == 1 || of_places || of_pixels,
        "{} is {}: expected integers [N], a class for each sample, or [N, H, W], one for each "
        "pixel{}",
        what, described(array), hint);
  Tensor values = with_integers(
      array, [&](auto elements) { return classes_of(array, elements, shape, what, of); });
  const auto all = values.span<int32_t>();
  const int64_t classes = all.empty() ? 0 : int64_t{*std::ranges::max_element(all)} + 1;
  check(all.empty() || classes > 0, "{} is {} everywhere: expected some classes", what,
        torch_ignored);
  if (of_pixels) values = values.reshape({shape[0], 1, shape[1], shape[2]});
  return {.name = of_pixels ? "masks" : "labels",
          .values = values,
          .encoding = Encoding::index,
          .classes = classes,
          .has_not_judged = std::ranges::count(all, not_judged) > 0};
}

// Whether something is there, for each pixel.
Field masks(const Array& array, const char* what) {
  const Shape shape = shape_of(array, what);
  const int rank = shape.rank();
  check(rank == 3 || rank == 4, "{} is {}: expected masks, bool [N, H, W] or [N, K, H, W]{}", what,
        described(array),
        rank == 1 ? fmt::format("; {}.astype(int) is the classes 0 and 1", what)
        : rank == 2
            ? fmt::format("; {}.argmax(axis=1) is the classes of rows with one truth each", what)
            : "");
  check_channels_first(array, what);
  const Tensor values = Tensor::empty(shape, DType::u8, Device::cpu, Category::data);
  const auto* const y = static_cast<const bool*>(array.data());
  std::transform(y, y + shape.numel(), values.span<uint8_t>().begin(),
                 [](bool is_there) -> uint8_t { return is_there ? 255 : 0; });
  return {.name = "masks",
          .values = rank == 3 ? values.reshape({shape[0], 1, shape[1], shape[2]}) : values,
          .encoding = Encoding::mask};
}

Field answers(const Array& array, const Taken& taken, const char* what = "y",
              bool has_places = false) {
  using enum nb::dlpack::dtype_code;
  if (is_truth(array)) return masks(array, what);
  if (!is(array, Float) && !is(array, Bfloat))
    return labels(array, what, taken.shape, has_places && taken.shape == SampleShape::own);
  const Shape shape = shape_of(array, what);
  check(taken.shape == SampleShape::own,
        "{} is {}, numbers to answer with, which networks of layers learn (Sequential): expected "
        "integers [N], classes from 0 on{}, or masks",
        what, described(array),
        shape.rank() == 2 ? fmt::format(", as {}.argmax(axis=1) makes of one 1 in each row", what)
                          : "");
  check_channels_first(array, what);
  Tensor values = numbers(array, shape, what);
  if (values.shape().rank() == 1) values = values.reshape({values.size(0), 1});
  return {.name = "targets", .values = values, .encoding = Encoding::number};
}

Field seen(const Array& array, const Taken& taken, const char* what = "x") {
  using enum nb::dlpack::dtype_code;
  const Shape shape = shape_of(array, what);
  const int rank = shape.rank();
  check_channels_first(array, what, taken);
  if (is(array, Float) || is(array, Bfloat)) {
    Tensor values = numbers(array, shape, what);
    check(rank >= 2, "{} is {}: expected [N, ...], the samples one below the other", what,
          described(array));
    if (taken.shape == SampleShape::image) {
      check(rank <= 4, "{} is {}: expected [N, D], [N, H, W] or [N, C, H, W]", what,
            described(array));
      if (rank == 2) values = values.reshape({shape[0], 1, 1, shape[1]});
      if (rank == 3) values = values.reshape({shape[0], 1, shape[1], shape[2]});
    }
    return {.name = "images", .values = values, .encoding = Encoding::number};
  }
  check(has(array, UInt, 8) && (rank == 3 || rank == 4),
        "{} is {}: expected float32 [N, ...], or uint8 [N, H, W] or [N, C, H, W], the pixels of "
        "images{}",
        what, described(array),
        is_integers(array) && rank <= 2
            ? "; tokens come as (tokens, learned), where learned is bool, True to learn a token"
            : "");
  Tensor values = borrowed(array, shape, DType::u8);
  if (rank == 3) values = values.reshape({shape[0], 1, shape[1], shape[2]});
  return {.name = "images", .values = values, .encoding = Encoding::pixel};
}

}  // namespace

Field seen_by_name(const Array& array, const std::string& name) {
  const Shape own = shape_of(array, name.c_str());
  // Whoever asks knows the shape that is expected.
  Field field =
      seen(array, {SampleShape::own, [own](const Shape& s) { return s == own; }}, name.c_str());
  field.name = name;
  return field;
}

Field answered_by_name(const Array& array, const std::string& name) {
  Field field = answers(array, {SampleShape::own}, name.c_str(), true);
  field.name = name;
  return field;
}

Dataset dataset_of(nb::handle x, nb::handle y, const Taken& taken) {
  Dataset data{.name = name_of_given({x, y}), .source = "the caller"};
  data.fields.push_back(field_in(x, "x", [&](const Array& a) { return seen(a, taken); }));
  if (!y.is_none()) {
    const bool has_places = data.fields[0].values.shape().rank() > 2;
    data.fields.push_back(
        field_in(y, "y", [&](const Array& a) { return answers(a, taken, "y", has_places); }));
    const int64_t N = data.fields[0].values.size(0), answered = data.fields[1].values.size(0);
    check(N == answered, "x has {}, but y has {}: expected the same number", counted(N, "sample"),
          answered);
  }
  return data;
}

Dataset glyphs_of(nb::handle sources, nb::handle targets, nb::handle styles) {
  Dataset data{.name = "arrays", .source = "the caller"};
  const auto add = [&](Field field, const char* name) {
    field.name = name;
    data.fields.push_back(std::move(field));
  };
  add(seen(as_array(sources, "sources"), {}, "sources"), "sources");
  const Shape shape = data.fields[0].values.shape();
  if (!targets.is_none()) {
    add(seen(as_array(targets, "targets"), {}, "targets"), "targets");
    const Shape& drawn = data.fields[1].values.shape();
    check(shape == drawn, "sources are {}, but targets are {}: expected the same shape", shape,
          drawn);
  }
  add(labels(as_array(styles, "styles"), "styles"), "styles");
  const Shape& numbers = data.fields.back().values.shape();
  check(numbers == Shape{shape[0]}, "sources are {}, but styles are {}: expected [{}]", shape,
        numbers, shape[0]);
  return data;
}

Dataset dataset_of(nb::handle arrays, const char* what, const Taken& taken) {
  check(nb::isinstance<nb::tuple>(arrays) || nb::isinstance<nb::list>(arrays),
        "{} is neither a name nor (x, y) nor integers [L] or [N, T], tokens", what);
  if (nb::len(arrays) == 3) return glyphs_of(arrays[0], arrays[1], arrays[2]);
  check(nb::len(arrays) == 2,
        "{} has {} arrays: expected x and y, or for glyphs sources, targets and styles", what,
        nb::len(arrays));
  check(!arrays[1].is_none(),
        "y is None: expected {}=(x, y), arrays of samples and of their answers", what);
  return dataset_of(arrays[0], arrays[1], taken);
}

Datasets datasets_of(nb::handle data, nb::handle test, const Taken& taken) {
  Datasets both{dataset_of(data, "data", taken), {}};
  both.test = test.is_none() ? dataset_of(data, "data", taken) : dataset_of(test, "test", taken);
  both.test.is_trained_on = test.is_none();
  const auto kinds = [](const Dataset& set) {
    std::vector<std::string> all;
    for (const Field& field : set.fields)
      all.push_back(fmt::format("{} {}", name(stored_dtype(field.encoding)), field.name));
    return fmt::format("{}", fmt::join(all, ", "));
  };
  check(kinds(both.train) == kinds(both.test),
        "data has {}, but test has {}: expected arrays of the same kinds", kinds(both.train),
        kinds(both.test));
  for (size_t i = 0; i < both.train.fields.size(); ++i) {
    const int64_t classes = std::max(both.train.fields[i].classes, both.test.fields[i].classes);
    both.train.fields[i].classes = both.test.fields[i].classes = classes;
    const bool has_not_judged =
        both.train.fields[i].has_not_judged || both.test.fields[i].has_not_judged;
    both.train.fields[i].has_not_judged = both.test.fields[i].has_not_judged = has_not_judged;
  }
  return both;
}

void round_numbers(Dataset& data, DType dtype) {
  if (dtype == DType::f64) return;
  for (Field& field : data.fields) {
    if (field.values.dtype() != DType::f64) continue;
    if (!field.read) {
      field.values = as_f32(field.values);
      continue;
    }
    field.values = Tensor::without_elements(field.values.shape(), DType::f32, Device::cpu);
    field.read = [read = std::move(field.read)](std::span<std::byte> row, int64_t n) {
      const auto to = elements_of<float>(row);
      std::vector<double> wide(to.size());
      read(std::as_writable_bytes(std::span(wide)), n);
      std::ranges::transform(wide, to.begin(), [](double v) { return static_cast<float>(v); });
    };
  }
}

Field weights_of(nb::handle weights, int64_t N) {
  const Array array = as_array(weights, "sample_weight");
  const Shape shape = shape_of(array, "sample_weight");
  check(shape == Shape{N}, "sample_weight is {}: expected [{}], one for each sample",
        described(array), N);
  Tensor values = is_integers(array)
                      ? with_integers(array,
                                      [&](auto elements) {
                                        std::vector<float> floats(elements.begin(), elements.end());
                                        return Tensor::from(floats, shape);
                                      })
                      : as_f32(numbers(array, shape, "sample_weight"));
  double sum = 0;
  for (const float weight : values.span<float>()) {
    check(weight >= 0 && std::isfinite(weight),
          "sample_weight has {}: expected finite numbers that are not negative", weight);
    sum += double(weight);
  }
  check(sum > 0, "sample_weight is 0 for each sample: expected some above 0");
  return {.name = "weights", .values = values, .encoding = Encoding::weight};
}

Field even_weights(int64_t N) {
  return {.name = "weights",
          .values = Tensor::full({N}, 1, DType::f32, Device::cpu),
          .encoding = Encoding::weight};
}

void append_weights(Datasets& data, nb::handle weights, const std::string& name) {
  auto& [train, scored] = data;
  // Two tensors, as of all other fields.
  train.fields.push_back(weights_of(weights, train.size()));
  scored.fields.push_back(scored.is_trained_on ? weights_of(weights, train.size())
                                               : even_weights(scored.size()));
  train.fields.back().name = scored.fields.back().name = name;
}

nb::object array_of(const Tensor& tensor) {
  const Tensor x = tensor.dtype() == DType::bf16 ? as_f32(tensor) : tensor;
  const auto sizes = x.shape().sizes();
  const std::vector<size_t> shape(sizes.begin(), sizes.end());
  auto* const kept = new Tensor(x);
  const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<Tensor*>(p); });
  nb::dlpack::dtype type = nb::dtype<float>();
  switch (x.dtype()) {
    case DType::f64: type = nb::dtype<double>(); break;
    case DType::i32: type = nb::dtype<int32_t>(); break;
    case DType::u8: type = nb::dtype<uint8_t>(); break;
    case DType::f16: type = {uint8_t(nb::dlpack::dtype_code::Float), 16, 1}; break;
    default: check(x.dtype() == DType::f32, "{} has no type in NumPy", name(x.dtype()));
  }
  void* const elements = x.view().data;
  return nb::cast(
      nb::ndarray<nb::numpy>(elements, shape.size(), shape.data(), owner, nullptr, type));
}

nb::dict arrays_of(const NamedTensors& tensors, Elements elements) {
  nb::dict arrays;
  for (const auto& [name, tensor] : tensors) {
    const nb::object array = array_of(tensor);
    arrays[name.c_str()] = elements == Elements::copied ? array.attr("copy")() : array;
  }
  return arrays;
}

NamedTensors tensors_of(const nb::dict& arrays) {
  NamedTensors tensors;
  for (const auto& [key, value] : arrays) {
    check(nb::isinstance<nb::str>(key), "weights have the key {}: expected names, as text",
          nb::cast<std::string>(nb::repr(key)));
    const std::string name = nb::cast<std::string>(key);
    if (!is_weight(name)) continue;
    const Array array = as_array(value, name.c_str());
    tensors.emplace_back(name, numbers(array, shape_of(array, name.c_str(), 0), name.c_str()));
  }
  return tensors;
}

void assign(const nb::dict& arrays, const std::string& what, const Parameters& parameters) {
  const NamedTensors given = tensors_of(arrays);
  check_weights_fit(what, given, parameters);
  const std::map<std::string, Tensor> by_name(given.begin(), given.end());
  for (const auto& [name, tensor] : named_tensors(parameters))
    copy_converted(tensor, by_name.at(name));
}

}  // namespace accrue::python
