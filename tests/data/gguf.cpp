// Files in llama.cpp's format, whole and damaged.

#include "data/gguf.h"

#include <cstring>

#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/gguf_bytes.h"

namespace accrue::test {
namespace gguf {
namespace {

using B = GgufBytes;

// The format's numbers for the types of tensors.
constexpr uint32_t f32 = 0, q4_0 = 2, q8_0 = 8, q8_1 = 9;

// A file with every type of value, and two tensors.
B example() {
  B file;
  file.number("u8", B::u8, uint8_t{200}).number("i8", B::i8, int8_t{-100});
  file.number("u16", B::u16, uint16_t{60000}).number("i16", B::i16, int16_t{-30000});
  file.number("u32", B::u32, 4000000000u).number("i32", B::i32, -2000000000);
  file.number("u64", B::u64, uint64_t{1} << 60).number("i64", B::i64, -(int64_t{1} << 60));
  file.number("huge", B::u64, ~uint64_t{0});
  file.number("f32", B::f32, 0.5f).number("f64", B::f64, 1e-300);
  file.number("yes", B::boolean, uint8_t{1}).number("no", B::boolean, uint8_t{0});
  file.string("text", "caf\xc3\xa9").string("empty", "");
  file.list<int32_t>("ints", B::i32, {-1, 0, 7}).list<float>("floats", B::f32, {0.25f, -2});
  file.list<std::string>("texts", B::text, {"a", "", "\xc4\xa0t"});
  file.list<uint8_t>("flags", B::boolean, {1, 0});
  // An array of two arrays.
  file.add("nested", B::array,
           B::raw(uint32_t{B::array}) + B::raw(uint64_t{2}) + B::raw(uint32_t{B::u8}) +
               B::raw(uint64_t{1}) + "\1" + B::raw(uint32_t{B::text}) + B::raw(uint64_t{1}) +
               B::raw("x"));
  file.tensor("blk.0.weight", {64, 3}, q8_0, std::string(6 * 34, '\2'));
  file.tensor("norm", {3}, f32, B::raw(1.f) + B::raw(2.f) + B::raw(-3.f));
  return file;
}

void refuse(const std::string& content, const std::string& part) {
  const TemporaryDirectory directory;
  const auto path = directory.write("model.gguf", content);
  INFO(part);
  REQUIRE_ERROR(GgufFile(path), part);
  REQUIRE_ERROR(GgufFile(path), path.string());
}

}  // namespace

TEST_CASE("GGUF files give the values of their keys", "[data]") {
  const TemporaryDirectory directory;
  for (const uint32_t version : {2u, 3u}) {
    const GgufFile file(directory.write("model.gguf", example().file(version)));
    REQUIRE(file.integer("u8") == 200);
    REQUIRE(file.integer("i8") == -100);
    REQUIRE(file.integer("u16") == 60000);
    REQUIRE(file.integer("i16") == -30000);
    REQUIRE(file.integer("u32") == 4000000000);
    REQUIRE(file.integer("i32") == -2000000000);
    REQUIRE(file.integer("u64") == int64_t{1} << 60);
    REQUIRE(file.integer("i64") == -(int64_t{1} << 60));
    REQUIRE(file.number("huge") == 0x1p64);
    REQUIRE(file.number("f32") == 0.5);
    REQUIRE(file.number("f64") == 1e-300);
    REQUIRE(file.number("i8") == -100);
    REQUIRE(file.flag("yes") == true);
    REQUIRE(file.flag("no") == false);
    REQUIRE(file.text("text") == "caf\xc3\xa9");
    REQUIRE(file.text("empty") == "");
    REQUIRE(file.integers("ints") == std::vector<int64_t>{-1, 0, 7});
    REQUIRE(file.numbers("floats") == std::vector<double>{0.25, -2});
    REQUIRE(file.texts("texts") == std::vector<std::string_view>{"a", "", "\xc4\xa0t"});
    REQUIRE(file.keys().size() == 20);
    REQUIRE_FALSE(file.integer("other"));
    REQUIRE_FALSE(file.texts("other"));
  }
}

TEST_CASE("a value of another kind is refused by its key", "[data]") {
  const TemporaryDirectory directory;
  const GgufFile file(directory.write("model.gguf", example().file()));
  REQUIRE_ERROR(file.required_integer("other"), "model.gguf' lacks the key 'other'");
  REQUIRE_ERROR(file.integer("huge"), "the value of 'huge' is 18446744073709551615");
  REQUIRE_ERROR(file.integer("f32"), "the value of 'f32' is a number, expected an integer");
  REQUIRE_ERROR(file.number("text"), "the value of 'text' is a text, expected a number");
  REQUIRE_ERROR(file.flag("u8"), "expected a boolean");
  REQUIRE_ERROR(file.text("yes"), "expected a text");
  REQUIRE_ERROR(file.integer("ints"), "'ints' is an array, expected a single one");
  REQUIRE_ERROR(file.texts("text"), "'text' is a text, expected an array");
  REQUIRE_ERROR(file.texts("ints"), "'ints' is an integer, expected a text");
  REQUIRE_ERROR(file.integers("nested"), "'nested' is an array, expected an integer");
}

TEST_CASE("GGUF files give their tensors where they lie", "[data]") {
  const TemporaryDirectory directory;
  const GgufFile file(directory.write("model.gguf", example().file()));
  REQUIRE(file.tensors().size() == 2);
  const GgufTensor& matrix = file.tensor("blk.0.weight");
  REQUIRE(matrix.shape == Shape{3, 64});
  REQUIRE(matrix.type == DType::q8_0);
  REQUIRE(matrix.elements.size() == 204);
  REQUIRE(matrix.elements[203] == std::byte{2});
  const GgufTensor& norm = file.tensor("norm");
  REQUIRE(norm.shape == Shape{3});
  REQUIRE(norm.elements.size() == 12);
  float last = 0;
  std::memcpy(&last, norm.elements.data() + 8, 4);
  REQUIRE(last == -3);
  REQUIRE(file.find_tensor("output") == nullptr);
  REQUIRE_ERROR(file.tensor("output"), "lacks the tensor 'output'");
}

TEST_CASE("the data of a GGUF file begin at a multiple of its alignment", "[data]") {
  const TemporaryDirectory directory;
  const auto with = [](uint32_t alignment, uint64_t offset) {
    return B()
        .count("general.alignment", alignment)
        .tensor("a", {2}, f32, B::raw(1.f) + B::raw(2.f))
        .describe("b", {2}, f32, offset);
  };
  std::string content = with(8, 8).file();
  // The descriptions end at byte 115; the data begins at the next multiple of 8.
  const size_t described = 24 + (8 + 17 + 4 + 4) + 2 * (8 + 1 + 4 + 8 + 4 + 8);
  content.resize((described + 7) / 8 * 8);
  content += B::raw(1.f) + B::raw(2.f) + B::raw(3.f) + B::raw(4.f);
  const GgufFile file(directory.write("model.gguf", content));
  float first = 0;
  std::memcpy(&first, file.tensor("b").elements.data(), 4);
  REQUIRE(first == 3);
  refuse(with(8, 4).file(),
         "tensor 'b' is at byte 4 of the data, expected a multiple of the "
         "alignment 8");
  for (const uint32_t alignment : {0u, 12u, 1u << 31})
    refuse(with(alignment, 0).file(), fmt::format("general.alignment is {}", alignment));
  refuse(B().string("general.alignment", "8").file(), "expected an integer");
}

TEST_CASE("a GGUF file that ends too soon is refused", "[data]") {
  const TemporaryDirectory directory;
  const std::string whole = example().file();
  for (size_t size = 1; size < whole.size(); ++size) {
    const auto path = directory.write("model.gguf", whole.substr(0, size));
    INFO(size);
    REQUIRE_THROWS_AS(GgufFile(path), Error);
  }
  refuse(whole.substr(0, whole.size() - 1),
         "tensor 'norm', f32 [3], takes 12 bytes from byte 224 "
         "of the data, which has 235 (truncated?)");
}

TEST_CASE("headers of GGUF files that are not right are refused", "[data]") {
  const std::string whole = example().file();
  refuse("GGML" + whole.substr(4), "does not begin with 'GGUF'");
  for (const uint32_t version : {0u, 1u, 4u})
    refuse(example().file(version), fmt::format("of version {}, expected 2 or 3", version));
  refuse(example().file(0x03000000), "it is big-endian");
  for (const uint64_t many : {uint64_t{1} << 20, ~uint64_t{0}}) {
    const std::string said = B::raw(many), two = B::raw(uint64_t{2});
    refuse("GGUF" + B::raw(3u) + said + two + whole.substr(24), "which do not fit in");
    refuse("GGUF" + B::raw(3u) + two + said + whole.substr(24), "which do not fit in");
  }
}

TEST_CASE("keys of GGUF files that are not right are refused", "[data]") {
  refuse(B().count("a", 1).count("a", 2).file(), "has the key 'a' twice");
  refuse(B().count("", 1).file(), "a key that ends at byte 32 is empty");
  refuse(B().add("a", 13, "12345678").file(), "the value of 'a' is of type 13");
  refuse(B().number("a", B::boolean, uint8_t{2}).file(), "a boolean that is neither 0 nor 1");
  const auto of_length = [](uint32_t type, uint64_t length) {
    return B::raw(type) + B::raw(length);
  };
  for (const uint64_t length : {uint64_t{100}, uint64_t{1} << 61, ~uint64_t{0}}) {
    for (const uint32_t type : {B::u8, B::f64, B::text, B::array})
      refuse(B().add("a", B::array, of_length(type, length)).file(),
             fmt::format("the value of 'a' has {} elements", length));
    refuse(B().add("a", B::text, B::raw(length)).file(), fmt::format("expected {} bytes", length));
    refuse(B().file().substr(0, 16) + B::raw(uint64_t{1}) + B::raw(length) + std::string(64, 'k'),
           fmt::format("expected {} bytes of a key at byte 32", length));
  }
  std::string deep;
  for (int level = 0; level < 5; ++level) deep += of_length(B::array, 1);
  refuse(B().add("a", B::array, deep + of_length(B::u8, 0)).file(), "arrays of more than 4 levels");
}

TEST_CASE("tensors of GGUF files that are not right are refused", "[data]") {
  const std::string row(34, '\0');
  refuse(B().tensor("a", {32}, q8_0, row).tensor("a", {32}, q8_0, row).file(),
         "has the tensor 'a' twice");
  refuse(B().tensor("", {32}, q8_0, row).file(), "the name of a tensor that ends at byte 32");
  refuse(B().tensor("a", {32}, q8_1, row).file(), "tensor 'a' is of type Q8_1; accrue reads");
  for (const uint32_t type : {4u, 31u, ~0u})
    refuse(B().tensor("a", {32}, type, row).file(), fmt::format("is of type number {}", type));
  refuse(B().tensor("a", {48}, q4_0, row).file(),
         "tensor 'a' has rows of 48 elements, expected a multiple of the 32 of a block of Q4_0");
  refuse(B().tensor("a", {1, 1, 1, 1, 1}, f32, row).file(), "has 5 dimensions");
  for (const uint64_t size : {uint64_t{0}, ~uint64_t{0}, uint64_t{1} << 57})
    refuse(B().tensor("a", {32, size}, f32, row).file(), fmt::format("has the size {}", size));
  // Sizes whose product overflows.
  const uint64_t half = uint64_t{1} << 32;
  refuse(B().tensor("a", {half, half}, f32, row).file(), "sizes that fit in memory");
  refuse(B().tensor("a", {32, 2}, q8_0, row).file(), "takes 68 bytes from byte 0");
  for (const uint64_t offset : {uint64_t{64}, ~uint64_t{31}})
    refuse(B().tensor("a", {32}, q8_0, row).describe("b", {32}, q8_0, offset).file(),
           fmt::format("takes 34 bytes from byte {} of the data, which has 34", offset));
}

}  // namespace gguf
}  // namespace accrue::test
