#pragma once

#include <optional>
#include <string>

#include "core/parameters.h"
#include "data/safetensors.h"

namespace accrue {

namespace detail {

// Parameters and module buffers, by their PyTorch names.
NamedTensors named_tensors(const Parameters& parameters);
// The tensors, with those on cuda copied to the cpu.
NamedTensors on_cpu(NamedTensors tensors);

// The largest absolute difference of two models' tensors, both f32. Throws Error unless they agree
// in names, order and shapes.
double largest_difference(const NamedTensors& a, const NamedTensors& b);

// Describes the first value that is not finite in a floating tensor on the cpu, "0.weight holds nan
// at element 3"; empty if there is none.
std::string first_not_finite(const NamedTensors& tensors);

}  // namespace detail

// Writes parameters and module buffers as safetensors, by their PyTorch names, with this metadata.
// Throws Error, with nothing written, if one is not finite. Nothing half-written remains after an
// error.
void save_weights(const std::string& path, const Parameters& parameters,
                  const Metadata& metadata = {});

namespace detail {

// False for what others' files have beside weights, and nothing here depends on: how many batches
// PyTorch's BatchNorm has seen, and the masks of attention in the first files of GPT-2.
bool is_weight(const std::string& name);

// True for a parameter of an adapter (text/lora.h).
bool is_of_adapter(const std::string& name);

}  // namespace detail

// Reads them back from a file with exactly the model's names, or these without a first word that
// all have ("transformer"), and shapes, in float32, or in f16 and bf16, which convert exactly, or
// f64, which is rounded. Needs 64 KiB beside the parameters. Throws Error, with the parameters as
// they were, for a value that is not finite, and for a file that differs, in which case it names
// every difference.
void load_weights(const std::string& path, Parameters& parameters);

namespace detail {

// Throws Error, naming every difference, unless tensors that were read from `path` have exactly the
// model's names and shapes, and types that load_weights() takes.
void check_weights_fit(const std::string& path, const NamedTensors& tensors,
                       const Parameters& parameters);

// True if the file has weights in float64, which load_weights() rounds.
bool holds_float64(const std::string& path);

// A model's head is the layer of its last parameters, such as "fc", which answers with as many
// numbers as its tensors have rows: one for each class.
struct OtherHead {
  std::string name;
  int64_t classes_in_file, classes;
};

}  // namespace detail

// Which head stays as it is: one that has another number of classes in the file, or any.
enum class NewHead { of_other_size, always };
// load_weights() for further training: such a head, if it otherwise agrees, is not read, and the
// adapters of a model stay as they are if the file has none at all. Returns that head, or nothing
// if all else was read.
std::optional<detail::OtherHead> load_pretrained(const std::string& path, Parameters& parameters,
                                                 NewHead new_head = NewHead::of_other_size);

namespace detail {

// The number of classes that a file's weights of a model tell apart: the rows of its head. Throws
// Error if it has no such head.
int64_t classes_of_head(const std::string& path, const Parameters& parameters);

}  // namespace detail

}  // namespace accrue
