#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/memory.h"
#include "core/view.h"

namespace accrue {

namespace detail {
class Variable;  // the gradient side of a tensor: core/autograd.h
}  // namespace detail

// A contiguous row-major array in shared storage. Copying a Tensor copies the handle, not the
// elements. Reshaping and slicing the first dimension are free. A tensor on a meta device, or made
// by without_elements(), has no elements: reading them throws an Error that names the tensor. An
// undefined tensor throws Error for everything except its shape.
class Tensor {
 public:
  Tensor() = default;

  // A tensor with uninitialised elements. Throws OutOfMemory.
  static Tensor empty(const Shape& shape, DType dtype, Device device,
                      Category category = Category::activations);
  static Tensor full(const Shape& shape, double value, DType dtype, Device device,
                     Category category = Category::activations);
  // A tensor of elements on the host that `owner` keeps alive and that never change, such as a
  // mapped file. They count on the ledger as if the tensor had allocated them.
  static Tensor borrow(const void* data, std::shared_ptr<const void> owner, const Shape& shape,
                       DType dtype, Category category = Category::parameters);
  // A tensor with only a shape and a type, for elements that are elsewhere. It does not count on
  // the ledger.
  static Tensor without_elements(const Shape& shape, DType dtype, Device device);
  // A copy of host values, on `device`. Throws Error unless shape holds values.size() elements.
  template <class T>
  static Tensor from(std::span<const T> values, const Shape& shape, Device device = Device::cpu,
                     Category category = Category::data);
  template <class T>
  static Tensor from(const std::vector<T>& values, const Shape& shape, Device device = Device::cpu,
                     Category category = Category::data) {
    static_assert(detail::size_of(detail::dtype_of<T>()) == sizeof(T));
    return from(std::span<const T>(values), shape, device, category);
  }

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  int64_t size(int dim) const { return shape_[dim]; }
  int64_t numel() const { return shape_.numel(); }
  size_t bytes() const { return detail::bytes_of(dtype_, numel()); }
  DType dtype() const { return dtype_; }
  Device device() const { return storage().device(); }
  // "f32 [2, 3]", or with the label of its memory: "'hidden.weight' f32 [2, 3]".
  std::string describe() const;

  // Throws Error if this is a saved() tensor whose elements were overwritten since. Computes
  // elements that wait (compute_later()).
  detail::View view() const;
  // The elements on the host. Throws Error unless the tensor is a T tensor on Device::cpu, and has
  // elements.
  template <class T>
  std::span<T> span() const;
  // The elements as bytes, for any type.
  std::span<std::byte> host_bytes() const;
  // The element of a floating-point tensor with one element. On cuda this waits for the device.
  // Throws Error for any other tensor.
  double item() const;

  // These overwrite all elements, on any device, and are not recorded. copy_from() also copies
  // between devices. It throws Error unless shape and dtype agree, and if `source` has no elements
  // but this tensor has. Both are const, because a Tensor is a handle.
  void fill(double value) const;
  void copy_from(const Tensor& source) const;
  // Records that elements were overwritten by other means, such as an optimizer's step.
  void mark_overwritten() const { storage().overwritten(); }
  // A copy of the elements on `device`, with the same label unless a MemoryScope gives one. Copying
  // from cuda to cpu waits for the device. Throws Error as copy_from() does.
  Tensor to(Device device, Category category = Category::data) const;

  // Leaves the elements to compute(elements), which runs when somebody first asks for them, through
  // any tensor that shares the storage. So an op can return a loss before its backward has computed
  // it: backward writes the elements of a tensor that is_waiting() at future_view(), and then calls
  // stop_waiting(). If compute() throws, the elements go on waiting. Only one thread at a time may
  // use a tensor that waits. compute() must still find its operands as they are now. If a CUDA
  // graph is recorded in between (core/replay.h), the recording must contain the first reading.
  void compute_later(std::function<void(const detail::View& elements)> compute) const;
  bool is_waiting() const { return defined() && storage_->is_waiting(); }
  void stop_waiting() const { storage().stop_waiting(); }
  // view() without computing elements that wait: for kernels that write them, or that run later.
  detail::View future_view() const;

  // Returns this tensor under another shape, with the same storage and gradient. Throws Error
  // unless the number of elements agrees.
  Tensor reshape(const Shape& shape) const;
  // Rows [begin, end) of the first dimension, sharing storage. Throws Error if they are out of
  // range, and for a tensor that is being differentiated (its gradient would be written in parts).
  Tensor slice(int64_t begin, int64_t end) const;
  // Returns a tensor that shares the storage but takes no part in differentiation.
  Tensor detach() const;
  // detach() for a backward that will need the present elements: view() throws Error if fill(),
  // copy_from(), a step of their window or their loader has overwritten them since. Writes through
  // a view or a span are not detected; ops write so only where no one else can need the elements.
  Tensor saved() const;
  // True if no other tensor shares the storage. Only then may an op that received this tensor by
  // rvalue write its result over it.
  bool sole_owner() const { return storage_.use_count() == 1; }

  const std::shared_ptr<detail::Variable>& variable() const { return variable_; }
  void set_variable(std::shared_ptr<detail::Variable> variable) { variable_ = std::move(variable); }
  // Releases the elements, and the storage if no other tensor shares it.
  void reset() { *this = {}; }

 private:
  detail::Storage& storage() const {
    if (!storage_) [[unlikely]]
      fail_undefined();
    return *storage_;
  }
  // storage(). Throws Error if this is a saved() tensor that was overwritten.
  detail::Storage& unchanged_storage() const;
  // The view of the elements in a storage that begins at `data`.
  detail::View view_at(void* data) const;
  [[noreturn]] static void fail_undefined();
  [[noreturn]] void fail_overwritten() const;
  std::byte* host_data() const;

  std::shared_ptr<detail::Storage> storage_;
  size_t offset_bytes_ = 0;
  Shape shape_;
  DType dtype_ = DType::f32;
  std::optional<uint32_t> saved_version_;  // the storage's version that saved() expects
  std::shared_ptr<detail::Variable> variable_;
};

namespace detail {

// Returns the elements on the cpu: f16 and bf16 converted to f32 exactly, f64 rounded to f32, and
// other types unchanged. Returns the same tensor if nothing changes.
Tensor as_f32(const Tensor& tensor);

}  // namespace detail

}  // namespace accrue
