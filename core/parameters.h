#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "core/autograd.h"

namespace accrue {

namespace detail {

// The name (as in PyTorch's state_dict()) and shape of a parameter or buffer. A fixed parameter is
// never trained.
struct Declaration {
  std::string name;
  Shape shape;
  bool fixed = false;
};

// The layer that a parameter belongs to: "layer1.0.conv1" for "layer1.0.conv1.weight".
inline std::string layer_of(const std::string& parameter) {
  return parameter.substr(0, std::min(parameter.rfind('.'), parameter.size()));
}

// The memory of the gradients of parameters.
enum class GradientStorage {
  arena,     // [P], alive as long as the parameters
  on_demand  // made when backward claims them, until the GradHook that uses them drops them
};

}  // namespace detail

// All parameters of a model in one flat arena: values [P] and gradients [P]. Each parameter is a
// 64-byte-aligned slice of both, in the order of declaration. One kernel launch can then reach
// every parameter. Gaps between slices stay zero. There are also the model's buffers, likewise
// flat: state that is not learned, such as BatchNorm's running statistics. A model that computes in
// 16 bits has a 16-bit copy [P] of the values. Ops read this copy (kernels/backend.h, operand()),
// and the optimizer writes it together with the values. Fixed parameters lie in a separate arena,
// which has values (and their 16-bit copies) but no gradients, so loops over [P] do not meet them.
// Copying a Parameters object copies the handle, as with tensors.
class Parameters {
 public:
  struct Range {
    int64_t begin, end;  // in elements
  };
  struct Entry {
    std::string name;
    int64_t offset;  // in elements
    Tensor tensor;   // of the parameter's shape, aliasing values; its gradient aliases gradients
    Range range() const { return {offset, offset + tensor.numel()}; }
    bool claimed() const { return !tensor.variable()->fresh; }
    bool frozen() const { return tensor.variable()->frozen; }
  };

  // Everything is zero and no gradient is claimed. `dtype` is the dtype of values and gradients.
  // Ops compute in `compute`, which is `dtype` itself or, if that is float32, a 16-bit dtype.
  // Throws OutOfMemory.
  Parameters(const std::vector<detail::Declaration>& parameters,
             const std::vector<detail::Declaration>& buffers, DType dtype, Device device,
             detail::GradientStorage storage = detail::GradientStorage::arena)
      : Parameters(parameters, buffers, dtype, dtype, device, storage) {}
  Parameters(const std::vector<detail::Declaration>& parameters,
             const std::vector<detail::Declaration>& buffers, DType dtype, DType compute,
             Device device, detail::GradientStorage storage);
  Parameters(const Parameters&) = default;  // also for moves, which leave the source usable
  Parameters& operator=(const Parameters&) = delete;

  // The parameters that are trained.
  const std::vector<Entry>& entries() const { return entries_; }
  // The fixed parameters, which always stay frozen. Their offsets refer to fixed_values().
  const std::vector<Entry>& fixed_entries() const { return fixed_entries_; }
  // All parameters, in the order they were declared.
  const std::vector<Entry>& all_entries() const { return all_entries_; }
  const std::vector<Entry>& buffer_entries() const { return buffer_entries_; }
  const Tensor& values() const { return values_; }              // [P]
  const Tensor& gradients() const { return gradients_; }        // [P]; undefined if on demand
  const Tensor& copies() const { return copies_; }              // [P] in 16 bits; undefined if none
  const Tensor& fixed_values() const { return fixed_values_; }  // [F]; undefined without any
  const Tensor& fixed_copies() const { return fixed_copies_; }  // [F] in 16 bits; undefined if none
  // The dtype that the model computes in.
  DType compute_dtype() const { return (copies_.defined() ? copies_ : values_).dtype(); }
  const Tensor& buffers() const { return buffers_; }  // all buffers, flat
  // The number of scalars, without gaps, in all parameters and in the trained parameters.
  int64_t count() const;
  int64_t trained_count() const;

  // Records that a step has changed the values and their 16-bit copies. A backward that saved them
  // before throws Error when it reads them (Tensor::saved()).
  void mark_overwritten() const;
  // Marks every gradient fresh, and drops gradients on demand; touches no elements.
  void zero_grad() const;
  // From now on ops keep the packed forms of parameters, all or where it pays, until drop_packed().
  // Call drop_packed() after changing values.
  void keep_packed(Pack keep) const;
  void drop_packed() const;
  // Frozen parameters refuse gradients, and steps do not change their values. `prefix` selects
  // parameters whose names begin with it; an empty prefix selects all that are not fixed.
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
  void place_fixed(const std::vector<detail::Declaration>& fixed, DType dtype, DType compute,
                   Device device);
  void set_frozen(std::string_view prefix, bool frozen) const;

  std::vector<Entry> entries_, fixed_entries_, all_entries_, buffer_entries_;
  Tensor values_, fixed_values_, gradients_, copies_, fixed_copies_, buffers_;
};

}  // namespace accrue
