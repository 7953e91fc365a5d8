#pragma once

#include "core/random.h"
#include "core/tensor.h"
#include "tests/support/device.h"

namespace accrue::test {

// A classification task's samples, on the device under test.
struct Batch {
  Tensor x, labels;
};

// Normally distributed x [samples, ...] of a floating dtype, and labels in [0, classes).
inline Batch random_batch(const Shape& shape, int64_t classes, uint64_t seed,
                          DType dtype = DType::f64) {
  RandomStream random(seed);
  const Tensor x = Tensor::empty(shape, dtype, Device::cpu, Category::data);
  const Tensor labels = Tensor::empty({shape[0]}, DType::i32, Device::cpu, Category::data);
  dispatch_wide(dtype, [&]<class T>() {
    for (T& value : x.span<T>()) value = random.normal();
  });
  for (int32_t& label : labels.span<int32_t>()) label = static_cast<int32_t>(random.below(classes));
  return {x.to(test_device()), labels.to(test_device())};
}

}  // namespace accrue::test
