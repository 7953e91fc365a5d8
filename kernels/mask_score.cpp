#include "kernels/mask_score.h"

#include "kernels/detail/formulas.h"
#include "kernels/detail/reduce.h"

namespace accrue {
namespace cpu {

void add_mask_score(View score, View x, View masks) {
  dispatch_floating(x.dtype, [&]<class T>() {
    const T *in = x.as<T>(), *t = masks.as<T>();
    int64_t both = 0, found = 0, wanted = 0;
    for (int64_t i = 0; i < x.numel(); ++i) {
      both += in[i] > 0 && t[i] > 0;
      found += in[i] > 0;
      wanted += t[i] > 0;
    }
    double* sums = score.as<double>();
    sums[0] += sum_of<Wide<T>>(
        x.numel(), [=](int64_t i) { return formula::LogisticLoss{}(widen(in[i]), widen(t[i])); });
    sums[1] += static_cast<double>(both);
    sums[2] += static_cast<double>(found);
    sums[3] += static_cast<double>(wanted);
  });
}

}  // namespace cpu

// In the .cu beside this file.
namespace cuda {
decltype(cpu::add_mask_score) add_mask_score;
}  // namespace cuda

void add_mask_score(const Tensor& score, const Tensor& x, const Tensor& masks) {
  check_same("add_mask_score", {&x, &masks});
  check(x.shape() == masks.shape() && x.numel() > 0,
        "[add_mask_score] x {} and masks {}: expected one shape of at least one element", x.shape(),
        masks.shape());
  check(score.defined() && score.shape() == Shape{4} && score.dtype() == DType::f64 &&
            score.device() == x.device(),
        "[add_mask_score] expected score f64 [4] on {}, where x is", name(x.device()));
  launch<cpu::add_mask_score, cuda::add_mask_score>(x.device(), score.view(), x.view(),
                                                    masks.view());
}

}  // namespace accrue
