#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <string>

// The tensor cores' products of 16 by 16 matrices, of 16-bit elements added up in float. Where a
// fragment has which element is nobody's business: here element i of lane l is number 32 i + l of
// the matrix, row by row. Loads happen when a lane arrives, so that it misses what others have yet
// to write; stores, when all have arrived.

namespace simt {

inline constexpr int fragment_elements = 8;
// What the lanes of a warp give to a product, and what lane 0 makes of it.
struct WarpProduct {
  struct Factors {
    const void *a = nullptr, *b = nullptr;
  } factors[warpSize];
  float product[16][16];
};
inline WarpProduct products[32];  // of the warps of a block

inline unsigned warp() {
  return ((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x) / warpSize;
}

inline void refuse_matrix(const std::string& what, Place place) {
  refuse(std::string("a wmma operation ") + what + " at " + place.file_name() + ":" +
         std::to_string(place.line()));
}

// Waits for the warp, which must agree on the matrix.
template <class T>
void meet_at_matrix(const T* matrix, unsigned stride, Place place) {
  const auto first = reinterpret_cast<const T*>(
      meet_warp(WarpOp::matrix, ~0u, reinterpret_cast<uint64_t>(matrix), 0, place));
  if (first != matrix) refuse_matrix("whose lanes name several matrices", place);
  if (reinterpret_cast<uintptr_t>(matrix) % 32 != 0)
    refuse_matrix("on a matrix that is not aligned to 32 bytes", place);
  if (stride * sizeof(T) % 16 != 0)
    refuse_matrix("on a matrix whose rows are not a multiple of 16 bytes apart", place);
}

template <class A, class B>
void multiply_fragments(WarpProduct& of_warp, Place place) {
  float a[16][16], b[16][16];
  for (unsigned lane = 0; lane < warpSize; ++lane) {
    const WarpProduct::Factors& from = of_warp.factors[lane];
    if (from.a == nullptr) refuse_matrix("that a lane takes no part in", place);
    for (int i = 0; i < fragment_elements; ++i) {
      const unsigned element = unsigned(i) * warpSize + lane;
      a[element / 16][element % 16] = static_cast<const std::remove_reference_t<A>*>(from.a)->x[i];
      b[element / 16][element % 16] = static_cast<const std::remove_reference_t<B>*>(from.b)->x[i];
    }
  }
  for (int m = 0; m < 16; ++m)
    for (int n = 0; n < 16; ++n) {
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += a[m][k] * b[k][n];
      of_warp.product[m][n] = sum;
    }
}

}  // namespace simt

namespace nvcuda::wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };

template <class Use, int m, int n, int k, class T, class Layout = void>
struct fragment {
  static_assert(m == 16 && n == 16 && k == 16, "the runner knows 16 by 16 matrices alone");
  static constexpr bool sums = std::is_same_v<Use, accumulator>;
  static_assert(sums ? std::is_same_v<T, float> && std::is_void_v<Layout>
                     : simt::one_of<T, __half, __nv_bfloat16> && !std::is_void_v<Layout>);
  static constexpr int num_elements = simt::fragment_elements;

  T x[num_elements];

  // The place in memory of element i of this lane.
  static unsigned at(int i, unsigned stride, layout_t layout) {
    const unsigned element = unsigned(i) * warpSize + simt::lane();
    const unsigned row = element / 16, column = element % 16;
    return layout == mem_row_major ? row * stride + column : column * stride + row;
  }
};

template <class Use, class T, class Layout>
void fill_fragment(fragment<Use, 16, 16, 16, T, Layout>& f, std::type_identity_t<T> value) {
  for (T& x : f.x) x = value;
}

template <class T>
void load_matrix_sync(fragment<accumulator, 16, 16, 16, T>& f, const T* from, unsigned stride,
                      layout_t layout, simt::Place place = simt::Place::current()) {
  for (int i = 0; i < f.num_elements; ++i) f.x[i] = from[f.at(i, stride, layout)];
  simt::meet_at_matrix(from, stride, place);
}
template <class Use, class T, class Layout>
requires(!std::is_void_v<Layout>) void load_matrix_sync(
    fragment<Use, 16, 16, 16, T, Layout>& f, const T* from, unsigned stride,
    simt::Place place = simt::Place::current()) {
  constexpr layout_t layout = std::is_same_v<Layout, row_major> ? mem_row_major : mem_col_major;
  for (int i = 0; i < f.num_elements; ++i)
    std::memcpy(&f.x[i], from + f.at(i, stride, layout), sizeof(T));
  simt::meet_at_matrix(from, stride, place);
}

template <class T>
void store_matrix_sync(T* to, const fragment<accumulator, 16, 16, 16, T>& f, unsigned stride,
                       layout_t layout, simt::Place place = simt::Place::current()) {
  simt::meet_at_matrix(to, stride, place);
  for (int i = 0; i < f.num_elements; ++i) to[f.at(i, stride, layout)] = f.x[i];
}

// d = a b + c; d may be c.
template <class T, class LayoutA, class LayoutB>
void mma_sync(fragment<accumulator, 16, 16, 16, float>& d,
              const fragment<matrix_a, 16, 16, 16, T, LayoutA>& a,
              const fragment<matrix_b, 16, 16, 16, T, LayoutB>& b,
              const fragment<accumulator, 16, 16, 16, float>& c,
              simt::Place place = simt::Place::current()) {
  simt::WarpProduct& of_warp = simt::products[simt::warp()];
  of_warp.factors[simt::lane()] = {&a, &b};
  simt::meet_warp(simt::WarpOp::matrix, ~0u, 0, simt::lane(), place);
  if (simt::lane() == 0) simt::multiply_fragments<decltype(a), decltype(b)>(of_warp, place);
  // Lane 0 reads the others' factors, and they read what it has written.
  simt::meet_warp(simt::WarpOp::matrix, ~0u, 0, 0, place);
  of_warp.factors[simt::lane()] = {};
  for (int i = 0; i < d.num_elements; ++i) {
    const unsigned element = unsigned(i) * warpSize + simt::lane();
    d.x[i] = c.x[i] + of_warp.product[element / 16][element % 16];
  }
}

}  // namespace nvcuda::wmma
