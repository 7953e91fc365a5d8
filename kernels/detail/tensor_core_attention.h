#pragma once

#include <initializer_list>

#include "kernels/detail/causal_attention_kernels.h"

namespace accrue::cuda {

// True if tensor cores can multiply these operands. They need compute capability 8.0 or newer, and
// heads of 16-bit elements with up to 128 channels, a multiple of 8. The heads of `in`, and of all
// `others` with data, must begin at multiples of 16 bytes.
bool is_for_tensor_cores(const CausalInputs& in, std::initializer_list<HeadColumns> others);

// Compute causal_attention() and its backward. t = sum_d dy[n, i, h, d] * y[n, i, h, d].
template <class T>
void attend_on_tensor_cores(View y, View L, const CausalInputs& in);
template <class T>
void differentiate_on_tensor_cores(const CausalTargets& targets, View dy, View L, const float* t,
                                   const CausalInputs& in);

}  // namespace accrue::cuda
