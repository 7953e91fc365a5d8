#include "python/arrays.h"

#include <nanobind/stl/string.h>

#include <algorithm>

namespace accrue::python {
Array as_array(nb::handle object, const char* what) {
  Array array;
  if (nb::try_cast(object, array)) return array;
  // Lists, for example.
  nb::object converted;
  try {
    converted = nb::module_::import_("numpy").attr("ascontiguousarray")(object);
  } catch (nb::python_error& error) {
    fail("{} is no array: expected anything that numpy.asarray() takes ({})", what, error.what());
  }
  check(nb::try_cast(converted, array),
        "{} is an array that numpy holds as objects: expected numbers", what);
  return array;
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

namespace {

Shape shape_of(const Array& array, const char* what) {
  check(array.ndim() >= 1 && array.ndim() <= 5, "{} has {} dimensions: expected 1 to 5", what,
        array.ndim());
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < array.ndim(); ++i) sizes.push_back(int64_t(array.shape(i)));
  return Shape(sizes);
}

bool has(const Array& array, nb::dlpack::dtype_code code, int bits) {
  const nb::dlpack::dtype type = array.dtype();
  return type.lanes == 1 && type.code == uint8_t(code) && type.bits == bits;
}
bool is(const Array& array, nb::dlpack::dtype_code code) {
  return array.dtype().lanes == 1 && array.dtype().code == uint8_t(code);
}

// The array lives as long as the tensor.
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

// [N, ...] as f32.
Tensor numbers(const Array& array, const char* what) {
  using enum nb::dlpack::dtype_code;
  const Shape shape = shape_of(array, what);
  if (has(array, Float, 32)) return borrowed(array, shape, DType::f32);
  if (has(array, Float, 64)) return converted<float, double>(array, shape);
  check(has(array, Float, 16), "{} is an array of another type: expected float16, 32 or 64", what);
  return converted<float, Half>(array, shape);
}

template <class T>
Tensor classes_of(const Array& array, std::span<const T> y, const Shape& shape, const char* what) {
  constexpr int64_t most = 1 << 24;
  for (size_t i = 0; i < y.size(); ++i)
    check(std::cmp_greater_equal(y[i], 0) && std::cmp_less(y[i], most),
          "{} is {} for sample {}: expected classes from 0 on", what, y[i],
          int64_t(i) / (shape.numel() / shape[0]));
  if constexpr (std::is_same_v<T, int32_t>) return borrowed(array, shape, DType::i32);
  else return converted<int32_t, T>(array, shape);
}

// A class for each sample, or for each of its pixels.
Field labels(const Array& array, const char* what = "y") {
  const Shape shape = shape_of(array, what);
  const bool of_pixels = shape.rank() == 3;
  check(shape.rank() == 1 || of_pixels,
        "{} has integers in the shape {}: expected [N], a class for each sample, or [N, H, W], one "
        "for each pixel",
        what, shape);
  check(is_integers(array),
        "{} is an array of another type: expected integers, truth values, or float32", what);
  Tensor values =
      with_integers(array, [&](auto elements) { return classes_of(array, elements, shape, what); });
  const auto all = values.span<int32_t>();
  const int64_t classes = all.empty() ? 0 : int64_t{*std::ranges::max_element(all)} + 1;
  if (of_pixels) values = values.reshape({shape[0], 1, shape[1], shape[2]});
  return {.name = of_pixels ? "masks" : "labels",
          .values = values,
          .encoding = Encoding::index,
          .classes = classes};
}

// Whether something is there, for each pixel.
Field masks(const Array& array) {
  const Shape shape = shape_of(array, "y");
  const int rank = shape.rank();
  check(rank == 3 || rank == 4,
        "y has truth values in the shape {}: expected [N, H, W] or [N, K, H, W]", shape);
  const Tensor values = Tensor::empty(shape, DType::u8, Device::cpu, Category::data);
  const auto* const y = static_cast<const bool*>(array.data());
  std::transform(y, y + shape.numel(), values.span<uint8_t>().begin(),
                 [](bool is_there) -> uint8_t { return is_there ? 255 : 0; });
  return {.name = "masks",
          .values = rank == 3 ? values.reshape({shape[0], 1, shape[1], shape[2]}) : values,
          .encoding = Encoding::mask};
}

Field answers(const Array& array) {
  using enum nb::dlpack::dtype_code;
  if (is_truth(array)) return masks(array);
  if (!is(array, Float)) return labels(array);
  Tensor values = numbers(array, "y");
  if (values.shape().rank() == 1) values = values.reshape({values.size(0), 1});
  return {.name = "targets", .values = values, .encoding = Encoding::number};
}

Field seen(const Array& array, SampleShape wanted, const char* what = "x") {
  using enum nb::dlpack::dtype_code;
  const Shape shape = shape_of(array, what);
  const int rank = shape.rank();
  if (is(array, Float)) {
    Tensor values = numbers(array, what);
    check(rank >= 2, "{} is {}: expected [N, ...], the samples one below the other", what, shape);
    if (wanted == SampleShape::image) {
      check(rank <= 4, "{} is {}: expected [N, D], [N, H, W] or [N, C, H, W]", what, shape);
      if (rank == 2) values = values.reshape({shape[0], 1, 1, shape[1]});
      if (rank == 3) values = values.reshape({shape[0], 1, shape[1], shape[2]});
    }
    return {.name = "images", .values = values, .encoding = Encoding::number};
  }
  check(has(array, UInt, 8) && (rank == 3 || rank == 4),
        "{} is {}: expected float32 [N, ...], or uint8 [N, H, W] or [N, C, H, W], the pixels of "
        "images",
        what, shape);
  Tensor values = borrowed(array, shape, DType::u8);
  if (rank == 3) values = values.reshape({shape[0], 1, shape[1], shape[2]});
  return {.name = "images", .values = values, .encoding = Encoding::pixel};
}

}  // namespace

Dataset dataset_of(nb::handle x, nb::handle y, SampleShape shape) {
  Dataset data{.name = "arrays", .source = "the caller"};
  data.fields.push_back(seen(as_array(x, "x"), shape));
  if (!y.is_none()) {
    data.fields.push_back(answers(as_array(y, "y")));
    const int64_t N = data.fields[0].values.size(0), answered = data.fields[1].values.size(0);
    check(N == answered, "x has {}, but y has {}: expected as many", counted(N, "sample"),
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
  add(seen(as_array(sources, "sources"), SampleShape::image, "sources"), "sources");
  const Shape shape = data.fields[0].values.shape();
  if (!targets.is_none()) {
    add(seen(as_array(targets, "targets"), SampleShape::image, "targets"), "targets");
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

Dataset dataset_of(nb::handle arrays, const char* what, SampleShape shape) {
  check(nb::isinstance<nb::tuple>(arrays) || nb::isinstance<nb::list>(arrays),
        "{} is neither a name nor (x, y) nor integers [L] or [N, T], tokens", what);
  if (nb::len(arrays) == 3) return glyphs_of(arrays[0], arrays[1], arrays[2]);
  check(nb::len(arrays) == 2,
        "{} has {} arrays: expected x and y, or of glyphs sources, targets and styles", what,
        nb::len(arrays));
  return dataset_of(arrays[0], arrays[1], shape);
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

nb::dict arrays_of(const NamedTensors& tensors) {
  nb::dict arrays;
  for (const auto& [name, tensor] : tensors) arrays[name.c_str()] = array_of(tensor);
  return arrays;
}

NamedTensors tensors_of(const nb::dict& arrays) {
  NamedTensors tensors;
  for (const auto& [key, value] : arrays) {
    const std::string name = nb::cast<std::string>(key);
    tensors.emplace_back(name, numbers(as_array(value, name.c_str()), name.c_str()));
  }
  return tensors;
}

}  // namespace accrue::python
