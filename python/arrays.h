#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "data/dataset.h"
#include "data/safetensors.h"

namespace accrue::python {

namespace nb = nanobind;

// Which shape the samples take: [N, C, H, W] for networks that are built in, or as they are.
enum class SampleShape { image, own };

// A data set of x, and of y unless that is None. Anything with DLPack or a buffer, and else what
// numpy.asarray() takes. Elements that are float32, uint8 or int32 in C order on the cpu are not
// copied: they must stay as they are while the data set lives.
//   x  float [N, ...], or uint8 [N, H, W] or [N, C, H, W], pixels from 0 to 255
//   y  integers [N], the classes 0, 1, ..., float [N] or [N, ...], numbers to answer with, or
//   masks:
//      integers [N, H, W], each pixel's class, or bool [N, H, W] or [N, K, H, W], whether something
//      is there
// Throws Error for others.
Dataset dataset_of(nb::handle x, nb::handle y, SampleShape shape);

// The tensor's own elements as a NumPy array; bf16 becomes float32 in a copy. A tensor on cuda must
// be on the cpu before (on_cpu()).
nb::object array_of(const Tensor& tensor);
// By name.
nb::dict arrays_of(const NamedTensors& tensors);
// f32 tensors of arrays by name.
NamedTensors tensors_of(const nb::dict& arrays);

}  // namespace accrue::python
