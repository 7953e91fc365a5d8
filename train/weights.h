#pragma once

#include <optional>
#include <string>

#include "core/parameters.h"
#include "data/safetensors.h"

namespace accrue {

// Parameters and module buffers, by their PyTorch names.
NamedTensors named_tensors(const Parameters& parameters);
// Copies of those tensors that are not there.
NamedTensors on_cpu(NamedTensors tensors);

// The largest absolute difference of two models' tensors, both f32. Throws Error unless they agree
// in names, order and shapes.
double largest_difference(const NamedTensors& a, const NamedTensors& b);

// "0.weight holds nan at element 3", of the first floating tensor with such a value; else empty.
// On the cpu.
std::string first_not_finite(const NamedTensors& tensors);

// Writes parameters and module buffers as safetensors, by their PyTorch names, with what the file
// is to say of itself. Throws Error, with nothing written, if one is not finite. Nothing
// half-written remains after an error.
void save_weights(const std::string& path, const Parameters& parameters,
                  const Metadata& metadata = {});

// Reads them back: exactly the model's names and shapes, in float32, or exactly or rounded from
// f16, bf16 or f64. Takes 64 KiB more than the parameters have. Throws Error, with the parameters
// as they were, if the file differs, with every difference named, and for a value that is not
// finite.
void load_weights(const std::string& path, Parameters& parameters);

// True of weights in float64, which load_weights() rounds.
bool holds_float64(const std::string& path);

// A model's head is the layer of its last parameters, such as "fc", which answers with as many
// numbers as its tensors have rows: one for each class.
struct OtherHead {
  std::string name;
  int64_t classes_in_file, classes;
};
// load_weights() for what is to be trained further: a head that has another number of classes in
// the file, and is the same otherwise, stays as it is. Returns it; nothing if all was read.
std::optional<OtherHead> load_pretrained(const std::string& path, Parameters& parameters);

}  // namespace accrue
