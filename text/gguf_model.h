#pragma once

#include <string>
#include <string_view>

#include "data/gguf.h"
#include "text/pretrained.h"

namespace accrue::detail {

// Reads language models from GGUF files of the architectures Llama ("llama") and Qwen2 ("qwen2"),
// as llama.cpp's convert_hf_to_gguf.py writes them.

// The model that the file describes, in the form of read_pretrained_config(). Throws Error for
// another architecture, for a model in several files, for keys and tensors that change the
// computation in a way that accrue's Llama does not support, and for missing tensors.
PretrainedModel read_gguf_config(const GgufFile& file);

// The tensor name of a parameter (text/gpt2.h, text/llama.h). Throws Error for an unknown
// parameter.
std::string gguf_name(std::string_view parameter);

// The tensor that contains a parameter of a Llama.
struct GgufParameter {
  const GgufTensor* tensor;
  // The shape as a stored weight (kernels/quantized_matmul.h): [R, C], or [R / D, D / 2, 2, C] if
  // the file has the rows in another order. A vector counts as a matrix of one row, or of one
  // column if its elements are reordered.
  Shape shape;
};
// Finds the parameter of this name (text/llama.h) and shape in a file that read_gguf_config()
// accepts. The converter reorders the rows of Llama's queries and keys, because llama.cpp rotates
// neighbors within a head as a pair (RotaryLayout::interleaved). In a head of D rows, row 2 j + s
// of the file is row s * D / 2 + j here, with s < 2.
// Throws Error if the name is unknown, or if the file has no such tensor or one of another shape.
GgufParameter find_gguf_parameter(const GgufFile& file, const std::string& name,
                                  const Shape& shape);

}  // namespace accrue::detail
