#include "layers/self_attention.h"

#include <algorithm>

#include "core/inside.h"
#include "kernels/scale_add.h"
#include "kernels/self_attention.h"

namespace accrue {

SelfAttention::SelfAttention(int64_t channels, InitScheme scheme)
    : channels_(channels),
      inner_channels_(std::max<int64_t>(channels / 8, 1)),
      query_(channels, inner_channels_, 1, {}, scheme),
      key_(channels, inner_channels_, 1, {}, scheme),
      value_(channels, channels, 1, {}, scheme),
      gamma_{{1}, Init::constant(0), {}} {
  declare("query", query_);
  declare("key", key_);
  declare("value", value_);
  declare("gamma", gamma_);
}

Tensor SelfAttention::forward(Tensor x, const Pass& pass) const {
  const Tensor q = query_(x, pass), k = key_(x, pass), v = value_(x, pass);
  return scale_add(x, gamma_.tensor, self_attention(q, k, v));
}

std::string SelfAttention::describe() const {
  return fmt::format("self-attention {}, by scores of {} channels", channels_, inner_channels_);
}

}  // namespace accrue
