// Tables: files of other programs become fields of a data set, or give one clear error.

#include "data/table.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/files.h"

namespace accrue::test {
namespace {

// A file as numpy.save() writes it.
template <class T>
std::string npy(const std::string& type, const std::string& shape, const std::vector<T>& values,
                const std::string& order = "False") {
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}", type, order, shape);
  header += std::string(63 - (10 + header.size()) % 64, ' ') + "\n";
  std::string file = std::string("\x93NUMPY\x01\0", 8) + static_cast<char>(header.size() % 256) +
                     static_cast<char>(header.size() / 256) + header;
  file.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  return file;
}

}  // namespace

TEST_CASE("columns of a CSV file become tensors", "[data]") {
  const TemporaryDirectory folder;
  const Table table = read_csv(
      folder.write("named", "height, \"width\" ,class\r\n1.5,2,0\r\n\n-3e2,+4.25,2\r\n7,8,1"));
  REQUIRE(table.columns() == std::vector<std::string>{"height", "width", "class"});
  REQUIRE(table.rows() == 3);
  const std::vector<std::string> wanted{"width", "height"};
  const Tensor numbers = table.numbers(wanted);
  REQUIRE(numbers.shape() == Shape{3, 2});
  REQUIRE(to_doubles(numbers) == std::vector<double>{2, 1.5, 4.25, -300, 8, 7});
  const auto classes = table.indices("class", 3);
  REQUIRE(std::vector<int32_t>(classes.span<int32_t>().begin(), classes.span<int32_t>().end()) ==
          std::vector<int32_t>{0, 2, 1});
  REQUIRE_ERROR(table.indices("class", 2),
                "row 1 of column 'class' is 2: expected a class from 0 to 1");
  REQUIRE_ERROR(table.indices("height", 9), "row 0 of column 'height' is 1.5");
  REQUIRE_ERROR(table.indices("depth", 9), "no column 'depth': it has height, width, class");

  const Table plain = read_csv(folder.write("plain", "1,2\n3,4\n"));
  REQUIRE(plain.columns() == std::vector<std::string>{"0", "1"});
  REQUIRE(plain.rows() == 2);
}

TEST_CASE("columns of a CSV file become classes and weights", "[data]") {
  const TemporaryDirectory folder;
  const Table table =
      read_csv(folder.write("one-hot", "cat,dog,fish,often\n0,1,0,2\n1,0,0,0.5\n0,0,1,0\n"));
  const std::vector<std::string> kinds{"cat", "dog", "fish"}, two{"cat", "dog"},
      others{"cat", "often"};
  const Tensor classes = table.one_hot(kinds);
  REQUIRE(std::ranges::equal(classes.span<int32_t>(), std::vector<int32_t>{1, 0, 2}));
  REQUIRE(to_doubles(table.weights("often")) == std::vector<double>{2, 0.5, 0});
  REQUIRE_ERROR(table.one_hot(two), "row 2 has 0 times 1 and 2 times 0 in cat, dog");
  REQUIRE_ERROR(table.one_hot(others), "row 0 has 0 times 1 and 1 times 0 in cat, often");
  const Table negative = read_csv(folder.write("negative", "a,w\n1,2\n1,-2\n"));
  REQUIRE_ERROR(negative.weights("w"), "row 1 of column 'w' is -2: expected a weight");
}

TEST_CASE("a CSV file that is no table is refused by its line", "[data]") {
  const TemporaryDirectory folder;
  const auto read = [&](const std::string& text) { return read_csv(folder.write("csv", text)); };
  REQUIRE_ERROR(read("a,b\n1,2\n3\n"), "line 3: 1 values, expected 2 as in the first line");
  REQUIRE_ERROR(read("a,b\n1,x\n"), "line 2: b is 'x', expected a finite number");
  REQUIRE_ERROR(read("a,b\n"), "has no rows of numbers");
  REQUIRE_ERROR(read("\xff\xfe" + std::string("1\0\n\0", 4)), "is UTF-16: expected UTF-8");
  REQUIRE_ERROR(read("a,b\n\xef\xbb\xbf"
                     "1,2\n"),
                "line 2: a is '\xef\xbb\xbf"
                "1'");
}

