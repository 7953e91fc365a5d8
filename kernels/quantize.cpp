#include "kernels/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/inside.h"

namespace accrue {
namespace {

// The elements of a block.
using Elements = std::span<const float, 32>;

Half rounded(float x) {
  const Half half(x);
  check(std::isfinite(float(half)),
        "a block of weights has a scale or a minimum of {}: expected finite ones of at most 65504",
        x);
  return half;
}

float inverse(float d) {
  const float inverted = 1 / d;
  return std::isfinite(inverted) ? inverted : 0;
}

// z + offset without its fraction, at most 15.
uint8_t nibble(float z, float offset) {
  return static_cast<uint8_t>(std::min(static_cast<int>(z + offset), 15));
}

void quantize_block(Q4_0& block, Elements x) {
  float largest = 0;  // the element of largest magnitude, with its sign
  for (const float v : x)
    if (std::abs(v) > std::abs(largest)) largest = v;
  const float d = largest / -8, inverted = inverse(d);
  block.d = rounded(d);
  for (size_t i = 0; i < 16; ++i)
    block.quants[i] = static_cast<uint8_t>(nibble(x[i] * inverted, 8.5f) |
                                           nibble(x[i + 16] * inverted, 8.5f) << 4);
}

void quantize_block(Q4_1& block, Elements x) {
  const float least = std::ranges::min(x), largest = std::ranges::max(x);
  const float d = (largest - least) / 15, inverted = inverse(d);
  block.d = rounded(d);
  block.m = rounded(least);
  for (size_t i = 0; i < 16; ++i)
    block.quants[i] = static_cast<uint8_t>(nibble((x[i] - least) * inverted, 0.5f) |
                                           nibble((x[i + 16] - least) * inverted, 0.5f) << 4);
}

void quantize_block(Q8_0& block, Elements x) {
  float largest = 0;
  for (const float v : x) largest = std::max(largest, std::abs(v));
  const float d = largest / 127, inverted = inverse(d);
  block.d = rounded(d);
  for (size_t i = 0; i < 32; ++i)
    block.quants[i] = static_cast<int8_t>(std::round(x[i] * inverted));
}

template <class Block>
void quantize_rows(std::span<std::byte> blocks, std::span<const float> x) {
  for (size_t b = 0; b < x.size() / 32; ++b) {
    const Elements elements(x.data() + 32 * b, 32);
    // Checked here, because the comparisons with NaN in quantize_block() would skip it.
    check(std::ranges::all_of(elements, [](float v) { return std::isfinite(v); }),
          "a weight of the 32 from weight {} on is not finite: they cannot be quantized", 32 * b);
    Block block;
    quantize_block(block, elements);
    std::memcpy(blocks.data() + sizeof(Block) * b, &block, sizeof(Block));
  }
}

}  // namespace

void quantize(std::span<std::byte> blocks, std::span<const float> x, DType type) {
  check(type == DType::q4_0 || type == DType::q4_1 || type == DType::q8_0,
        "weights are quantized to Q4_0, Q4_1 or Q8_0, not to {}", name(type));
  check(x.size() % 32 == 0 && blocks.size() == x.size() / 32 * block_bytes(type),
        "{} weights in {} bytes of {}: expected a multiple of 32 weights, and {} bytes for each 32",
        x.size(), blocks.size(), name(type), block_bytes(type));
  if (type == DType::q4_0) quantize_rows<Q4_0>(blocks, x);
  else if (type == DType::q4_1) quantize_rows<Q4_1>(blocks, x);
  else quantize_rows<Q8_0>(blocks, x);
}

}  // namespace accrue
