// Products on tensor cores.

#include <mma.h>

#include <cmath>

#include "runner.h"

namespace {

using namespace nvcuda;

template <class T, class Layout>
using Left = wmma::fragment<wmma::matrix_a, 16, 16, 16, T, Layout>;
template <class T, class Layout>
using Right = wmma::fragment<wmma::matrix_b, 16, 16, 16, T, Layout>;
using Sums = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;

// Each warp has a product of its own: c = 2 (a b) + c, by a sum that is scaled in between.
template <class T, class LayoutA, class LayoutB>
__global__ void __launch_bounds__(64) multiply(float* c, const T* a, const T* b) {
  const int first = threadIdx.x / 32 * 256;
  Left<T, LayoutA> left;
  Right<T, LayoutB> right;
  Sums sums, before;
  wmma::fill_fragment(sums, 0.0f);
  wmma::load_matrix_sync(left, a + first, 16);
  wmma::load_matrix_sync(right, b + first, 16);
  wmma::mma_sync(sums, left, right, sums);
  wmma::load_matrix_sync(before, c + first, 16, wmma::mem_row_major);
  for (int i = 0; i < sums.num_elements; ++i) sums.x[i] = 2 * sums.x[i] + before.x[i];
  wmma::store_matrix_sync(c + first, sums, 16, wmma::mem_row_major);
}

template <class T, class LayoutA, class LayoutB>
void check_products() {
  const FreshDevice fresh;
  std::vector<T> a, b;
  std::vector<float> c;
  for (int i = 0; i < 512; ++i) {
    a.push_back(T(float(i * 7 % 13 - 6)));
    b.push_back(T(float(i * 5 % 11 - 5)));
    c.push_back(float(i % 17));
  }
  const auto at = [](bool by_rows, int row, int column) {
    return by_rows ? row * 16 + column : column * 16 + row;
  };
  std::vector<float> expected = c;
  for (int i = 0; i < 512; ++i) {
    const int first = i / 256 * 256, row = i % 256 / 16, column = i % 16;
    for (int k = 0; k < 16; ++k)
      expected[i] += 2 * float(a[first + at(std::is_same_v<LayoutA, wmma::row_major>, row, k)]) *
                     float(b[first + at(std::is_same_v<LayoutB, wmma::row_major>, k, column)]);
  }
  for (const uint64_t seed : {1, 2}) {
    simt::set_seed(seed);
    Array<T> a_device(a), b_device(b);
    Array<float> c_device(c);
    REQUIRE(launch(1, 64, multiply<T, LayoutA, LayoutB>, c_device.data(), a_device.data(),
                   b_device.data()) == cudaSuccess);
    CHECK(c_device.read() == expected);
  }
}

__global__ void __launch_bounds__(32) half_of_the_warp(float* c) {
  if (threadIdx.x >= 16) return;
  Sums sums;
  Left<__half, wmma::row_major> a;
  Right<__half, wmma::row_major> b;
  wmma::fill_fragment(a, __half(1.0f));
  wmma::fill_fragment(b, __half(1.0f));
  wmma::fill_fragment(sums, 0.0f);
  wmma::mma_sync(sums, a, b, sums);
  c[threadIdx.x] = sums.x[0];
}
__global__ void __launch_bounds__(32) misaligned(float* c) {
  Sums sums;
  wmma::load_matrix_sync(sums, c + 4, 16, wmma::mem_row_major);
}
__global__ void __launch_bounds__(32) odd_rows(float* c) {
  Sums sums;
  wmma::load_matrix_sync(sums, c, 17, wmma::mem_row_major);
}
__global__ void __launch_bounds__(32) several_matrices(float* c) {
  Sums sums;
  wmma::load_matrix_sync(sums, c + threadIdx.x / 16 * 8, 16, wmma::mem_row_major);
}
// Lane 0 leaves the others waiting.
__global__ void __launch_bounds__(32) diverges(float* c) {
  Sums sums;
  if (threadIdx.x == 0) __syncwarp();
  wmma::fill_fragment(sums, 0.0f);
  wmma::store_matrix_sync(c, sums, 16, wmma::mem_row_major);
}

std::string failure_of(void (*kernel)(float*)) {
  simt::reset();
  Array<float> c(512);
  REQUIRE(launch(1, 32, kernel, c.data()) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
  return simt::last_report();
}

}  // namespace

TEST_CASE("Products of matrices in both layouts and types", "[simt]") {
  check_products<__half, wmma::row_major, wmma::row_major>();
  check_products<__half, wmma::row_major, wmma::col_major>();
  check_products<__half, wmma::col_major, wmma::row_major>();
  check_products<__nv_bfloat16, wmma::row_major, wmma::col_major>();
  check_products<__nv_bfloat16, wmma::col_major, wmma::row_major>();
}

TEST_CASE("What a tensor core cannot multiply is reported", "[simt]") {
  const FreshDevice fresh;
  CHECK_THAT(failure_of(half_of_the_warp), ContainsSubstring("a lane takes no part"));
  CHECK_THAT(failure_of(misaligned), ContainsSubstring("not aligned to 32 bytes"));
  CHECK_THAT(failure_of(odd_rows), ContainsSubstring("not a multiple of 16 bytes apart"));
  CHECK_THAT(failure_of(several_matrices), ContainsSubstring("whose lanes name several matrices"));
  CHECK_THAT(failure_of(diverges), ContainsSubstring("a wmma operation"));
}
