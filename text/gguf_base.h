#pragma once

#include <filesystem>
#include <memory>

#include "text/base.h"
#include "text/gguf_model.h"

namespace accrue {

// A language model in a GGUF file. Its weights stay as they lie, mapped, so that the system may
// drop what is not in use: a matrix is borrowed from the file where that is on the device and has
// the rows in this order, and else copied.
class GgufBase : public Base {
 public:
  // Throws Error for what is no GGUF file, or has no model that text/gguf_model.h can read.
  explicit GgufBase(const std::filesystem::path& path);

  // The parameter in float32, on the host.
  Tensor widened(const std::string& name, const Shape& shape) const {
    return read(name, shape, DType::f32);
  }

 private:
  explicit GgufBase(std::shared_ptr<const GgufFile> file);
  DType stored_type(const std::string& name, const Shape& shape) const override;
  Tensor read(const std::string& name, const Shape& shape, DType dtype) const override;

  std::shared_ptr<const GgufFile> file_;
};

}  // namespace accrue
