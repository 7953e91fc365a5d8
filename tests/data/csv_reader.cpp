// CSV files as spreadsheets and programming languages write them.

#include "data/csv_reader.h"

#include "images/image_columns.h"
#include "images/run_lengths.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"

namespace accrue::test {
namespace {

std::string utf16(const std::string& ascii, bool is_big_endian) {
  std::string text;
  for (const char c : ascii) text += is_big_endian ? std::string{'\0', c} : std::string{c, '\0'};
  return text;
}

std::string replaced(std::string text, char from, const std::string& to) {
  for (size_t i = 0; (i = text.find(from, i)) != std::string::npos; i += to.size())
    text.replace(i, 1, to);
  return text;
}

using Rows = std::vector<std::vector<std::string>>;

Rows rows_of(const std::filesystem::path& path) {
  CsvReader csv(path);
  Rows rows{csv.columns()};
  while (csv.next()) rows.push_back(csv.row());
  return rows;
}

}  // namespace

TEST_CASE("a CSV is the same in every dialect", "[data]") {
  const TemporaryDirectory folder;
  const std::string plain = "file,label\na.png,cat\nb b.png,dog\n";
  const Rows expected{{"file", "label"}, {"a.png", "cat"}, {"b b.png", "dog"}};
  for (const std::string& text :
       {plain, "\xef\xbb\xbf" + plain, replaced(plain, '\n', "\r\n"), replaced(plain, '\n', "\r"),
        replaced(plain, ',', ";"), replaced(plain, ',', "\t"), replaced(plain, ',', " | "),
        "\xff\xfe" + utf16(plain, false), "\xfe\xff" + utf16(plain, true), utf16(plain, false),
        utf16(plain, true), "sep=;\r\n" + replaced(plain, ',', ";"), "\n\n" + plain + "\n,\n",
        plain.substr(0, plain.size() - 1),
        std::string("\"file\", \"label\"\n\"a.png\" ,\"cat\"\n\"b b.png\",dog")}) {
    INFO(text);
    REQUIRE(rows_of(folder.write("a.csv", text)) == expected);
  }
  REQUIRE(rows_of(folder.write("a.csv", "a;b\n\"x;\"\"y\"\"\r\nz\";1,5\n")) ==
          Rows{{"a", "b"}, {"x;\"y\"\r\nz", "1,5"}});
  // U+00FC and U+1F600; the second takes two UTF-16 units.
  REQUIRE(rows_of(folder.write("a.csv", std::string("\xff\xfe\xfc\0\x3d\xd8\0\xde", 8))) ==
          Rows{{"\xc3\xbc\xf0\x9f\x98\x80"}});
}

TEST_CASE("a CSV that is none is refused by name and line", "[data]") {
  const TemporaryDirectory folder;
  const auto refuse = [&](const std::string& text, const std::string& part) {
    INFO(text);
    REQUIRE_ERROR(rows_of(folder.write("a.csv", text)), part);
  };
  refuse("a,b\n1,2\n3\n", "a.csv', line 3: it has 1 field, expected 2 as in the first line: a, b");
  refuse("a,b\r1,2\r\r3,4,5\r", "line 4: it has 3 fields");
  refuse("a,b\n1,\"2\n3,4\n", "line 2: a quotation mark opens here and none closes");
  refuse("a,b\n\"1\n\n\"x,2\n", "line 4: text follows a closing quotation mark");
  refuse(std::string("a,b\n1,\0\n", 8), "line 2: there is a zero byte");
  refuse("\xff\xfe" + utf16("a,b", false) + "x", "odd number of bytes");
  refuse("\n\n", "has no line with text");
}

TEST_CASE("columns of images, labels and run lengths are found by their names", "[data]") {
  const TemporaryDirectory folder;
  const auto labels = [&](const std::string& text) {
    const std::vector<ImageLabel> all = read_labels(folder.write("a.csv", text));
    REQUIRE(all.size() == 1);
    return all[0].image + ' ' + all[0].label + ' ' + std::to_string(all[0].line);
  };
  REQUIRE(labels("label,width,Image Name\ncat,3,a.png\n") == "a.png cat 2");
  REQUIRE(labels("\"\",id_code,diagnosis\n1,a,4\n") ==
          "a 4 2");                                 // with row numbers, as R writes them
  REQUIRE(labels("a.png,cat\n") == "a.png cat 1");  // without a header
  REQUIRE(labels("breed;id\ncat;a\n") == "a cat 2");
  REQUIRE(label_columns(folder.write("a.csv", "id,z\na,1\n"))->certainty ==
          LabelColumns::Certainty::guessed);
  REQUIRE_FALSE(label_columns(folder.write("a.csv", "id,x,y\na,1,2\n")).has_value());
  REQUIRE_ERROR(labels("id,x,y\na,1,2\n"), "has the columns id, x, y: expected one");

  const auto runs = [&](const std::string& text) {
    const auto path = folder.write("a.csv", text);
    REQUIRE(holds_run_lengths(path));
    const std::vector<RunLengths> all = read_run_lengths(path);
    REQUIRE(all.size() == 1);
    return all[0].image + ' ' + all[0].label + ' ' + all[0].runs;
  };
  REQUIRE(runs("EncodedPixels,ImageId_ClassId\n1 2,a.png_3\n") == "a.png 3 1 2");
  REQUIRE(runs("ImageId,ClassId,EncodedPixels\na.png,3,1 2\n") == "a.png 3 1 2");
  REQUIRE(runs("ImageId, EncodedPixels\na, -1\n") == "a mask ");
  REQUIRE(runs("id,class,segmentation\na,b,1 2\n") == "a b 1 2");
  REQUIRE_FALSE(holds_run_lengths(folder.write("a.csv", "image,mask\na.png,a_mask.png\n")));
  REQUIRE_ERROR(runs("thing,EncodedPixels\na,1 2\n"),
                "speaks of run lengths, but its columns are thing, EncodedPixels: expected");
  REQUIRE_ERROR(runs("Image_Label,EncodedPixels\na.png,1 2\n"),
                "line 2: the image is 'a.png', expected an image's file name, _ and a label");
}

}  // namespace accrue::test
