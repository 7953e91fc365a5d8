#pragma once

#include <memory>

#include "core/ledger.h"

namespace accrue {

// One block of device memory for elements of a shape, on the ledger from construction to
// destruction.
class Storage {
 public:
  // Throws OutOfMemory.
  Storage(const Shape& shape, DType dtype, Device device, Category category);
  // For elements on the host that `owner` keeps.
  Storage(const void* data, std::shared_ptr<const void> owner, const Shape& shape, DType dtype,
          Category category);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  Device device() const { return allocation_.device(); }
  Category category() const { return allocation_.info().category; }
  Label label() const { return allocation_.info().label; }

 private:
  // Counted before there is a block and until after it is gone.
  Allocation allocation_;
  void* data_ = nullptr;
  std::shared_ptr<const void> owner_;  // of the elements, if they are not this one's
};

}  // namespace accrue
