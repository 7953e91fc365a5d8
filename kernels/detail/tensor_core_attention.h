#pragma once

#include <initializer_list>

#include "kernels/detail/causal_attention_kernels.h"

namespace accrue::cuda {

// True if tensor cores can multiply these operands. They need compute capability 8.0 or newer and
// shapes that suit them. The heads of `in`, and of all `others` with data, must begin at multiples
// of 16 bytes.
bool is_for_tensor_cores(const CausalInputs& in, std::initializer_list<HeadColumns> others);

// Compute causal_attention() and its backward. Scratch begins with the output_products() elements
// of t[n, h, i] = sum_d dy[n, i, h, d] * y[n, i, h, d]; the sums of HeadParts follow.
template <class T>
void attend_on_tensor_cores(View y, View L, const CausalInputs& in);
template <class T>
void differentiate_on_tensor_cores(const CausalTargets& targets, View dy, View L, float* scratch,
                                   const CausalInputs& in);

}  // namespace accrue::cuda
