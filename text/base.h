#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "layers/module.h"
#include "text/gguf_model.h"
#include "text/pretrained.h"

namespace accrue::detail {

// The weights of a language model as the base of adapters: nobody changes them, and its matrices
// stay in the types that a file has, or are quantized.
class Base {
 public:
  virtual ~Base() = default;

  const PretrainedModel& model() const { return model_; }

  // Tells one base from another, wherever its file lies: of its elements as they are stored, and of
  // what its model computes. Reads the file, once.
  std::string checksum() const;

  // The parameter of this name (text/gpt2.h, text/llama.h) and shape, for a model that computes in
  // `compute`: a matrix as it is stored (core/dtype.h, is_stored_type()); a vector in `compute`, or
  // as other fixed parameters are in 16 bits, in float32 with a copy. On a meta device there are no
  // elements.
  // Throws Error if there is no such parameter.
  Tensor parameter(const std::string& name, const Shape& shape, DType compute, Device device) const;
  // The same in float32, on the host, a matrix in the order of `shape`.
  Tensor widened(const std::string& name, const Shape& shape) const;

 protected:
  explicit Base(PretrainedModel model) : model_(std::move(model)) {}

  // How a matrix is stored (kernels/quantized_matmul.h).
  struct Stored {
    Shape shape;
    DType type;
  };

 private:
  // Each throws Error as above.
  virtual Stored stored(const std::string& name, const Shape& shape) const = 0;
  // The elements on the host, of a matrix as it is stored, of a vector in a floating type.
  virtual Tensor matrix(const std::string& name, const Shape& shape) const = 0;
  virtual Tensor vector(const std::string& name, const Shape& shape, DType dtype) const = 0;
  // That of zlib, which goes on from `crc`.
  virtual uint32_t checksum_of_elements(uint32_t crc) const = 0;

  PretrainedModel model_;
  mutable std::string checksum_;
};
using BasePtr = std::shared_ptr<const Base>;

// Makes all parameters of a model, which is not placed yet, the base's.
void take_from(const BasePtr& base, Module& model);

// Weights in a file that accrue wrote (train/weights.h).
class SafetensorsBase : public Base {
 public:
  // Matrices whose rows have whole blocks become Q4_0 for 4 `bits` and Q8_0 for 8, and all matrices
  // bf16 for 16. The others, and all without `bits`, stay as they are in the file.
  // Throws Error for what is no such file.
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

}  // namespace accrue::detail
