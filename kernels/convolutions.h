#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "core/inside.h"
#include "kernels/detail/conv_geometry.h"

// Tells which convolutions a computation needs, and how cuDNN computes each on cuda.
namespace accrue {

// The three products, by cuDNN's names: forward makes a grid from an image, backward data makes an
// image from a grid, and backward filter makes weights from both (kernels/detail/conv_products.h).
enum class ConvolutionProduct { forward, backward_data, backward_filter };
std::string_view name(ConvolutionProduct product);

struct Convolution {
  ConvolutionProduct product;
  ConvGeometry geometry;
  int64_t N;
  DType dtype;

  auto operator<=>(const Convolution&) const = default;
};

// While alive, records the convolutions that this thread computes, or only plans on a meta device.
// While a second trace is alive inside the first, only the second records.
class ConvolutionTrace {
 public:
  struct Entry {
    Convolution convolution;
    int64_t count;
  };

  ConvolutionTrace();
  ~ConvolutionTrace();
  ConvolutionTrace(const ConvolutionTrace&) = delete;
  ConvolutionTrace& operator=(const ConvolutionTrace&) = delete;

  // The distinct convolutions, in the order of their first occurrence.
  const std::vector<Entry>& entries() const { return entries_; }

  static void note(const Convolution& convolution);

 private:
  std::vector<Entry> entries_;
  ConvolutionTrace* before_;
};

// How cuDNN computes a convolution, as far as it tells beforehand: an algorithm may still refuse
// when it is called, and then another takes its place.
struct ConvolutionChoice {
  std::string algorithm, math;  // "IMPLICIT_PRECOMP_GEMM", "TENSOR_OP_MATH"
  int64_t workspace_bytes = 0;  // what the algorithm asks for
  int64_t scratch_bytes = 0;    // available, also for copies of operands
  int64_t parts = 0;            // of the images: several where cuDNN cannot take all at once
  bool padded = false;          // computed on a padded copy of the images
};
// Both throw Error unless Device::cuda can be used and cuDNN can compute the convolution.
// seconds_of() allocates and computes what it times, so it may also throw OutOfMemory.
ConvolutionChoice choice_of(const Convolution& convolution);
double seconds_of(const Convolution& convolution);

namespace cuda {
decltype(accrue::choice_of) choice_of;
decltype(accrue::seconds_of) seconds_of;
}  // namespace cuda
}  // namespace accrue
