#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "layers/module.h"
#include "text/gguf_model.h"
#include "text/pretrained.h"

namespace accrue::detail {

// The weights of a language model as the fixed base of adapters. Matrices keep the types that they
// have in the file, or are quantized.
class Base {
 public:
  virtual ~Base() = default;

  const PretrainedModel& model() const { return model_; }

  // Identifies the base by its stored elements and by the computation of its model, wherever its
  // file lies. Reads the file, but only once.
  std::string checksum() const;

  // The parameter of this name (text/gpt2.h, text/llama.h) and shape, for a model that computes in
  // `compute`. A matrix is returned as it is stored (core/dtype.h, is_stored_type()). A vector is
  // returned in `compute`; where that has 16 bits, it is in float32 with a copy in `compute`, like
  // other fixed parameters. On a meta device the tensor has no elements.
  // Throws Error if there is no such parameter.
  Tensor parameter(const std::string& name, const Shape& shape, DType compute, Device device) const;
  // The same in float32, on the host. A matrix has the order of `shape`.
  Tensor widened(const std::string& name, const Shape& shape) const;

 protected:
  explicit Base(PretrainedModel model) : model_(std::move(model)) {}

  // How a matrix is stored (kernels/quantized_matmul.h).
  struct Stored {
    Shape shape;
    DType type;
  };

 private:
  // Each of the following functions throws Error in the same cases as parameter().
  virtual Stored stored(const std::string& name, const Shape& shape) const = 0;
  // The elements on the host: a matrix as it is stored, a vector in a floating-point type.
  virtual Tensor matrix(const std::string& name, const Shape& shape) const = 0;
  virtual Tensor vector(const std::string& name, const Shape& shape, DType dtype) const = 0;
  // zlib's CRC-32 of the elements, continued from `crc`.
  virtual uint32_t checksum_of_elements(uint32_t crc) const = 0;

  PretrainedModel model_;
  mutable std::string checksum_;
};
using BasePtr = std::shared_ptr<const Base>;

// Replaces all parameters of a model, which must not be placed yet, with the parameters of the
// base.
void take_from(const BasePtr& base, Module& model);

// Weights in a file that accrue wrote (train/weights.h).
class SafetensorsBase : public Base {
 public:
  // With 4 `bits`, matrices whose rows consist of whole blocks become Q4_0, and with 8 bits Q8_0.
  // With 16 bits all matrices become bf16. Otherwise tensors stay as they are in the file.
  // Throws Error if the file is not of this kind.
  SafetensorsBase(const std::filesystem::path& path, PretrainedModel model,
                  std::optional<int> bits = {});

 private:
  Stored stored(const std::string& name, const Shape& shape) const override;
  Tensor matrix(const std::string& name, const Shape& shape) const override {
    return vector(name, shape, stored(name, shape).type);
  }
  Tensor vector(const std::string& name, const Shape& shape, DType dtype) const override;
  uint32_t checksum_of_elements(uint32_t crc) const override;

  std::filesystem::path path_;
  std::optional<int> bits_;
  SafetensorsHeader header_;
};

// The model that a GGUF file describes (read_gguf_config()), with the other files that the model
// would have as a directory (pretrained_files()).
PretrainedModel read_gguf_model(const GgufFile& file);

// A language model in a GGUF file. The file stays mapped, so that the system may drop pages that
// are not in use. On the cpu the matrices are borrowed from the mapping.
class GgufBase : public Base {
 public:
  // Throws Error if the file is not GGUF, or if text/gguf_model.h cannot read its model.
  explicit GgufBase(const std::filesystem::path& path);

 private:
  explicit GgufBase(std::shared_ptr<const GgufFile> file);
  Stored stored(const std::string& name, const Shape& shape) const override;
  Tensor matrix(const std::string& name, const Shape& shape) const override;
  Tensor vector(const std::string& name, const Shape& shape, DType dtype) const override;
  uint32_t checksum_of_elements(uint32_t crc) const override;

  std::shared_ptr<const GgufFile> file_;
};

}  // namespace accrue::detail
