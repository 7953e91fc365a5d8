#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "core/dtype.h"

namespace accrue {

// The numbers of value types in GGUF files, for data/gguf.cpp and data/gguf_writer.cpp.
enum GgufType : uint32_t {
  type_u8,
  type_i8,
  type_u16,
  type_i16,
  type_u32,
  type_i32,
  type_f32,
  type_bool,
  type_text,
  type_array,
  type_u64,
  type_i64,
  type_f64,
  type_count
};

// The numbers of tensor types.
inline constexpr std::array<std::pair<uint32_t, DType>, 10> gguf_block_types{{{0, DType::f32},
                                                                              {1, DType::f16},
                                                                              {2, DType::q4_0},
                                                                              {3, DType::q4_1},
                                                                              {6, DType::q5_0},
                                                                              {7, DType::q5_1},
                                                                              {8, DType::q8_0},
                                                                              {12, DType::q4_k},
                                                                              {14, DType::q6_k},
                                                                              {30, DType::bf16}}};

inline constexpr uint64_t gguf_alignment = 32;  // unless the file sets another

// Appends the bytes of a number as a file stores them.
template <class T>
void append_gguf_number(std::string& to, T number) {
  to.append(reinterpret_cast<const char*>(&number), sizeof number);
}

}  // namespace accrue
