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

// The three products, by cuDNN's names for them: of an image, giving a grid; of a grid, giving an
// image; of both, giving weights (kernels/detail/conv_products.h).
enum class ConvolutionProduct { forward, backward_data, backward_filter };
std::string_view name(ConvolutionProduct product);

struct Convolution {
  ConvolutionProduct product;
  ConvGeometry geometry;
  int64_t N;
  DType dtype;

  auto operator<=>(const Convolution&) const = default;
};

// While alive, notes the convolutions that this thread computes, or predicts on a meta device. A
// trace within another takes its place.
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

  // The distinct ones, in the order in which they came first.
  const std::vector<Entry>& entries() const { return entries_; }

  static void note(const Convolution& convolution);

 private:
  std::vector<Entry> entries_;
  ConvolutionTrace* before_;
};

// How cuDNN computes a convolution, as far as it tells before it does: an algorithm may refuse only
// when it is called, and then another takes its place.
struct ConvolutionChoice {
  std::string algorithm, math;  // "IMPLICIT_PRECOMP_GEMM", "TENSOR_OP_MATH"
  int64_t workspace_bytes = 0;  // what the algorithm asks for
  int64_t scratch_bytes = 0;    // what there is, for copies of operands, too
  int64_t parts = 0;            // of the images; more than 1 where there is no way for all at once
  bool padded = false;          // on a padded copy of the images
};
// Throw Error unless Device::cuda can be used, or if cuDNN has no way. The second allocates and
// computes what it times; it throws OutOfMemory.
ConvolutionChoice choice_of(const Convolution& convolution);
double seconds_of(const Convolution& convolution);

namespace cuda {
decltype(accrue::choice_of) choice_of;
decltype(accrue::seconds_of) seconds_of;
}  // namespace cuda
}  // namespace accrue
