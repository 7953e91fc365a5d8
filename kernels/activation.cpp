#include "kernels/activation.h"

#include "kernels/detail/wide_runs.h"

namespace accrue::cpu {

void activation_backward_over(View dy, View y, Activation activation) {
  if (activation == Activation::none) return;
  with_formula(activation, [&]<class F>(F f) {
    dispatch_widened(dy.dtype, [&]<class W>() {
      const formula::Backward<F> through{f};
      for_each_wide_run(dy.dtype, dy.numel(), [&](int64_t first, int64_t n) {
        const WideInput<W> from(dy, first, n), by(y, first, n);
        const WideOutput<W> to(dy, 0, first, n);
        const W *const in = from.data(), *const at = by.data();
        W* const out = to.data();
        for (int64_t i = 0; i < n; ++i) out[i] = through(in[i], at[i]);
      });
    });
  });
}

}  // namespace accrue::cpu
