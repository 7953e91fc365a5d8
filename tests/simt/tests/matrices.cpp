// Products on tensor cores, and copies that a thread begins and waits for.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>

#include <cmath>

#include "runner.h"
#include "tensor_cores.h"

namespace {

using namespace accrue::cuda;

// Each warp computes its own product: c [16, 8] += a [16, 16] b. b is stored as [16, 8], row by
// row, or as [8, 16], column by column. Rows of shared memory are 24 elements long.
template <class T, bool by_columns>
__global__ void __launch_bounds__(64) multiply(float* c, const T* a, const T* b) {
  struct alignas(16) Row {
    T of[24];
  };
  __shared__ Row rows[2][16], right[2][16];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int i = lane; i < 256; i += 32) rows[warp][i / 16].of[i % 16] = a[256 * warp + i];
  for (int i = lane; i < 128; i += 32) {
    const int width = by_columns ? 16 : 8;
    right[warp][i / width].of[i % width] = b[128 * warp + i];
  }
  __syncwarp();
  uint32_t left[4], of_b[4];
  load_matrices(left, &rows[warp][lane % 16].of[lane / 16 * 8]);
  // Asks twice for each of two matrices, as load_matrices() loads four.
  if constexpr (by_columns) load_matrices(of_b, &right[warp][lane % 8].of[lane / 8 % 2 * 8]);
  else load_transposed_matrices(of_b, &right[warp][lane % 16].of[0]);
  float sums[4];
  const auto at = [&](int i) {
    return c + 128 * warp + (lane / 4 + i / 2 * 8) * 8 + 2 * (lane % 4) + i % 2;
  };
  for (int i = 0; i < 4; ++i) sums[i] = *at(i);
  for (int i = 0; i < 4; i += 2)
    if constexpr (std::is_same_v<T, __half>) add_f16_product(sums, left, of_b[i], of_b[i + 1]);
    else add_bf16_product(sums, left, of_b[i], of_b[i + 1]);
  for (int i = 0; i < 4; ++i) *at(i) = sums[i];
}

template <class T, bool by_columns>
void check_products() {
  const FreshDevice fresh;
  std::vector<T> a, b;
  std::vector<float> c;
  for (int i = 0; i < 512; ++i) a.push_back(T(float(i * 7 % 13 - 6)));
  for (int i = 0; i < 256; ++i) b.push_back(T(float(i * 5 % 11 - 5)));
  for (int i = 0; i < 256; ++i) c.push_back(float(i % 17));
  std::vector<float> expected = c;
  for (int i = 0; i < 256; ++i) {
    const int warp = i / 128, row = i % 128 / 8, column = i % 8;
    for (int k = 0; k < 16; ++k)
      expected[i] += 2 * float(a[256 * warp + row * 16 + k]) *
                     float(b[128 * warp + (by_columns ? column * 16 + k : k * 8 + column)]);
  }
  for (const uint64_t seed : {1, 2}) {
    simt::set_seed(seed);
    Array<T> a_device(a), b_device(b);
    Array<float> c_device(c);
    REQUIRE(launch(1, 64, multiply<T, by_columns>, c_device.data(), a_device.data(),
                   b_device.data()) == cudaSuccess);
    CHECK(c_device.read() == expected);
  }
}

__global__ void __launch_bounds__(32) half_of_the_warp(float* c) {
  if (threadIdx.x >= 16) return;
  float sums[4] = {};
  const uint32_t a[4] = {};
  add_f16_product(sums, a, 0, 0);
  c[threadIdx.x] = sums[0];
}
__global__ void __launch_bounds__(32) misaligned(float* c) {
  uint32_t to[4];
  load_matrices(to, c + 1);
}
// Lane 0 leaves the others waiting.
__global__ void __launch_bounds__(32) diverges(float* c) {
  uint32_t to[4];
  if (threadIdx.x == 0) __syncwarp();
  load_matrices(to, c);
}
// Reads what other lanes have written without a barrier in between.
__global__ void __launch_bounds__(32) reads_too_early(float* c) {
  __shared__ float4 rows[32];
  rows[threadIdx.x] = {0, 0, 0, 0};
  __syncwarp();
  rows[31 - threadIdx.x] = {1, 1, 1, 1};
  uint32_t to[4];
  load_matrices(to, &rows[threadIdx.x]);
  for (int i = 0; i < 4; ++i) c[4 * threadIdx.x + i] = float(to[i] == 0);
}

std::string failure_of(void (*kernel)(float*)) {
  simt::reset();
  Array<float> c(512);
  REQUIRE(launch(1, 32, kernel, c.data()) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
  return simt::last_report();
}

// Doubles x. Each thread copies four elements, except the last one, which copies one element and
// three zeros. A copy that nobody waited for is NaN.
__global__ void __launch_bounds__(32) copy_and_double(float* y, const float* x, bool waits) {
  __shared__ float4 copies[2][32];
  const unsigned thread = threadIdx.x;
  const auto begin = [&](int i) {
    __pipeline_memcpy_async(&copies[i][thread], x + 128 * i + 4 * thread, 16,
                            thread == 31 ? 12 : 0);
    __pipeline_commit();
  };
  begin(0);
  begin(1);
  __pipeline_wait_prior(waits ? 0 : 1);
  for (int i = 0; i < 2; ++i) {
    const float4 copy = copies[i][thread];
    const float values[] = {copy.x, copy.y, copy.z, copy.w};
    for (int k = 0; k < 4; ++k) y[128 * i + 4 * thread + k] = 2 * values[k];
  }
}
__global__ void __launch_bounds__(32) copies_between_vectors(float* c) {
  __shared__ float4 copy[32];
  __pipeline_memcpy_async(&copy[threadIdx.x], c + threadIdx.x, 16);
}

}  // namespace

TEST_CASE("Products of matrices in both layouts and types", "[simt]") {
  check_products<__half, true>();
  check_products<__half, false>();
  check_products<__nv_bfloat16, true>();
  check_products<__nv_bfloat16, false>();
}

TEST_CASE("What a tensor core cannot multiply is reported", "[simt]") {
  const FreshDevice fresh;
  CHECK_THAT(failure_of(half_of_the_warp), ContainsSubstring("a lane takes no part"));
  CHECK_THAT(failure_of(misaligned), ContainsSubstring("not aligned to 16 bytes"));
  CHECK_THAT(failure_of(diverges), ContainsSubstring("a tensor core's operation"));
}

TEST_CASE("A tensor core misses what a lane writes after another has arrived", "[simt]") {
  const FreshDevice fresh;
  Array<float> c(128);
  REQUIRE(launch(1, 32, reads_too_early, c.data()) == cudaSuccess);
  const std::vector<float> missed = c.read();
  CHECK(std::count(missed.begin(), missed.end(), 1.0f) > 0);
}

TEST_CASE("Copies happen when a thread waits for them", "[simt]") {
  const FreshDevice fresh;
  std::vector<float> x(256);
  for (int i = 0; i < 256; ++i) x[i] = float(i);
  for (const bool waits : {true, false}) {
    Array<float> from(x), to(256);
    REQUIRE(launch(1, 32, copy_and_double, to.data(), from.data(), waits) == cudaSuccess);
    const std::vector<float> y = to.read();
    for (int i = 0; i < 256; ++i) {
      if (i >= 128 && !waits) CHECK(std::isnan(y[i]));
      else CHECK(y[i] == (i % 128 > 124 ? 0 : 2 * x[i]));
    }
  }
  CHECK_THAT(failure_of(copies_between_vectors), ContainsSubstring("aligned to as many"));
}
