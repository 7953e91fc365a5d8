#pragma once

#include <vector>

#include "convolution.h"

namespace simt {

// The shape that a convolution of x by w gives.
Tensor output_of(const Tensor& x, const Tensor& w, const Conv& conv);

// Checks a problem as far as this needs no algorithm.
cudnnStatus_t judge(const Problem& p);

// An algorithm and the math type that it needs: under another type it fails.
template <class Algo>
struct Pair {
  Algo algo;
  cudnnMathType_t math;
  size_t bytes;
  cudnnDeterminism_t determinism = CUDNN_DETERMINISTIC;
  Arithmetic arithmetic = Arithmetic::plain;
};

// All pairs for the problem, in the order of the heuristic. It lists both math types whatever the
// descriptor says: "algorithms without the CUDNN_TENSOR_OP_MATH availability will only be tried
// with CUDNN_DEFAULT_MATH, and returned as such" (the API reference on Find and Get_v7).
template <class Algo>
std::vector<Pair<Algo>> pairs_of(const Problem& p);

// False if a window can lie in the padding alone: no algorithm handles that.
bool has_algorithms(const Problem& p);

}  // namespace simt