// Otherwise a row of numbers would be taken for names and lost.
TEST_CASE("a CSV file whose first row lacks a number has no names", "[data]") {
  const TemporaryDirectory folder;
  const auto read = [&](const std::string& text) { return read_csv(folder.write("csv", text)); };
  for (const std::string missing : {"nan", "NaN", "-inf", "1e39", "1e999", "", "NA", "n/a", "?"})
    for (const char* rest : {"\n1,2\n", "\n"}) {
      INFO(missing);
      REQUIRE_ERROR(read("1," + missing + rest),
                    "line 1: 1 is '" + missing + "', expected a finite");
    }
  const std::string rows = "1.5,2\n3,4\n";
  for (const std::string start : {"", "\xef\xbb\xbf"}) {
    REQUIRE(read(start + rows).rows() == 2);
    REQUIRE(read(start + ",b\n" + rows).columns() == std::vector<std::string>{"", "b"});
    REQUIRE(read(start + "a,1\n" + rows).columns() == std::vector<std::string>{"a", "1"});
  }
}

TEST_CASE("NumPy's arrays become tensors", "[data]") {
  const TemporaryDirectory folder;
  const auto read = [&](const std::string& file) { return read_npy(folder.write("npy", file)); };
  const Tensor floats = read(npy<float>("<f4", "(2, 3)", {1, 2, 3, 4, 5, 6}));
  REQUIRE((floats.shape() == Shape{2, 3} && floats.dtype() == DType::f32));
  REQUIRE(to_doubles(floats) == std::vector<double>{1, 2, 3, 4, 5, 6});
  REQUIRE(to_doubles(read(npy<double>("<f8", "(2,)", {0.1, -2}))) ==
          std::vector<double>{double(0.1f), -2});
  REQUIRE(read(npy<int64_t>("<i8", "(2,)", {-7, 8})).span<int32_t>()[0] == -7);
  REQUIRE(read(npy<int32_t>("<i4", "(1, 2)", {-7, 8})).shape() == Shape{1, 2});
  REQUIRE(read(npy<uint8_t>("|u1", "(2, 1)", {7, 255})).span<uint8_t>()[1] == 255);

  REQUIRE_ERROR(read(npy<int64_t>("<i8", "(1,)", {int64_t{1} << 40})),
                "element 0 is 1099511627776, which i32 does not hold");
  REQUIRE_ERROR(read(npy<float>(">f4", "(1,)", {1})), "holds >f4: expected u1, i4, i8, f4 or f8");
  REQUIRE_ERROR(read(npy<float>("<c8", "(1,)", {1, 2})), "holds <c8");
  REQUIRE_ERROR(read(npy<float>("<f4", "(2, 1)", {1, 2}, "True")), "column-major order");
  REQUIRE_ERROR(read(npy<float>("<f4", "(3,)", {1, 2})), "");
  REQUIRE_ERROR(read(npy<float>("<f4", "(1,)", {1, 2})), "has bytes left over");
  REQUIRE_ERROR(read(npy<float>("<f4", "(4294967296, 4294967296)", {1})), "too short");
  REQUIRE_ERROR(read(npy<float>("<f4", "(99999999999999999999,)", {1})), "too short");
  for (const char* const type : {"", "f", "<M8[ns]"})
    REQUIRE_ERROR(read(npy<float>(type, "(1,)", {1})), "has no simple 'descr'");
  for (const char* const shape : {"(-1,)", "[1]", "(1"})
    REQUIRE_ERROR(read(npy<float>("<f4", shape, {1})), "has no 'shape'");
  REQUIRE_ERROR(read("\x89PNG and more than eight bytes"), "is no .npy file");
}

}  // namespace accrue::test
