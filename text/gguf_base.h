#pragma once

#include <filesystem>
#include <memory>

#include "layers/module.h"
#include "text/gguf_model.h"

namespace accrue {

// A language model in a GGUF file as the base of adapters: its weights stay as they lie, in the
// file's own blocks and mapped, so that the system may drop what is not in use, and nobody changes
// them.
class GgufBase {
 public:
  // Throws Error for what is no GGUF file, or has no model that text/gguf_model.h can read.
  explicit GgufBase(const std::filesystem::path& path);

  const PretrainedModel& model() const { return model_; }

  // The parameter of this name and shape (text/llama.h), for a model that computes in `compute`: a
  // quantized matrix in its blocks, borrowed from the file where that is on the device and has the
  // rows in this order, else copied; all else in `compute`, or as other fixed parameters are in 16
  // bits, in float32 with a copy. On a meta device there are no elements.
  // Throws Error if the file has no such parameter.
  Tensor parameter(const std::string& name, const Shape& shape, DType compute, Device device) const;

  // The parameter in float32, on the host.
  Tensor widened(const std::string& name, const Shape& shape) const;

 private:
  std::shared_ptr<const GgufFile> file_;
  PretrainedModel model_;
};

// Makes all parameters of a model, which is not placed yet, the base's.
void take_from(const GgufBasePtr& base, Module& model);

}  // namespace accrue
