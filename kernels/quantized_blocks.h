#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/dtype.h"
#include "core/host_device.h"

namespace accrue::detail {

// The types of blocks in which llama.cpp's files store the elements of a matrix: a row is a
// sequence of blocks, and a block holds neighbours in a row. Source: ggml-common.h and
// ggml-quants.c of https://github.com/ggml-org/ggml. y[i] are a block's elements; d and m are
// float16.
//
// The structures have the layout of the bytes in a file. They need only the alignment of Half,
// because blocks of 18 or 210 bytes follow each other without a gap.
template <class Block>
constexpr bool is_blocks_of(DType dtype) {
  return sizeof(Block) == block_bytes(dtype) && Block::elements == block_elements(dtype) &&
         alignof(Block) == alignof(Half);
}

// y[i] = d * (q[i] - 8), q in [0, 16). The low 4 bits of quants[i] are q[i], the high 4 bits q[i +
// 16].
struct Q4_0 {
  static constexpr int elements = 32;
  Half d;
  std::array<uint8_t, 16> quants;
};
static_assert(is_blocks_of<Q4_0>(DType::q4_0));

// y[i] = d * q[i] + m, q as in Q4_0.
struct Q4_1 {
  static constexpr int elements = 32;
  Half d, m;
  std::array<uint8_t, 16> quants;
};
static_assert(is_blocks_of<Q4_1>(DType::q4_1));

// y[i] = d * (q[i] - 16), q in [0, 32). The low 4 bits of q[i] are as in Q4_0; its highest bit is
// bit i of `high`, which is bit i % 8 of high[i / 8].
struct Q5_0 {
  static constexpr int elements = 32;
  Half d;
  std::array<uint8_t, 4> high;
  std::array<uint8_t, 16> quants;
};
static_assert(is_blocks_of<Q5_0>(DType::q5_0));

// y[i] = d * q[i] + m, q as in Q5_0.
struct Q5_1 {
  static constexpr int elements = 32;
  Half d, m;
  std::array<uint8_t, 4> high;
  std::array<uint8_t, 16> quants;
};
static_assert(is_blocks_of<Q5_1>(DType::q5_1));

// y[i] = d * q[i], q in [-128, 128).
struct Q8_0 {
  static constexpr int elements = 32;
  Half d;
  std::array<int8_t, 32> quants;
};
static_assert(is_blocks_of<Q8_0>(DType::q8_0));

// y[i] = d * scale(i / 32) * q[i] - dmin * minimum(i / 32), q in [0, 16). The low 4 bits of
// quants[32 k + i] are q[64 k + i] and the high ones q[64 k + 32 + i], for i < 32.
struct Q4_K {
  static constexpr int elements = 256;
  Half d, dmin;
  // 8 scales and 8 minima of 6 bits each. For j < 4, the low 6 bits of scales[j] are scale j, and
  // the low 6 bits of scales[j + 4] are minimum j. scales[j + 8] holds the low 4 bits of scale j +
  // 4 and of minimum j + 4, whose high 2 bits are at the top of scales[j] and scales[j + 4].
  std::array<uint8_t, 12> scales;
  std::array<uint8_t, 128> quants;

