#include "kernels/joined_batch.h"

#include "kernels/backend.h"
#include "kernels/detail/joined_moments.h"

namespace accrue {
namespace cpu {

void join_moments(View moments, View of_parts, double eps, Running running) {
  dispatch_wide(moments.dtype, [&]<class W>() {
    const JoinedMoments<W> joined(moments, of_parts, eps, running);
    check(joined.elements_of(0) > 1,
          "[batch_norm] a batch has a single element of a channel, which has no variance: expected "
          "several");
    for (int64_t c = 0; c < joined.C; ++c) joined.store(c);
  });
}

void join_dx_terms(View terms, View of_parts, View moments) {
  dispatch_wide(terms.dtype, [&]<class W>() {
    const JoinedDxTerms<W> joined(terms, of_parts, moments);
    for (int64_t i = 0; i < 2 * joined.C; ++i) joined.store(i);
  });
}

}  // namespace cpu

namespace cuda {
decltype(cpu::join_moments) join_moments;
decltype(cpu::join_dx_terms) join_dx_terms;
}  // namespace cuda

Tensor join_moments(const Tensor& of_parts, double eps, const RunningStatistics& running) {
  const int64_t C = of_parts.size(2);
  Tensor moments = Tensor::empty({3, C}, of_parts.dtype(), of_parts.device());
  Running moved;
  if (running.mean.defined()) moved = {running.mean.view(), running.var.view(), running.momentum};
  launch<cpu::join_moments, cuda::join_moments>(of_parts.device(), moments.view(), of_parts.view(),
                                                eps, moved);
  return moments;
}

Tensor join_dx_terms(const Tensor& of_parts, const Tensor& moments) {
  Tensor terms = Tensor::empty(moments.slice(0, 2).shape(), of_parts.dtype(), of_parts.device());
  terms = terms.reshape({of_parts.size(1), 2});
  launch<cpu::join_dx_terms, cuda::join_dx_terms>(of_parts.device(), terms.view(), of_parts.view(),
                                                  moments.view());
  return terms;
}

}  // namespace accrue
