#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/backend.h"

namespace accrue {

// The number of rows whose losses one thread of the CPU, or one block of CUDA, adds up: about 16384
// elements, but enough rows for each warp of a block. It follows from the shape alone, so the loss
// depends neither on the number of threads nor on the device's size.
constexpr int64_t rows_per_block(int64_t C) { return std::max<int64_t>(16384 / C, 32); }
// The same for pixels.
constexpr int64_t pixels_per_block(int64_t C) { return std::max<int64_t>(16384 / C, 256); }

// -log softmax(row)[label], from the results of row_softmax(). The loss is a sum of two terms that
// are never negative, so no digits cancel. In a row that a model has learnt, the label has the
// maximum, and the other classes together would be lost beside its exp(0) = 1. `rest` therefore
// leaves out that 1: it is subtracted from the label's own term before the term is added to
// anything.
template <class T>
struct RowSoftmax {
  T maximum;
  T rest;  // sum_c term(x[c], c = label): the sum of exp(x - maximum), less 1

  HOST_DEVICE static T term(T x, T maximum, bool is_label) {
    return std::exp(x - maximum) - T(is_label);
  }
  HOST_DEVICE T loss(T x_label) const { return std::log1p(rest) + (maximum - x_label); }
  HOST_DEVICE T probability(T x) const { return std::exp(x - maximum) / (1 + rest); }
};

// True if entry `label` of a row is not the first of the largest entries because of entry c. A NaN
// always makes this true.
template <class T>
HOST_DEVICE bool outdoes(T x, T x_label, int64_t c, int64_t label) {
  return c < label ? !(x < x_label) : c > label && !(x <= x_label);
}

}  // namespace accrue
