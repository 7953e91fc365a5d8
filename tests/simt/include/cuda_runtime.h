#pragma once

#include <math.h>

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "cuda_runtime_api.h"

// The device half of the CUDA runtime, on the host: kernels are ordinary functions. One kernel
// thread runs at a time in the whole process, so the built-in variables and shared memory are plain
// statics.

#define __device__
#define __host__
#define __forceinline__ inline
// GCC puts `threads` no-ops before the kernel's entry. Nothing runs them. A launch, which has only
// the kernel's address, counts them (bounds.cpp). GCC 12 lists the no-ops of all kernels of an
// object in one section. Such an object links only if the linker drops none of its kernels as a
// duplicate of another object's: hence internal linkage. "used" keeps GCC from moving a kernel into
// the section of the only function that launches it.
#define __global__ static
#define __launch_bounds__(threads, ...) \
  __attribute__((used, patchable_function_entry((threads), (threads))))
#define __shared__ static

inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;

namespace simt {

// Where a kernel thread waits; the reports name it.
using Place = std::source_location;

enum class Barrier { plain, count, all, any };
// Waits for all threads of the block. Returns for how many of them the predicate held.
int sync_block(Barrier barrier, bool predicate, Place place);

enum class WarpOp { sync, vote, shuffle, matrix };
// Waits for all lanes of `mask` that have not exited. A vote and an operation on matrices return
// the lanes whose value is not 0, a shuffle the value of lane `source`.
uint64_t meet_warp(WarpOp op, unsigned mask, uint64_t value, unsigned source, Place place);
unsigned lane();
// Ends the launch as failed, by the thread that calls it.
void refuse(const std::string& what);

cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel,
                   std::function<void()> thread);

template <class T>
requires std::is_trivially_copyable_v<T> &&(sizeof(T) <= sizeof(uint64_t)) T
    shuffle(unsigned mask, T value, unsigned source, Place place) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = meet_warp(WarpOp::shuffle, mask, bits, source, place);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace simt

template <class... Expected, class... Actual>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Expected...),
                               Actual&&... args) {
  static_assert((std::is_trivially_copyable_v<Expected> && ...),
                "a kernel's arguments are copied to the device bit by bit");
  return simt::launch(*config, reinterpret_cast<const void*>(kernel),
                      [kernel, copy = std::tuple<Expected...>(std::forward<Actual>(args)...)] {
                        std::apply(kernel, copy);
                      });
}

// Barriers ---------------------------------------------------------------------------------------

inline void __syncthreads(simt::Place place = simt::Place::current()) {
  simt::sync_block(simt::Barrier::plain, false, place);
}
inline int __syncthreads_count(int predicate, simt::Place place = simt::Place::current()) {
  return simt::sync_block(simt::Barrier::count, predicate != 0, place);
}
inline int __syncthreads_and(int predicate, simt::Place place = simt::Place::current()) {
  return simt::sync_block(simt::Barrier::all, predicate == 0, place) == 0;
}
inline int __syncthreads_or(int predicate, simt::Place place = simt::Place::current()) {
  return simt::sync_block(simt::Barrier::any, predicate != 0, place) != 0;
}
inline void __syncwarp(unsigned mask = ~0u, simt::Place place = simt::Place::current()) {
  simt::meet_warp(simt::WarpOp::sync, mask, 0, 0, place);
}
inline void __threadfence() {}
inline void __threadfence_block() {}

// Bits -------------------------------------------------------------------------------------------

// The position of the lowest bit that is set, counted from 1; 0 if none is set.
inline int __ffs(int x) { return __builtin_ffs(x); }

// Votes and shuffles -----------------------------------------------------------------------------

// The runner promises no convergence: code that needs more than its own lane here is wrong on a GPU
// too.
inline unsigned __activemask() { return 1u << simt::lane(); }

inline unsigned __ballot_sync(unsigned mask, int predicate,
                              simt::Place place = simt::Place::current()) {
  return simt::meet_warp(simt::WarpOp::vote, mask, predicate != 0, 0, place);
}
inline int __any_sync(unsigned mask, int predicate, simt::Place place = simt::Place::current()) {
  return simt::meet_warp(simt::WarpOp::vote, mask, predicate != 0, 0, place) != 0;
}
inline int __all_sync(unsigned mask, int predicate, simt::Place place = simt::Place::current()) {
  return simt::meet_warp(simt::WarpOp::vote, mask, predicate == 0, 0, place) == 0;
}

// A lane outside its segment of `width` lanes reads itself, as the hardware's shfl does.
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize,
              simt::Place place = simt::Place::current()) {
  const unsigned first = simt::lane() & ~unsigned(width - 1);
  return simt::shuffle(mask, value, first + (unsigned(source) & unsigned(width - 1)), place);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = warpSize,
                  simt::Place place = simt::Place::current()) {
  const unsigned self = simt::lane(), source = self ^ unsigned(lanes);
  const unsigned last = self | unsigned(width - 1);
  return simt::shuffle(mask, value, source <= last ? source : self, place);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize,
                   simt::Place place = simt::Place::current()) {
  const unsigned self = simt::lane(), source = self + delta;
  const unsigned last = self | unsigned(width - 1);
  return simt::shuffle(mask, value, source <= last ? source : self, place);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize,
                 simt::Place place = simt::Place::current()) {
  const unsigned self = simt::lane(), first = self & ~unsigned(width - 1);
  return simt::shuffle(mask, value, self >= first + delta ? self - delta : self, place);
}

// Memory -----------------------------------------------------------------------------------------

template <class T>
T __ldg(const T* pointer) {
  return *pointer;
}
template <class T>
T __ldcs(const T* pointer) {
  return *pointer;
}
template <class T>
T __ldcg(const T* pointer) {
  return *pointer;
}
template <class T>
void __stcs(T* pointer, std::type_identity_t<T> value) {
  *pointer = value;
}

namespace simt {
template <class T, class... Types>
concept one_of = (std::same_as<T, Types> || ...);
template <class T>
concept Integer = one_of<T, int, unsigned>;
template <class T>
concept Addable = Integer<T> || one_of<T, float, double, unsigned long long>;
}  // namespace simt

template <simt::Addable T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  return std::exchange(*address, *address + value);
}
template <simt::Integer T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  return std::exchange(*address, *address < value ? value : *address);
}
template <simt::Integer T>
T atomicMin(T* address, std::type_identity_t<T> value) {
  return std::exchange(*address, value < *address ? value : *address);
}
template <simt::Integer T>
T atomicExch(T* address, std::type_identity_t<T> value) {
  return std::exchange(*address, value);
}
template <simt::Integer T>
T atomicCAS(T* address, std::type_identity_t<T> compare, std::type_identity_t<T> value) {
  return std::exchange(*address, *address == compare ? value : *address);
}

// Arithmetic -------------------------------------------------------------------------------------

inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
inline unsigned __umulhi(unsigned x, unsigned y) { return uint64_t(x) * y >> 32; }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }

// Device code may call these without std::, on integers too.
template <class T>
requires std::is_arithmetic_v<T> T min(T x, T y) {
  if constexpr (std::is_floating_point_v<T>) return std::fmin(x, y);
  return y < x ? y : x;
}
template <class T>
requires std::is_arithmetic_v<T> T max(T x, T y) {
  if constexpr (std::is_floating_point_v<T>) return std::fmax(x, y);
  return x < y ? y : x;
}
