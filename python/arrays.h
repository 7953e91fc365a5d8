#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <span>
#include <string>

#include "core/inside.h"
#include "data/dataset.h"
#include "data/safetensors.h"

namespace accrue::python {

namespace nb = nanobind;

using Array = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

// Anything with DLPack or a buffer, and else what numpy.asarray() takes, in the machine's order of
// bytes. Throws Error that begins with `what` for others, and for arrays with masked elements.
Array as_array(nb::handle object, const char* what);
bool is_integers(const Array& array);
bool is_truth(const Array& array);
// "int64 [8, 12]"
std::string described(const Array& array);

// What needs the interpreter when it is let go of.
template <class T>
std::shared_ptr<const T> kept_by_python(T value) {
  return {new T(std::move(value)), [](const T* kept) {
            if (!nb::is_alive()) return;
            const nb::gil_scoped_acquire gil;
            delete kept;
          }};
}

// Returns work(elements), a span of the integers of an array as they are.
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

// Which shape the samples take: [N, C, H, W] for networks that are built in, or as they are.
enum class SampleShape { image, own };

// A data set of x, and of y unless that is None. Elements that are float32, uint8 or int32 in C
// order on the cpu are not copied: they must stay as they are while the data set lives.
//   x  float [N, ...], or uint8 [N, H, W] or [N, C, H, W], pixels from 0 to 255
//   y  integers [N], the classes 0, 1, ..., float [N] or [N, ...], numbers to answer with, or
//   masks:
//      integers [N, H, W], each pixel's class, or bool [N, H, W] or [N, K, H, W], whether something
//      is there
// Numbers to answer with are for networks of one's own (SampleShape::own).
// Throws Error for others, among them images with the channels last, [N, H, W, C]: 1, 3 or 4 where
// a width is expected and something else where channels are, unless height and width agree.
Dataset dataset_of(nb::handle x, nb::handle y, SampleShape shape);

// Glyphs of one font and, unless `targets` is None, of others: sources and targets [N, S, S] or
// [N, C, S, S], as x is above, and integers [N], which of the others.
Dataset glyphs_of(nb::handle sources, nb::handle targets, nb::handle styles);
// Either: (x, y), or (sources, targets, styles). An Error for neither begins with `what`.
Dataset dataset_of(nb::handle arrays, const char* what, SampleShape shape);

// The data sets of `data` and of `test`, which is `data` if it is None, with as many classes.
// Throws Error unless both are of the same kinds.
Datasets datasets_of(nb::handle data, nb::handle test, SampleShape shape);

// The tensor's own elements as a NumPy array; bf16 becomes float32 in a copy. A tensor on cuda must
// be on the cpu before (on_cpu()).
nb::object array_of(const Tensor& tensor);
// By name: with the tensors' own elements, or copies of them, of which the ledger knows nothing.
enum class Elements { own, copied };
nb::dict arrays_of(const NamedTensors& tensors, Elements elements = Elements::own);
// f32 tensors of arrays by name, but for those that are no weights (is_weight(), train/weights.h).
NamedTensors tensors_of(const nb::dict& arrays);

}  // namespace accrue::python
