// Blocks of quantized weights, compared with llama.cpp's gguf:
// tests/golden/quantized_blocks.safetensors.

#include "kernels/quantized_blocks.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <limits>
#include <map>

#include "core/inside.h"
#include "data/safetensors.h"
#include "kernels/quantize.h"
#include "tests/support/catch.h"
#include "tests/support/paths.h"

namespace accrue::test {
namespace quantized_blocks {
namespace {

std::map<std::string, Tensor> golden() {
  const auto tensors =
      read_safetensors(source_folder + "/tests/golden/quantized_blocks.safetensors");
  return {tensors.begin(), tensors.end()};
}

template <class T>
std::span<const T> elements(const Tensor& tensor) {
  return {static_cast<const T*>(tensor.view().data), static_cast<size_t>(tensor.numel())};
}

template <class T>
bool have_same_bits(std::span<const T> a, std::span<const T> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// The elements of blocks; the blocks lie at an odd multiple of their alignment.
template <class T>
std::vector<T> widened(DType type, std::span<const uint8_t> bytes) {
  return dispatch_blocks(type, [&]<class Block>() {
    std::vector<Block> blocks(bytes.size() / sizeof(Block) + 1);
    auto* const at = reinterpret_cast<std::byte*>(blocks.data()) + alignof(Block);
    std::memcpy(at, bytes.data(), bytes.size());
    std::vector<T> result((blocks.size() - 1) * elements_in<Block>);
    for (size_t i = 0; i + 1 < blocks.size(); ++i)
      widen(reinterpret_cast<const Block*>(at)[i], result.data() + i * elements_in<Block>);
    return result;
  });
}

constexpr DType all_types[]{DType::f16,  DType::bf16, DType::q4_0, DType::q4_1, DType::q5_0,
                            DType::q5_1, DType::q8_0, DType::q4_k, DType::q6_k};

std::vector<uint8_t> quantized(std::span<const float> x, DType type) {
  std::vector<uint8_t> bytes(x.size() / 32 * block_bytes(type));
  quantize(std::as_writable_bytes(std::span(bytes)), x, type);
  return bytes;
}

}  // namespace

TEST_CASE("blocks stand for the numbers that llama.cpp gives them", "[data]") {
  const auto expected = golden();
  for (const DType type : all_types) {
    std::string of(name(type));
    std::ranges::transform(of, of.begin(), [](unsigned char c) { return std::toupper(c); });
    INFO(of);
    const auto blocks = elements<uint8_t>(expected.at("blocks." + of));
    const auto numbers = elements<float>(expected.at("elements." + of));
    REQUIRE(numbers.size() ==
            blocks.size() / block_bytes(type) * static_cast<size_t>(block_elements(type)));
    const auto found = widened<float>(type, blocks);
    REQUIRE(have_same_bits<float>(found, numbers));
    // The elements are rounded once.
    const auto narrow = widened<BFloat16>(type, blocks);
    for (size_t i = 0; i < numbers.size(); ++i)
      REQUIRE(narrow[i].bits == BFloat16(numbers[i]).bits);
  }
  REQUIRE(block_elements(DType::f32) == 1);
  REQUIRE(block_bytes(DType::f32) == 4);
}

TEST_CASE("rows are quantized to the bytes that llama.cpp writes", "[data]") {
  const auto expected = golden();
  const auto weights = elements<float>(expected.at("weights"));
  for (const DType type : {DType::q4_0, DType::q4_1, DType::q8_0}) {
    INFO(name(type));
    const auto bytes = elements<uint8_t>(expected.at("quantized." + std::string(name(type))));
    REQUIRE(have_same_bits<uint8_t>(quantized(weights, type), bytes));
  }
}

// A quant is off by up to half a step. d is rounded to float16 after the quants are chosen, which
// moves an element by up to 2^-11 of the largest one. A quant of Q4_0 that would be 16 becomes 15.
TEST_CASE("quantized values are near the original values", "[data]") {
  std::vector<float> x(32 * 64);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(static_cast<int>(i * 2654435761u % 2001) - 1000) / 1000;
  const std::pair<DType, float> steps[]{
      {DType::q4_0, 1.0f / 8}, {DType::q4_1, 1.0f / 15}, {DType::q8_0, 0.5f / 127}};
  for (const auto& [type, most] : steps) {
    INFO(name(type));
    const auto y = widened<float>(type, quantized(x, type));
    for (size_t i = 0; i < x.size(); ++i) REQUIRE(std::abs(y[i] - x[i]) <= most + 2 * 0x1p-11f);
  }
}

TEST_CASE("what cannot be quantized is refused", "[data]") {
  std::vector<float> x(64, 1);
  std::vector<std::byte> bytes(2 * block_bytes(DType::q8_0));
  REQUIRE_ERROR(quantize(bytes, x, DType::q4_k), "not to Q4_K");
  REQUIRE_ERROR(quantize(bytes, x, DType::q4_0), "64 weights in 68 bytes of Q4_0");
  REQUIRE_ERROR(quantize(bytes, std::span(x).first(33), DType::q8_0), "33 weights");
  x[40] = std::numeric_limits<float>::quiet_NaN();
  REQUIRE_ERROR(quantize(bytes, x, DType::q8_0), "from weight 32 on is not finite");
  x[40] = 1e9f;
  REQUIRE_ERROR(quantize(bytes, x, DType::q8_0), "expected finite ones of at most 65504");
  // The scale's inverse would be infinite.
  const std::vector<float> tiny(32, 1e-44f);
  REQUIRE(widened<float>(DType::q8_0, quantized(tiny, DType::q8_0)) == std::vector<float>(32));
}

}  // namespace quantized_blocks
}  // namespace accrue::test
