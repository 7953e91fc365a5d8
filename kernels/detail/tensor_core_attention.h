#pragma once

#include <initializer_list>

#include "kernels/detail/causal_attention_kernels.h"

namespace accrue::cuda {

// Whether these are multiplied on tensor cores: heads of 16-bit elements, of up to 128 channels, a
// multiple of 8, that begin at multiples of 16 bytes, as those of all `others` with data do, on
// compute capability 8.0 or newer.
bool is_for_tensor_cores(const CausalInputs& in, std::initializer_list<HeadColumns> others);

// As causal_attention() and its backward, from t = sum_d dy[n, i, h, d] * y[n, i, h, d].
template <class T>
void attend_on_tensor_cores(View y, View L, const CausalInputs& in);
template <class T>
void differentiate_on_tensor_cores(const CausalTargets& targets, View dy, View L, const float* t,
                                   const CausalInputs& in);

}  // namespace accrue::cuda
