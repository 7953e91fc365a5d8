// Every intrinsic of kernels, against the same thing computed on the host.

#include <algorithm>
#include <bit>
#include <numeric>

#include "runner.h"

namespace {

constexpr unsigned all = ~0u;

template <int Threads>
__device__ float block_sum(float value) {
  __shared__ float part[Threads / 32];
  for (int m = 16; m > 0; m /= 2) value += __shfl_xor_sync(all, value, m);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
  __syncthreads();
  value = threadIdx.x < Threads / 32 ? part[threadIdx.x] : 0.0f;
  for (int m = 16; m > 0; m /= 2) value += __shfl_xor_sync(all, value, m);
  return value;
}

__global__ void __launch_bounds__(256) axpy(float* y, const float* __restrict__ x, float a, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    y[i] += a * __ldg(x + i);
  }
}

__global__ void __launch_bounds__(128) row_sums(float* sums, const float* x, int cols) {
  float value = 0;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) value += x[blockIdx.x * cols + c];
  value = block_sum<128>(value);
  if (threadIdx.x == 0) sums[blockIdx.x] = value;
}

__global__ void __launch_bounds__(60) record_index(uint4* out) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] = make_uint4(
      blockIdx.x + 10 * blockIdx.y + 100 * blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z);
}

__global__ void __launch_bounds__(32) shuffles(int* out, int width) {
  const int lane = threadIdx.x, value = 100 + lane;
  out[lane] = __shfl_sync(all, value, lane / 2 + 3, width);
  out[lane + 32] = __shfl_xor_sync(all, value, 5, width);
  out[lane + 64] = __shfl_down_sync(all, value, 3, width);
  out[lane + 96] = __shfl_up_sync(all, value, 3, width);
}

__global__ void __launch_bounds__(32) wide_shuffle(double* out) {
  out[threadIdx.x] = __shfl_sync(all, 1.0 / (threadIdx.x + 1), 31 - threadIdx.x);
}

__global__ void __launch_bounds__(64) votes(unsigned* out) {
  const int lane = threadIdx.x % 32;
  const bool odd = lane % 2 != 0;
  const unsigned halves = lane < 16 ? 0x0000ffff : 0xffff0000;
  out[threadIdx.x * 6] = __ballot_sync(all, odd);
  out[threadIdx.x * 6 + 1] = __ballot_sync(halves, odd);
  out[threadIdx.x * 6 + 2] = __any_sync(all, lane == 7);
  out[threadIdx.x * 6 + 3] = __any_sync(halves, lane == 7);
  out[threadIdx.x * 6 + 4] = __all_sync(all, lane < 16);
  out[threadIdx.x * 6 + 5] = __all_sync(halves, lane < 16);
}

__global__ void __launch_bounds__(100) block_votes(int* out) {
  const bool third = threadIdx.x % 3 == 0;
  out[threadIdx.x * 5] = __syncthreads_count(third);
  out[threadIdx.x * 5 + 1] = __syncthreads_and(third);
  out[threadIdx.x * 5 + 2] = __syncthreads_and(threadIdx.x < 1000);
  out[threadIdx.x * 5 + 3] = __syncthreads_or(third);
  out[threadIdx.x * 5 + 4] = __syncthreads_or(threadIdx.x > 1000);
}

// Threads from n on have returned before the others meet: a vote does not wait for them.
__global__ void __launch_bounds__(40) early_exit(unsigned* out, int n) {
  if (int(threadIdx.x) >= n) return;
  out[threadIdx.x] = __ballot_sync(all, 1);
}

__global__ void __launch_bounds__(64) atomics(float* sum, int* ints, unsigned* unsigneds) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(sum, 0.5f);
  atomicAdd(&ints[0], 1);
  atomicMax(&ints[1], i);
  atomicMin(&ints[2], -i);
  atomicExch(&ints[3], 7);
  atomicCAS(&ints[4], 0, i + 1);
  atomicMax(&unsigneds[0], 0x80000000u + i);
  atomicMin(&unsigneds[1], 5u);
}

__global__ void __launch_bounds__(1) bits(unsigned* out) {
  out[0] = __float_as_uint(1.0f);
  out[1] = __float_as_uint(__uint_as_float(0x40000001));
  out[2] = __float_as_int(__int_as_float(7));
  out[3] = __umulhi(0xffffffff, 0xffffffff);
  out[4] = __float_as_uint(rsqrtf(4.0f));
  out[5] = __double_as_longlong(__longlong_as_double(9));
  out[6] = min(3, 2) + max(10u, 20u);
}

__global__ void __launch_bounds__(96) many_barriers(int* out, int rounds) {
  __shared__ int ring[96];
  ring[threadIdx.x] = threadIdx.x;
  for (int round = 0; round < rounds; ++round) {
    __syncthreads();
    const int next = ring[(threadIdx.x + 1) % 96];
    __syncthreads();
    ring[threadIdx.x] = next;
  }
  out[blockIdx.x * 96 + threadIdx.x] = ring[threadIdx.x];
}