  HOST_DEVICE int scale(int j) const {
    return j < 4 ? scales.data()[j] & 63
                 : (scales.data()[j + 4] & 15) | scales.data()[j - 4] >> 6 << 4;
  }
  HOST_DEVICE int minimum(int j) const {
    return j < 4 ? scales.data()[j + 4] & 63
                 : scales.data()[j + 4] >> 4 | scales.data()[j] >> 6 << 4;
  }
};
static_assert(is_blocks_of<Q4_K>(DType::q4_k));

// y[i] = d * scales[i / 16] * (q[i] - 32), q in [0, 64). For h < 2, k < 4 and i < 32, the low 4
// bits of q[128 h + 32 k + i] are in low[64 h + 32 (k % 2) + i], from bit 4 (k / 2) on. Its high 2
// bits are in high[32 h + i], from bit 2 k on.
struct Q6_K {
  static constexpr int elements = 256;
  std::array<uint8_t, 128> low;
  std::array<uint8_t, 64> high;
  std::array<int8_t, 16> scales;
  Half d;
};
static_assert(is_blocks_of<Q6_K>(DType::q6_k));

// The number of elements in a block; a plain number is a block of one.
template <class Block>
struct BlockElements {
  static constexpr int count = 1;
};
template <class Block>
requires requires { Block::elements; }
struct BlockElements<Block> {
  static constexpr int count = Block::elements;
};
template <class Block>
inline constexpr int elements_in = BlockElements<Block>::count;

// Calls body.operator()<Block>() with the structure of a type: float, Half, BFloat16 or one above.
template <class Body>
constexpr decltype(auto) dispatch_blocks(DType type, Body&& body) {
  switch (type) {
    case DType::f32: return std::forward<Body>(body).template operator()<float>();
    case DType::f16: return std::forward<Body>(body).template operator()<Half>();
    case DType::bf16: return std::forward<Body>(body).template operator()<BFloat16>();
    case DType::q4_0: return std::forward<Body>(body).template operator()<Q4_0>();
    case DType::q4_1: return std::forward<Body>(body).template operator()<Q4_1>();
    case DType::q5_0: return std::forward<Body>(body).template operator()<Q5_0>();
    case DType::q5_1: return std::forward<Body>(body).template operator()<Q5_1>();
    case DType::q8_0: return std::forward<Body>(body).template operator()<Q8_0>();
    case DType::q4_k: return std::forward<Body>(body).template operator()<Q4_K>();
    case DType::q6_k: return std::forward<Body>(body).template operator()<Q6_K>();
    default: break;
  }
  fail("expected a type of weights in a file, got {}", name(type));
}

// Sets out[0 .. elements_in<Block>) to the elements of a block. Every product here is exact in
// float, since d has 11 bits and its factors at most 12 together. So an element has the same bits
// on every machine, whether or not a sum is fused with a product. T other than float rounds it
// once. Where two elements share a byte, each loop reads a copy of the bytes, which cannot alias
// `out`, and writes one run of elements. Compilers can vectorise such loops.
template <class T>
HOST_DEVICE void widen(const float& block, T* __restrict__ out) {
  *out = T(block);
}
template <class T>
HOST_DEVICE void widen(const Half& block, T* __restrict__ out) {
  *out = T(static_cast<float>(block));
}
template <class T>
HOST_DEVICE void widen(const BFloat16& block, T* __restrict__ out) {
  *out = T(static_cast<float>(block));
}

template <class T>
HOST_DEVICE void widen(const Q4_0& block, T* __restrict__ out) {
  const float d = block.d;
  const auto quants = block.quants;
  for (int i = 0; i < 16; ++i) out[i] = T(d * static_cast<float>((quants.data()[i] & 15) - 8));
  for (int i = 0; i < 16; ++i) out[i + 16] = T(d * static_cast<float>((quants.data()[i] >> 4) - 8));
}

template <class T>
HOST_DEVICE void widen(const Q4_1& block, T* __restrict__ out) {
  const float d = block.d, m = block.m;
  const auto quants = block.quants;
  for (int i = 0; i < 16; ++i) out[i] = T(d * static_cast<float>(quants.data()[i] & 15) + m);
  for (int i = 0; i < 16; ++i) out[i + 16] = T(d * static_cast<float>(quants.data()[i] >> 4) + m);
}

// Calls use(i, q[i]) for each element of a block of Q5_0 or Q5_1.
template <class Block, class Use>
HOST_DEVICE void for_each_of_5_bits(const Block& block, Use&& use) {
  const auto high = block.high;
  const auto quants = block.quants;
  uint32_t bits = 0;
  for (int i = 0; i < 4; ++i) bits |= uint32_t{high.data()[i]} << 8 * i;
  for (int i = 0; i < 16; ++i)
    use(i, static_cast<float>((quants.data()[i] & 15) | static_cast<int>(bits >> i & 1) << 4));
  for (int i = 0; i < 16; ++i)
    use(i + 16,
        static_cast<float>((quants.data()[i] >> 4) | static_cast<int>(bits >> (i + 16) & 1) << 4));
}

template <class T>
HOST_DEVICE void widen(const Q5_0& block, T* __restrict__ out) {
  const float d = block.d;
  for_each_of_5_bits(block, [=](int i, float q) { out[i] = T(d * (q - 16)); });
}

template <class T>
HOST_DEVICE void widen(const Q5_1& block, T* __restrict__ out) {
  const float d = block.d, m = block.m;
  for_each_of_5_bits(block, [=](int i, float q) { out[i] = T(d * q + m); });
}

template <class T>
HOST_DEVICE void widen(const Q8_0& block, T* __restrict__ out) {
  const float d = block.d;
  const int8_t* const quants = block.quants.data();
  for (int i = 0; i < 32; ++i) out[i] = T(d * static_cast<float>(quants[i]));
}

template <class T>
HOST_DEVICE void widen(const Q4_K& block, T* __restrict__ out) {
  const float d = block.d, dmin = block.dmin;
  for (int k = 0; k < 4; ++k) {
    const uint8_t* const quants = block.quants.data() + 32 * k;
    const float scale0 = d * static_cast<float>(block.scale(2 * k));
    const float scale1 = d * static_cast<float>(block.scale(2 * k + 1));
    const float minimum0 = dmin * static_cast<float>(block.minimum(2 * k));
    const float minimum1 = dmin * static_cast<float>(block.minimum(2 * k + 1));
    T* const y = out + 64 * k;
    for (int i = 0; i < 32; ++i) {
      y[i] = T(scale0 * static_cast<float>(quants[i] & 15) - minimum0);
      y[i + 32] = T(scale1 * static_cast<float>(quants[i] >> 4) - minimum1);
    }
  }
}

template <class T>
HOST_DEVICE void widen(const Q6_K& block, T* __restrict__ out) {
  const float d = block.d;
  for (int j = 0; j < 16; ++j) {  // 16 elements share a scale
    const int h = j / 8, k = j / 2 % 4, first = j % 2 * 16;
    const uint8_t* const low = block.low.data() + 64 * h + 32 * (k % 2) + first;
    const uint8_t* const high = block.high.data() + 32 * h + first;
    const float scale = d * static_cast<float>(block.scales.data()[j]);
    T* const y = out + 16 * j;
    for (int i = 0; i < 16; ++i) {
      const int q = (low[i] >> 4 * (k / 2) & 15) | (high[i] >> 2 * k & 3) << 4;
      y[i] = T(scale * static_cast<float>(q - 32));
    }
  }
}

}  // namespace accrue::detail
