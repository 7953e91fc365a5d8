#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/autograd.h"

namespace accrue {

// The name (as PyTorch's state_dict() has it) and shape of a parameter or buffer.
struct Declaration {
  std::string name;
  Shape shape;
};

// All parameters of a model in one flat arena: values [P] and gradients [P], each parameter a
// 64-byte-aligned slice of both, in the order they are declared. One kernel launch then reaches
// every parameter. Gaps between slices stay zero. Beside them the model's buffers: state that is
// not learned (BatchNorm's running statistics), likewise flat.
class Parameters {
 public:
  struct Entry {
    std::string name;
    int64_t offset;  // in elements
    Tensor tensor;   // of the parameter's shape, aliasing values; its gradient aliases gradients
    bool claimed() const { return !tensor.variable()->fresh; }
    bool frozen() const { return tensor.variable()->frozen; }
  };
  struct Range {
    int64_t begin, end;  // in elements
  };

  // Everything zero and no gradient claimed. Throws OutOfMemory.
  Parameters(const std::vector<Declaration>& parameters, const std::vector<Declaration>& buffers,
             DType dtype, Device device);
  Parameters(Parameters&&) = default;
  Parameters(const Parameters&) = delete;
  Parameters& operator=(const Parameters&) = delete;

  const std::vector<Entry>& entries() const { return entries_; }
  const std::vector<Entry>& buffer_entries() const { return buffer_entries_; }
  const Tensor& values() const { return values_; }        // [P]
  const Tensor& gradients() const { return gradients_; }  // [P]
  const Tensor& buffers() const { return buffers_; }      // all buffers, flat
  // Learnable scalars, gaps not counted.
  int64_t count() const;

  // Marks every gradient fresh; touches no memory.
  void zero_grad() const;
  // While frozen, gradients are refused and steps leave the values alone. `prefix` selects by the
  // start of the name; empty means all.
  void freeze(std::string_view prefix = "") const { set_frozen(prefix, true); }
  void unfreeze(std::string_view prefix = "") const { set_frozen(prefix, false); }

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
  void set_frozen(std::string_view prefix, bool frozen) const;

  std::vector<Entry> entries_, buffer_entries_;
  Tensor values_, gradients_, buffers_;
};

}  // namespace accrue