// Templates with a bound of 96, also beside another bound, and a kernel without a bound.
constexpr int bound = 96;
template <class T>
__global__ void __launch_bounds__(bound) bounded(T* out) {
  out[threadIdx.x] = 1;
}
template <class T>
__global__ void __launch_bounds__(3 * 32, 2) bounded_twice(T* out) {
  out[threadIdx.x] = 1;
}
template <class T>
__global__ void unbounded(T* out) {
  out[threadIdx.x] = 1;
}

}  // namespace

TEST_CASE("A grid-stride loop reaches every element once", "[simt]") {
  const FreshDevice fresh;
  const int n = 10007;
  std::vector<float> x(n);
  std::iota(x.begin(), x.end(), 0.0f);
  Array<float> dx(x), dy(std::vector<float>(n, 1.0f));
  REQUIRE(launch(8, 256, axpy, dy.data(), dx.data(), 2.0f, n) == cudaSuccess);
  const std::vector<float> y = dy.read();
  for (int i = 0; i < n; ++i) REQUIRE(y[i] == 1.0f + 2.0f * i);
}

TEST_CASE("Shuffles and shared memory reduce a block", "[simt]") {
  const FreshDevice fresh;
  const int rows = 9, cols = 301;
  std::vector<float> x(rows * cols);
  for (int i = 0; i < rows * cols; ++i)
    x[i] = i % 17;  // small integers: every order gives the same sum
  Array<float> dx(x), sums(rows);
  for (const uint64_t seed : {1, 2, 3}) {
    simt::set_seed(seed);
    REQUIRE(launch(rows, 128, row_sums, sums.data(), dx.data(), cols) == cudaSuccess);
    const std::vector<float> result = sums.read();
    for (int r = 0; r < rows; ++r) {
      REQUIRE(result[r] == std::accumulate(&x[r * cols], &x[r * cols] + cols, 0.0f));
    }
  }
}

TEST_CASE("Blocks and threads have CUDA's three-dimensional indices", "[simt]") {
  const FreshDevice fresh;
  const dim3 grid(3, 2, 2), block(5, 4, 3);
  Array<uint4> out(3 * 2 * 2 * 60);
  REQUIRE(launch(grid, block, record_index, out.data()) == cudaSuccess);
  const std::vector<uint4> indices = out.read();
  for (unsigned i = 0; i < indices.size(); ++i) {
    const unsigned b = i / 60, t = i % 60;
    CHECK(indices[i].x == b % 3 + 10 * (b / 3 % 2) + 100 * (b / 6));
    CHECK(indices[i].y == t % 5);
    CHECK(indices[i].z == t / 5 % 4);
    CHECK(indices[i].w == t / 20);
  }
}

TEST_CASE("Shuffles read the lanes that the PTX manual names", "[simt]") {
  const FreshDevice fresh;
  const int width = GENERATE(32, 16, 8, 1);
  Array<int> out(128);
  REQUIRE(launch(1, 32, shuffles, out.data(), width) == cudaSuccess);
  const std::vector<int> got = out.read();
  for (int lane = 0; lane < 32; ++lane) {
    CAPTURE(width, lane);
    const int first = lane / width * width, last = first + width - 1;
    CHECK(got[lane] == 100 + first + (lane / 2 + 3) % width);
    CHECK(got[lane + 32] == 100 + ((lane ^ 5) <= last ? lane ^ 5 : lane));
    CHECK(got[lane + 64] == 100 + (lane + 3 <= last ? lane + 3 : lane));
    CHECK(got[lane + 96] == 100 + (lane - 3 >= first ? lane - 3 : lane));
  }
}

TEST_CASE("A shuffle carries eight bytes", "[simt]") {
  const FreshDevice fresh;
  Array<double> out(32);
  REQUIRE(launch(1, 32, wide_shuffle, out.data()) == cudaSuccess);
  const std::vector<double> got = out.read();
  for (int lane = 0; lane < 32; ++lane) CHECK(got[lane] == 1.0 / (32 - lane));
}

TEST_CASE("Votes see the lanes of their mask", "[simt]") {
  const FreshDevice fresh;
  Array<unsigned> out(64 * 6);
  REQUIRE(launch(1, 64, votes, out.data()) == cudaSuccess);
  const std::vector<unsigned> got = out.read();
  for (unsigned thread = 0; thread < 64; ++thread) {
    const bool low = thread % 32 < 16;
    CHECK(got[thread * 6] == 0xaaaaaaaa);
    CHECK(got[thread * 6 + 1] == (low ? 0x0000aaaa : 0xaaaa0000));
    CHECK(got[thread * 6 + 2] == 1);
    CHECK(got[thread * 6 + 3] == low);
    CHECK(got[thread * 6 + 4] == 0);
    CHECK(got[thread * 6 + 5] == low);
  }
}

