#include "kernels/convolutions.h"

#include <algorithm>

#include "core/cuda.h"
#include "kernels/backend.h"

namespace accrue {
namespace {

thread_local ConvolutionTrace* current = nullptr;

}  // namespace

std::string_view name(ConvolutionProduct product) {
  switch (product) {
    case ConvolutionProduct::forward: return "forward";
    case ConvolutionProduct::backward_data: return "backward data";
    case ConvolutionProduct::backward_filter: break;
  }
  return "backward filter";
}

ConvolutionTrace::ConvolutionTrace() : before_(std::exchange(current, this)) {}
ConvolutionTrace::~ConvolutionTrace() { current = before_; }

void ConvolutionTrace::note(const Convolution& convolution) {
  if (!current) return;
  auto& entries = current->entries_;
  const auto at = std::ranges::find(entries, convolution, &Entry::convolution);
  if (at == entries.end()) entries.push_back({convolution, 1});
  else ++at->count;
}

ConvolutionChoice choice_of(const Convolution& convolution) {
  cuda::require_device();
  if constexpr (built_with_cuda) return cuda::choice_of(convolution);
  return {};
}

double seconds_of(const Convolution& convolution) {
  cuda::require_device();
  if constexpr (built_with_cuda) return cuda::seconds_of(convolution);
  return 0;
}

}  // namespace accrue
