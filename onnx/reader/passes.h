#pragma once

#include <set>
#include <string>
#include <vector>

#include "onnx/reader/file.h"

namespace accrue::detail {

// The nodes with what exporters took apart put together again, so that it is one op of the network,
// which is faster and keeps less for backward. Each becomes a node of the domain "accrue" with the
// same formula, which onnx/reader/conversions_*.cpp turn into calls:
//   LayerNorm(x, scale, bias; axes, epsilon), RmsNorm(x, scale; axes, epsilon)
//   Gelu(x; approximate), Silu(x), Mish(x), HardSwish(x), HardSigmoid(x)
//   Noise(x, like, shape; p): x times noise that is 0 with probability p and else 1 / (1 - p), with
//       the sizes of `like`, or if that is left out those that the constant `shape` holds
//   Attention(q, k, v, mask, rows, list, factors...;
//       scale, divides, transposed, mask, masked, axis, clears_nan): softmax(scale * q k^T + mask)
//       v. Each factor multiplies the scale or divides it. With transposed 1, k is [.., D, S].
//       `rows` and `list` are k before it was transposed by way of three dimensions: [.., S, D] and
//       [n, S, D], if the sizes say so. mask is none, add, where (scores where it is true, else
//       `masked`) or where_not.
//   Linear(x, weight, bias; turned): x times the weight [I, O], or with turned 1 times the
//       transpose of [O, I], plus the bias [O]
//   Parts(x, split; axis, keepdims, places): the parts of SplitToSequence with these numbers
// A part whose results something else takes, or `outputs` name, stays as it is.
std::vector<OnnxNode> put_together(std::vector<OnnxNode> nodes, const OnnxFile& file,
                                   const std::set<std::string>& outputs);

}  // namespace accrue::detail
