#include "core/error.h"
#include "kernels/detail/causal_attention_kernels.h"

namespace accrue::cuda {

void causal_attention(View, View, CausalInputs, View) {
  throw Error("[causal_attention] has no kernels on cuda yet");
}
void causal_attention_backward(CausalTargets, View, View, View, CausalInputs, View) {
  throw Error("[causal_attention] has no kernels on cuda yet");
}

}  // namespace accrue::cuda
