#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/error.h"
#include "core/half.h"

namespace accrue {

// The type of a tensor's elements. The last seven types are blocks of neighbours in a row of a
// frozen weight (kernels/quantized_blocks.h).
enum class DType { f32, f64, f16, bf16, i32, u8, q4_0, q4_1, q5_0, q5_1, q8_0, q4_k, q6_k };

namespace detail {

// The number of elements of a block, or 1 for a type without blocks, and the bytes of a block.
constexpr int64_t block_elements(DType dtype) {
  switch (dtype) {
    case DType::q4_0:
    case DType::q4_1:
    case DType::q5_0:
    case DType::q5_1:
    case DType::q8_0: return 32;
    case DType::q4_k:
    case DType::q6_k: return 256;
    default: return 1;
  }
}
constexpr size_t block_bytes(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::i32: return 4;
    case DType::f64: return 8;
    case DType::f16:
    case DType::bf16: return 2;
    case DType::u8: return 1;
    case DType::q4_0: return 18;
    case DType::q4_1: return 20;
    case DType::q5_0: return 22;
    case DType::q5_1: return 24;
    case DType::q8_0: return 34;
    case DType::q4_k: return 144;
    case DType::q6_k: return 210;
  }
  return 0;
}
constexpr bool is_quantized(DType dtype) { return block_elements(dtype) > 1; }
// The types in which a frozen weight may be stored, whatever dtype an op computes in.
constexpr bool is_stored_type(DType dtype) {
  return is_quantized(dtype) || dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

// The bytes of this number of elements, which must fill whole blocks.
constexpr size_t bytes_of(DType dtype, int64_t elements) {
  return static_cast<size_t>(elements / block_elements(dtype)) * block_bytes(dtype);
}
// The bytes of an element of a type without blocks.
constexpr size_t size_of(DType dtype) { return block_bytes(dtype); }

constexpr std::string_view name(DType dtype) {
  switch (dtype) {
    case DType::f32: return "f32";
    case DType::f64: return "f64";
    case DType::f16: return "f16";
    case DType::bf16: return "bf16";
    case DType::i32: return "i32";
    case DType::u8: return "u8";
    case DType::q4_0: return "Q4_0";
    case DType::q4_1: return "Q4_1";
    case DType::q5_0: return "Q5_0";
    case DType::q5_1: return "Q5_1";
    case DType::q8_0: return "Q8_0";
    case DType::q4_k: return "Q4_K";
    case DType::q6_k: return "Q6_K";
  }
  return "?";
}

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  else if constexpr (std::is_same_v<T, double>) return DType::f64;
  else if constexpr (std::is_same_v<T, Half>) return DType::f16;
  else if constexpr (std::is_same_v<T, BFloat16>) return DType::bf16;
  else if constexpr (std::is_same_v<T, int32_t>) return DType::i32;
  else {
    static_assert(
        std::is_same_v<T, uint8_t>,
        "a tensor holds float, double, Half, BFloat16, int32_t or uint8_t: convert the elements");
    return DType::u8;
  }
}

constexpr bool is_floating(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::f16 || dtype == DType::bf16;
}
constexpr bool is_16_bit_dtype(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

// The dtype in which ops compute and sum elements of this dtype: Wide<T>.
constexpr DType wide(DType dtype) { return is_16_bit_dtype(dtype) ? DType::f32 : dtype; }

// Calls body.operator()<T>() with the scalar type of a parameter, a gradient or a loss, which is
// never a 16-bit type.
template <class Body>
decltype(auto) dispatch_wide(DType dtype, Body&& body) {
  check(dtype == DType::f32 || dtype == DType::f64, "expected f32 or f64, got {}", name(dtype));
  if (dtype == DType::f64) return std::forward<Body>(body).template operator()<double>();
  return std::forward<Body>(body).template operator()<float>();
}

// Calls body with the scalar type of any floating dtype. Every kernel is written once, and computes
// in Wide<T>.
template <class Body>
decltype(auto) dispatch_floating(DType dtype, Body&& body) {
  if (dtype == DType::f16) return std::forward<Body>(body).template operator()<Half>();
  if (dtype == DType::bf16) return std::forward<Body>(body).template operator()<BFloat16>();
  check(is_floating(dtype), "expected a floating dtype, got {}", name(dtype));
  return dispatch_wide(dtype, std::forward<Body>(body));
}

}  // namespace detail

}  // namespace accrue
