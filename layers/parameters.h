#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/autograd.h"
#include "layers/init.h"

namespace accrue {

class Module;

// One learnable tensor of a module: declared with its shape and distribution, given storage when
// its model is placed in a Parameters arena. `tensor` is undefined before that.
struct Parameter {
  Shape shape;
  Init init;
  Tensor tensor;
};

// State that is not learned (BatchNorm's running statistics), likewise.
struct Buffer {
  Shape shape;
  double initial_value = 0;
  Tensor tensor;
};

// All parameters of a model in one flat arena: values [P] and gradients [P], each parameter a
// 64-byte-aligned slice of both, in the order the modules declare them. One kernel launch then
// reaches every parameter. Gaps between slices stay zero. The model must outlive the arena.
class Parameters {
 public:
  struct Entry {
    std::string name;  // as PyTorch's state_dict() names it
    int64_t offset;    // in elements
    Tensor tensor;     // of the parameter's shape, aliasing values
    bool claimed() const { return !tensor.variable()->fresh; }
    bool frozen() const { return tensor.variable()->frozen; }
  };
  struct NamedBuffer {
    std::string name;
    Tensor tensor;
  };
  struct Range {
    int64_t begin, end;  // in elements
  };

  // Places the model on a device and draws its initial weights: parameter number p from the random
  // stream (seed, p), so the weights do not depend on the device. Throws OutOfMemory.
  Parameters(Module& model, DType dtype, Device device, uint64_t seed);
  ~Parameters();
  Parameters(const Parameters&) = delete;
  Parameters& operator=(const Parameters&) = delete;

  const std::vector<Entry>& entries() const { return entries_; }
  const std::vector<NamedBuffer>& named_buffers() const { return named_buffers_; }
  const Tensor& values() const { return values_; }        // [P]
  const Tensor& gradients() const { return gradients_; }  // [P]
  const Tensor& buffers() const { return buffers_; }      // all buffers, flat
  // Learnable scalars, gaps not counted.
  int64_t count() const;

  // Marks every gradient fresh; touches no memory.
  void zero_grad();
  // While frozen, gradients are refused (and steps leave the values alone). `prefix` selects by
  // the start of the name; empty means all.
  void freeze(std::string_view prefix = "");
  void unfreeze(std::string_view prefix = "");

  // The element ranges of the parameters for which `select(entry)` holds, neighbours merged.
  template <class Select>
  std::vector<Range> ranges(Select&& select) const {
    std::vector<Range> found;
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (!select(entries_[i])) continue;
      const int64_t begin = entries_[i].offset;
      const int64_t end = i + 1 < entries_.size() ? entries_[i + 1].offset : values_.numel();
      if (!found.empty() && found.back().end == begin) found.back().end = end;
      else found.push_back({begin, end});
    }
    return found;
  }

 private:
  Tensor values_, gradients_, buffers_;
  std::vector<Entry> entries_;
  std::vector<NamedBuffer> named_buffers_;
  Module& model_;
};

}  // namespace accrue
