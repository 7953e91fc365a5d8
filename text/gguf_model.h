#pragma once

#include <string>
#include <string_view>

#include "data/gguf.h"
#include "text/pretrained.h"

namespace accrue::detail {

// Language models in GGUF files: Llama's architecture ("llama") and Qwen2's ("qwen2"), as
// llama.cpp's convert_hf_to_gguf.py writes them.

// What the file says of its model, as read_pretrained_config() has it. Throws Error for another
// architecture, for a model in several files, for keys and tensors that change the computation and
// that accrue's Llama does not have, and for a tensor that the model lacks.
PretrainedModel read_gguf_config(const GgufFile& file);

// The name of the tensor of a parameter (text/gpt2.h, text/llama.h). Throws Error if it is none.
std::string gguf_name(std::string_view parameter);

// The tensor in which a file has a parameter of a Llama.
struct GgufParameter {
  const GgufTensor* tensor;
  // As a weight that is stored so (kernels/quantized_matmul.h): [R, C], or [R / D, D / 2, 2, C]
  // where the rows lie in another order. A vector is a matrix of one row, or there of one column.
  Shape shape;
};
// Finds the parameter of this name (text/llama.h) and shape in a file that read_gguf_config()
// takes. The converter puts the rows of Llama's queries and keys into another order, because
// llama.cpp turns neighbours in a head as a pair (RotaryLayout::interleaved): in a head of D rows,
// row 2 j + s of the file is row s * D / 2 + j here, with s < 2. Throws Error for a name that is no
// parameter's, and if the file has no such tensor or one of another shape.
GgufParameter find_gguf_parameter(const GgufFile& file, const std::string& name,
                                  const Shape& shape);

}  // namespace accrue::detail
