// Classes belong to a network: they are saved with its weights, and number the classes of data.

#include "data/classes.h"

#include <cstring>

#include "core/inside.h"
#include "tests/support/catch.h"

namespace accrue::test {
namespace {

Field labels_named(std::vector<std::string> names, const std::vector<int32_t>& values) {
  const auto N = static_cast<int64_t>(values.size()), K = static_cast<int64_t>(names.size());
  return {.name = "labels",
          .values = Tensor::from(values, {N}),
          .encoding = Encoding::index,
          .classes = K,
          .class_names = std::move(names)};
}

std::vector<int32_t> indices_of(const Field& field) {
  const auto all = field.values.span<int32_t>();
  return {all.begin(), all.end()};
}

}  // namespace

TEST_CASE("weights say their classes in words that are read back", "[data]") {
  const std::vector<Classes> all{{.names = {"cat", "a, \"b\"",
                                            "Stra\xc3\x9f"
                                            "e"}},
                                 {.names = {"sea", "sand"}, .values = {0, 255}}};
  for (const Classes& classes : all) {
    Metadata metadata;
    add_classes(classes, metadata);
    REQUIRE(classes_in(metadata) == classes);
  }
  REQUIRE_FALSE(classes_in({{"classes", "3"}}).has_value());
  REQUIRE(all[1].describe() == "sea (0), sand (255)");
  const Metadata bad[] = {{{"class-names", "cat, dog"}},
                          {{"class-names", "{}"}},
                          {{"class-names", "[1]"}},
                          {{"class-names", "[\"a\"]"}, {"class-values", "[256]"}},
                          {{"class-names", "[\"a\"]"}, {"class-values", "[1, 2]"}}};
  for (const Metadata& metadata : bad) REQUIRE_THROWS_AS(classes_in(metadata), Error);
  // A name that is not UTF-8, like that of a folder from another system.
  REQUIRE(classes_of(labels_named({"Stra\xdf"
                                   "e",
                                   "\xc3\x9f"},
                                  {0}))
              .names == std::vector<std::string>{"Stra\\xDFe", "\xc3\x9f"});
}

TEST_CASE("labels get the numbers that the network has for their names", "[data]") {
  const Classes network{.names = {"fish", "cat", "dog"}};
  Field labels = labels_named({"cat", "dog", "fish"}, {0, 1, 2, 2});
  const ClassMatch match = match_classes(classes_of(labels), network);
  REQUIRE(match.is_complete());
  renumber_classes(labels, match, network);
  REQUIRE(indices_of(labels) == std::vector<int32_t>{1, 2, 0, 0});
  REQUIRE(classes_of(labels) == network);

  // Labels that are read when they are needed.
  Field read = labels_named({"cat", "dog", "fish"}, {0});
  read.values = Tensor::without_elements({2}, DType::i32, Device::cpu);
  read.read = [](std::span<std::byte> row, int64_t n) {
    const int32_t index = n == 0 ? 2 : -1;  // the second sample has no class
    std::memcpy(row.data(), &index, sizeof index);
  };
  renumber_classes(read, match, network);
  for (const auto& [n, expected] : {std::pair{0, 0}, {1, -1}}) {
    int32_t index = 7;
    read.read(std::as_writable_bytes(std::span(&index, 1)), n);
    REQUIRE(index == expected);
  }

  const ClassMatch some = match_classes({.names = {"dog", "zebra"}}, network);
  REQUIRE_FALSE(some.is_known());
  REQUIRE(some.places == std::vector<int32_t>{2, -1});
  REQUIRE(some.lacking == std::vector<std::string>{"fish", "cat"});
  Field fewer = labels_named({"dog"}, {0});
  const ClassMatch known = match_classes(classes_of(fewer), network);
  REQUIRE((known.is_known() && !known.is_complete()));
  renumber_classes(fewer, known, network);
  REQUIRE(indices_of(fewer) == std::vector<int32_t>{2});
  REQUIRE(fewer.classes == 3);
}

TEST_CASE("masks have the network's classes by value, or by name if both have names", "[data]") {
  const auto match = [](const Classes& data, const Classes& network) {
    return match_classes(data, network).places;
  };
  const Classes plain{.names = {"0", "80"}, .values = {0, 80}};
  const Classes named{.names = {"sea", "sand"}, .values = {0, 80}};
  const Classes exchanged{.names = {"sand", "sea"}, .values = {0, 80}};
  const Classes others{.names = {"0", "1"}, .values = {0, 1}};
  REQUIRE(match(plain, named) == std::vector<int32_t>{0, 1});
  REQUIRE(match(named, plain) == std::vector<int32_t>{0, 1});
  REQUIRE(match(exchanged, named) == std::vector<int32_t>{1, 0});
  REQUIRE(match(others, plain) == std::vector<int32_t>{0, -1});
  // A mask that is on or off has no classes of pixels: its plane may have any name.
  const Classes plane{.names = {"0"}}, fish{.names = {"Fish"}};
  REQUIRE(match(plane, fish) == std::vector<int32_t>{0});
  REQUIRE(match(plane, plain) == std::vector<int32_t>{-1});
  REQUIRE(match({.names = {"Fish", "Sugar"}}, named) == std::vector<int32_t>{-1, -1});
}

TEST_CASE("planes of masks take the places of the network's", "[data]") {
  const Classes network{.names = {"b", "a"}};
  Field masks{.name = "masks",
              .values = Tensor::from(std::vector<uint8_t>{1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 1, 2}),
              .encoding = Encoding::mask,
              .class_names = {"a", "b"}};
  renumber_classes(masks, match_classes(classes_of(masks), network), network);
  const auto all = masks.values.span<uint8_t>();
  REQUIRE(std::vector<uint8_t>(all.begin(), all.end()) ==
          std::vector<uint8_t>{3, 4, 1, 2, 7, 8, 5, 6});
  REQUIRE(classes_of(masks) == network);
}

}  // namespace accrue::test
