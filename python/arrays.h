#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/inside.h"
#include "core/parameters.h"
#include "data/dataset.h"
#include "data/safetensors.h"

namespace accrue::python {

namespace nb = nanobind;

// PyTorch's number for a label that counts nowhere.
constexpr int64_t torch_ignored = -100;

using Array = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

// Takes anything with DLPack or a buffer, else anything that numpy.asarray() takes, converted to
// the machine's byte order. Throws Error, which begins with `what`, for other objects and for
// arrays with masked elements.
Array as_array(nb::handle object, const char* what);
bool is_integers(const Array& array);
bool is_truth(const Array& array);
// "int64 [8, 12]"
std::string described(const Array& array);
// Throws Error, which names `what`, unless there are `least` dimensions or more, and as many as a
// tensor may have at most.
Shape shape_of(const Array& array, const char* what, size_t least = 1);

// A pointer to a value whose destructor needs the interpreter: acquires the GIL to delete the
// value, and never deletes it after the interpreter's end.
template <class T>
std::shared_ptr<const T> kept_by_python(T value) {
  return {new T(std::move(value)), [](const T* kept) {
            if (!nb::is_alive()) return;
            const nb::gil_scoped_acquire gil;
            delete kept;
          }};
}

// Returns work(elements), where `elements` is a span of the array's integers in their own type.
template <class Work>
auto with_integers(const Array& array, const Work& work) {
  const auto as = [&]<class T>(T) {
    return work(std::span(static_cast<const T*>(array.data()), array.size()));
  };
  const bool is_signed = array.dtype().code == uint8_t(nb::dlpack::dtype_code::Int);
  switch (array.dtype().bits) {
    case 8: return is_signed ? as(int8_t{}) : as(uint8_t{});
    case 16: return is_signed ? as(int16_t{}) : as(uint16_t{});
    case 32: return is_signed ? as(int32_t{}) : as(uint32_t{});
    default: return is_signed ? as(int64_t{}) : as(uint64_t{});
  }
}

// The shape of samples: [N, C, H, W] for built-in networks (image), or the array's own.
enum class SampleShape { image, own };

// The samples that a network takes.
struct Taken {
  SampleShape shape = SampleShape::image;
  // True if it takes images of this shape, [N, C, H, W]. Null if nobody knows.
  std::function<bool(const Shape&)> images{};
};

// A data set of x, and of y unless that is None. Elements that are float32, float64, uint8 or int32
// in C order on the cpu are not copied: they must stay as they are while the data set lives.
//   x  float [N, ...], or uint8 [N, H, W] or [N, C, H, W], pixels from 0 to 255
//   y  integers [N], the classes 0, 1, ..., or [N, T], a class for each place, float [N] or
//      [N, ...], numbers to answer with, or masks:
//      integers [N, H, W], each pixel's class, or bool [N, H, W] or [N, K, H, W], whether something
//      is there
// Numbers to answer with, classes of places (for x of three dimensions or more), and -100,
// PyTorch's number for a label that counts nowhere, are for networks of the caller's own
// (SampleShape::own).
// Throws Error for others, among them images with the channels last, [N, H, W, C]: 1, 3 or 4 where
// a width is expected and something else where channels are. Their height and width differ, and the
// network does not take them as they are, or takes them also with the last dimension first.
Dataset dataset_of(nb::handle x, nb::handle y, const Taken& taken);

// An array that a network sees, and one that it should answer with, by their names: as x and y.
Field seen_by_name(const Array& array, const std::string& name);
Field answered_by_name(const Array& array, const std::string& name);

// A data set of glyphs: `sources` of one font and, unless None, `targets`, the same glyphs in other
// fonts. Both are [N, S, S] or [N, C, S, S], of the types of x above. `styles` are integers [N]:
// the number of each target's font.
Dataset glyphs_of(nb::handle sources, nb::handle targets, nb::handle styles);
// Either: (x, y), or (sources, targets, styles). An Error for neither begins with `what`.
Dataset dataset_of(nb::handle arrays, const char* what, const Taken& taken);

// The data sets of `data` and of `test`, which is `data` if it is None, with as many classes.
// Throws Error unless both are of the same kinds.
Datasets datasets_of(nb::handle data, nb::handle test, const Taken& taken);
// How much each of N samples counts: numbers [N], as the field `weights`.
Field weights_of(nb::handle weights, int64_t N);
// Likewise, 1 for each.
Field even_weights(int64_t N);
// Adds such a field to data sets. Samples that are only scored count alike.
void append_weights(Datasets& data, nb::handle weights, const std::string& name = "weights");

// Rounds numbers in float64 to float32, as a model wants them that computes in `dtype`, unless that
// is float64.
void round_numbers(Dataset& data, DType dtype);

// The tensor's own elements as a NumPy array; bf16 is copied to float32. The tensor must be on the
// cpu (on_cpu()).
nb::object array_of(const Tensor& tensor);
// NumPy arrays by name, with the tensors' own elements or with copies, which the ledger does not
// count.
enum class Elements { own, copied };
nb::dict arrays_of(const NamedTensors& tensors, Elements elements = Elements::own);
// Tensors of arrays by name, float64 or else as float32, but for those that are no weights
// (is_weight(), train/weights.h).
NamedTensors tensors_of(const nb::dict& arrays);
// Copies such arrays to a model's tensors. Throws Error, which begins with `what` and names every
// difference, unless they have exactly the model's names and shapes.
void assign(const nb::dict& arrays, const std::string& what, const Parameters& parameters);

}  // namespace accrue::python
