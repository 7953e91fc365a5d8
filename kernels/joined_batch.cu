#include "kernels/detail/elementwise.cuh"
#include "kernels/detail/joined_moments.h"

namespace accrue::cuda {
namespace {

// One thread for each channel, or for each term of a channel. There are few parts.
template <class W>
__global__ void __launch_bounds__(block_threads) join_moments_kernel(JoinedMoments<W> joined) {
  for (int64_t c = first_item(); c < joined.C; c += item_stride()) joined.store(c);
}

template <class W>
__global__ void __launch_bounds__(block_threads) join_dx_terms_kernel(JoinedDxTerms<W> joined) {
  for (int64_t i = first_item(); i < 2 * joined.C; i += item_stride()) joined.store(i);
}

}  // namespace

void join_moments(View moments, View of_parts, double eps, Running running) {
  dispatch_wide(moments.dtype, [&]<class W>() {
    const JoinedMoments<W> joined(moments, of_parts, eps, running);
    enqueue(grid_over(joined.C), join_moments_kernel<W>, joined);
  });
}

void join_dx_terms(View terms, View of_parts, View moments) {
  dispatch_wide(terms.dtype, [&]<class W>() {
    const JoinedDxTerms<W> joined(terms, of_parts, moments);
    enqueue(grid_over(2 * joined.C), join_dx_terms_kernel<W>, joined);
  });
}

}  // namespace accrue::cuda