TEST_CASE("Barriers count, and, or over the block", "[simt]") {
  const FreshDevice fresh;
  Array<int> out(100 * 5);
  REQUIRE(launch(1, 100, block_votes, out.data()) == cudaSuccess);
  const std::vector<int> got = out.read();
  for (int thread = 0; thread < 100; ++thread) {
    const std::vector<int> expected{34, 0, 1, 1, 0};
    CHECK(std::equal(expected.begin(), expected.end(), &got[thread * 5]));
  }
}

TEST_CASE("A vote does without lanes that have exited or never existed", "[simt]") {
  const FreshDevice fresh;
  Array<unsigned> out(40);
  REQUIRE(launch(1, 40, early_exit, out.data(), 35) == cudaSuccess);
  const std::vector<unsigned> got = out.read();
  for (int i = 0; i < 35; ++i) CHECK(got[i] == (i < 32 ? ~0u : 0x7u));
}

TEST_CASE("Atomics add up", "[simt]") {
  const FreshDevice fresh;
  Array<float> sum(std::vector<float>{0});
  Array<int> ints(std::vector<int>{0, 0, 0, 0, 0});
  Array<unsigned> unsigneds(std::vector<unsigned>{0, 9});
  REQUIRE(launch(4, 64, atomics, sum.data(), ints.data(), unsigneds.data()) == cudaSuccess);
  CHECK(sum.read()[0] == 128);
  const std::vector<int> got = ints.read();
  CHECK(std::vector<int>(got.begin(), got.begin() + 4) == std::vector<int>{256, 255, -255, 7});
  CHECK((got[4] >= 1 && got[4] <= 256));
  CHECK(unsigneds.read() == std::vector<unsigned>{0x800000ff, 5});
}

TEST_CASE("Barriers in a loop keep a block in step", "[simt]") {
  const FreshDevice fresh;
  Array<int> out(3 * 96);
  REQUIRE(launch(3, 96, many_barriers, out.data(), 50) == cudaSuccess);
  const std::vector<int> got = out.read();
  for (int i = 0; i < 3 * 96; ++i) CHECK(got[i] == (i % 96 + 50) % 96);
}

TEST_CASE("A launch outside CUDA's limits is refused", "[simt]") {
  const FreshDevice fresh;
  Array<int> out(1);
  const auto try_launch = [&](dim3 grid, dim3 block) {
    return launch(grid, block, many_barriers, out.data(), 0);
  };
  CHECK(try_launch(1, 1025) == cudaErrorInvalidConfiguration);
  CHECK(try_launch(1, 0) == cudaErrorInvalidConfiguration);
  CHECK(try_launch(1, dim3(1, 1, 65)) == cudaErrorInvalidConfiguration);
  CHECK(try_launch(0, 1) == cudaErrorInvalidConfiguration);
  CHECK(try_launch(dim3(1, 65536), 1) == cudaErrorInvalidConfiguration);
  CHECK(try_launch(dim3(1, 1, 65536), 1) == cudaErrorInvalidConfiguration);
  CHECK(cudaPeekAtLastError() == cudaErrorInvalidConfiguration);
  CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("A block beyond the kernel's launch bounds is refused", "[simt]") {
  const FreshDevice fresh;
  Array<int> out(96);
  for (const auto kernel : {bounded<int>, bounded_twice<int>}) {
    CHECK(launch(1, 96, kernel, out.data()) == cudaSuccess);
    CHECK(launch(1, dim3(32, 3), kernel, out.data()) == cudaSuccess);
    CHECK(launch(1, 97, kernel, out.data()) == cudaErrorLaunchOutOfResources);
    CHECK(cudaGetLastError() == cudaErrorLaunchOutOfResources);
    CHECK_THAT(simt::last_report(), ContainsSubstring("in blocks of 97 threads, but its") &&
                                        ContainsSubstring("allow 96"));
    cudaFuncAttributes attributes;
    REQUIRE(cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess);
    CHECK(attributes.maxThreadsPerBlock == 96);
  }
  CHECK(launch(1, 1, unbounded<int>, out.data()) == cudaErrorLaunchOutOfResources);
  CHECK_THAT(cudaGetErrorString(cudaErrorLaunchOutOfResources),
             ContainsSubstring("states no __launch_bounds__"));
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("Bit casts, the high half of a product, min and max", "[simt]") {
  const FreshDevice fresh;
  Array<unsigned> out(7);
  REQUIRE(launch(1, 1, bits, out.data()) == cudaSuccess);
  CHECK(out.read() ==
        std::vector<unsigned>{0x3f800000, 0x40000001, 7, 0xfffffffe, 0x3f000000, 9, 22});
}
