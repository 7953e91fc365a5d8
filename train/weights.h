#pragma once

#include <optional>
#include <string>

#include "core/parameters.h"
#include "data/safetensors.h"

namespace accrue {

namespace detail {

// Parameters and module buffers, with their PyTorch names.
NamedTensors named_tensors(const Parameters& parameters);
// The same tensors, after copying each from cuda to the cpu.
NamedTensors on_cpu(NamedTensors tensors);

// The largest absolute difference between two models' tensors, both f32. Throws Error unless names,
// order and shapes are equal.
double largest_difference(const NamedTensors& a, const NamedTensors& b);

// Describes the first value that is not finite in a floating tensor on the cpu: "0.weight holds nan
// at element 3". Empty if there is none.
std::string first_not_finite(const NamedTensors& tensors);

}  // namespace detail

// Writes parameters and module buffers as safetensors, with their PyTorch names and this metadata.
// Throws Error and writes nothing if a value is not finite. After any error, no partial file
// remains.
void save_weights(const std::string& path, const Parameters& parameters,
                  const Metadata& metadata = {});

namespace detail {

// False for tensors in other programs' files that are not weights and are ignored: the number of
// batches that PyTorch's BatchNorm has seen, and the attention masks in the first files of GPT-2.
bool is_weight(const std::string& name);

// True for a parameter of an adapter (text/lora.h).
bool is_of_adapter(const std::string& name);

}  // namespace detail

// Reads them back from a file with exactly the model's names and shapes; the names may lack a first
// word that all have ("transformer"). The elements are float32, f16 and bf16, which convert
// exactly, or f64, which is rounded unless the model has float64. Needs 64 KiB beside the
// parameters. Throws Error, with the parameters as they were, for a value that is not finite, and
// for a file that differs, in which case it names every difference.
void load_weights(const std::string& path, Parameters& parameters);

namespace detail {

// Throws an Error that names every difference, unless tensors read from `path` have exactly the
// model's names and shapes, and types that load_weights() takes.
void check_weights_fit(const std::string& path, const NamedTensors& tensors,
                       const Parameters& parameters);

// True if the file has weights in float64, which load_weights() rounds for a model in float32.
bool holds_float64(const std::string& path);

// Copies the elements of a tensor on the cpu to another of its shape, converted to that one's type
// and rounded once.
void copy_converted(Tensor to, const Tensor& from);

// A model's head is the layer of its last parameters, such as "fc", which answers with as many
// numbers as its tensors have rows: one for each class.
struct OtherHead {
  std::string name;
  int64_t classes_in_file, classes;
};

}  // namespace detail

// Which heads are not read from the file: those with another number of classes, or all.
enum class NewHead { of_other_size, always };
// load_weights() for further training. Does not read such a head, if its tensors otherwise match,
// and leaves a model's adapters unchanged if the file has none. Returns the head that was not read,
// or nothing if everything was read.
std::optional<detail::OtherHead> load_pretrained(const std::string& path, Parameters& parameters,
                                                 NewHead new_head = NewHead::of_other_size);

namespace detail {

// The number of classes that a file's weights of a model tell apart: the rows of its head. Throws
// Error if it has no such head.
int64_t classes_of_head(const std::string& path, const Parameters& parameters);

}  // namespace detail

}  // namespace accrue
