#pragma once

#include <filesystem>
#include <memory>

#include "text/base.h"
#include "text/gguf_model.h"

namespace accrue {

// What the file says of its model (read_gguf_config()), with the files that it has elsewhere
// (pretrained_files()).
PretrainedModel read_gguf_model(const GgufFile& file);

// A language model in a GGUF file. Its matrices stay as they lie, mapped, so that the system may
// drop what is not in use: on the cpu they are borrowed from the file.
class GgufBase : public Base {
 public:
  // Throws Error for what is no GGUF file, or has no model that text/gguf_model.h can read.
  explicit GgufBase(const std::filesystem::path& path);

 private:
  explicit GgufBase(std::shared_ptr<const GgufFile> file);
  Stored stored(const std::string& name, const Shape& shape) const override;
  Tensor matrix(const std::string& name, const Shape& shape) const override;
  Tensor vector(const std::string& name, const Shape& shape, DType dtype) const override;
  uint32_t checksum_of_elements(uint32_t crc) const override;

  std::shared_ptr<const GgufFile> file_;
};

}  // namespace accrue
