#include "kernels/judged.h"

#include <algorithm>

#include "core/ceil_div.h"
#include "kernels/backend.h"
#include "kernels/detail/elements_per_block.h"

namespace accrue {
namespace cpu {

void judged_weight(View weight, View block_counts, View labels, int64_t labels_of_sample) {
  const int32_t* label = labels.as<const int32_t>();
  double* counts = block_counts.as<double>();
  parallel_each(block_counts.numel(), elements_per_block, [&](int64_t b) {
    const int32_t* const begin = label + b * elements_per_block;
    const int64_t size = std::min(elements_per_block, labels.numel() - b * elements_per_block);
    counts[b] = double(size - std::count(begin, begin + size, not_judged));
  });
  double sum = 0;
  for (int64_t b = 0; b < block_counts.numel(); ++b) sum += counts[b];
  *weight.as<double>() = sum / double(labels_of_sample);
}

void add_weighted(View sum, View mean, View weight) {
  dispatch_wide(mean.dtype, [&]<class T>() {
    *sum.as<double>() += double(*mean.as<const T>()) * *weight.as<const double>();
  });
}

}  // namespace cpu

namespace cuda {
decltype(cpu::judged_weight) judged_weight;
decltype(cpu::add_weighted) add_weighted;
}  // namespace cuda

Tensor judged_weight(const Tensor& labels) {
  check(labels.dtype() == DType::i32 && labels.numel() > 0,
        "[judged_weight] labels {} {}: expected i32 of one sample or more", name(labels.dtype()),
        labels.shape());
  Tensor weight = Tensor::empty({}, DType::f64, labels.device());
  const Tensor block_counts = Tensor::empty({ceil_div(labels.numel(), elements_per_block)},
                                            DType::f64, labels.device(), Category::workspace);
  launch<cpu::judged_weight, cuda::judged_weight>(labels.device(), weight.view(),
                                                  block_counts.view(), labels.view(),
                                                  labels.numel() / labels.size(0));
  return weight;
}

void add_weighted(View sum, View mean, View weight) {
  check(sum.numel() == 1 && sum.dtype == DType::f64 && mean.numel() == 1 && weight.numel() == 1 &&
            weight.dtype == DType::f64 && mean.device == sum.device && weight.device == sum.device,
        "[add_weighted] sum {} {} on {}, mean {} on {} and weight {} {} on {}: expected scalars on "
        "one device, sum and weight f64",
        name(sum.dtype), sum.shape, name(sum.device), mean.shape, name(mean.device),
        name(weight.dtype), weight.shape, name(weight.device));
  launch<cpu::add_weighted, cuda::add_weighted>(sum.device, sum, mean, weight);
}

}  // namespace accrue
