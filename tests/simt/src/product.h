#pragma once

#include <cstdint>

namespace simt {

// A matrix in row-major order, or the transpose of one.
template <class T>
struct Factor {
  const T* values;
  bool transposed = false;
};

// c = a b + c, with a [m, k], b [k, n] and c [m, n] in row-major order, of float or double. In a
// file of its own without the sanitizers, under which Eigen takes minutes to compile and to run.
template <class T>
void add_product(int64_t m, int64_t n, int64_t k, Factor<T> a, Factor<T> b, T* c);

}  // namespace simt
