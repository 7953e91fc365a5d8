// Directories of glyphs: they are read back in the manifest's order, and errors name the wrong
// file.

#include "fonts/glyphs.h"

#include <algorithm>

#include "tests/support/catch.h"
#include "tests/support/files.h"

namespace accrue::test {
namespace {

namespace fs = std::filesystem;

constexpr int64_t S = 8;

// Twelve characters, two of them held out, in two styles.
GlyphManifest example_manifest() {
  GlyphManifest manifest;
  manifest.size = S;
  manifest.layout = "bbox";
  manifest.source = {"Plain \"Sans\"", "plain.ttc", 2, "free"};
  manifest.styles = {{"brush", {"Brush", "brush.ttf", 0, ""}},
                     {"pen", {"Pen \xe9\x92\xa2", "pen.ttf", 0, "own"}}};
  for (char32_t code = U'一'; code < U'一' + 12; ++code)
    manifest.characters.push_back({code, code % 6 == 3});
  manifest.missing = {{U'é', {"brush.ttf", "pen.ttf"}}, {U'\x20000', {"pen.ttf"}}};
  return manifest;
}

// A gray that differs for each style, half and last digits of the code point.
uint8_t gray_of_pair(size_t style, bool target, char32_t code) {
  return static_cast<uint8_t>(100 * style + 50 * target + code % 50);
}

void write_example(const fs::path& folder, const GlyphManifest& manifest) {
  for (size_t style = 0; style < manifest.styles.size(); ++style) {
    const std::string& name = manifest.styles[style].name;
    fs::create_directories(folder / name);
    for (const auto& [code, held_out] : manifest.characters) {
      GrayImage pair(S, 2 * S);
      for (int64_t y = 0; y < S; ++y)
        for (int64_t x = 0; x < 2 * S; ++x) pair.at(y, x) = gray_of_pair(style, x >= S, code);
      pair.at(1, 0) = 250;  // the second row of the source begins with it
      write_png(glyph_pair_path(folder, name, code), pair);
    }
  }
  write_glyph_manifest(folder, manifest);
}

}  // namespace

TEST_CASE("a directory of glyphs becomes a data set in its order", "[data]") {
  const TemporaryDirectory folder;
  const GlyphManifest manifest = example_manifest();
  write_example(folder.path(), manifest);
  REQUIRE(read_glyph_manifest(folder.path()) == manifest);

  const Datasets sets = load_glyphs(folder.path());
  for (const Split split : {Split::train, Split::test}) {
    const Dataset& data = split == Split::train ? sets.train : sets.test;
    const std::vector<char32_t> codes = manifest.characters_of(split);
    data.check_fields();
    REQUIRE(codes.size() == (split == Split::train ? 10 : 2));
    REQUIRE(data["sources"].shape() == Shape{int64_t(2 * codes.size()), 1, S, S});
    REQUIRE(data.field("styles").classes == 2);
    for (size_t n = 0; n < 2 * codes.size(); ++n) {
      const size_t style = n / codes.size();
      const char32_t code = codes[n % codes.size()];
      const auto half = [&](const char* field) {
        return data[field].span<uint8_t>().subspan(n * S * S, S * S);
      };
      REQUIRE(data["styles"].span<int32_t>()[n] == int32_t(style));
      REQUIRE(half("sources")[0] == gray_of_pair(style, false, code));
      REQUIRE(half("sources")[S] == 250);
      REQUIRE(std::ranges::count(half("targets"), gray_of_pair(style, true, code)) == S * S);
    }
  }
}

TEST_CASE("a tenth of the characters is held out, each by itself", "[data]") {
  // Computed by hand with Python's integers.
  const std::u32string held_out = U"丗个丬中丵";
  int64_t count = 0;
  for (char32_t code = 0x4e00; code < 0x9fa6; ++code) count += is_held_out(code);
  // 20902 * 0.1 = 2090, with a standard deviation of 43.
  REQUIRE(std::abs(count - 2090) < 3 * 43);
  for (char32_t code = 0x4e00; code < 0x4e40; ++code)
    REQUIRE(is_held_out(code) == (held_out.find(code) != held_out.npos));
}

TEST_CASE("characters are written as UTF-8 and read again", "[data]") {
  for (const char32_t code : {U'\0', U'A', U'\x7f', U'\x80', U'\x7ff', U'\x800', U'\x6c38',
                              U'\xffff', U'\x10000', U'\x10ffff'})
    REQUIRE(from_utf8(to_utf8(code)) == std::u32string{code});
  REQUIRE(from_utf8("a\xc3\xa9\xe6\xb0\xb8\xf0\xa0\x80\x80") == U"aé永\x20000");
  REQUIRE(to_utf8(U'永') == "\xe6\xb0\xb8");
  REQUIRE(code_name(U'永') == "U+6C38");
  REQUIRE(code_name(U'A') == "U+0041");
  REQUIRE_ERROR(to_utf8(0xd800), "U+D800 is no character");
  REQUIRE_ERROR(to_utf8(0x110000), "U+110000 is no character");
  for (const char* wrong : {"ab\x80", "ab\xc3", "ab\xc0\x80", "ab\xe6\xb0", "ab\xed\xa0\x80",
                            "ab\xf4\x90\x80\x80", "ab\xff", "ab\xc3("})
    REQUIRE_ERROR(from_utf8(wrong), "not UTF-8: byte 2");
}

TEST_CASE("a manifest of glyphs that is wrong is refused by its name", "[data]") {
  const TemporaryDirectory folder;
  const auto manifest_file = folder.path() / "manifest.json";
  write_glyph_manifest(folder.path(), example_manifest());
  const std::string whole = read_file(manifest_file);
  const auto refuse = [&](const std::string& text, const std::string& part) {
    folder.write("manifest.json", text);
    REQUIRE_ERROR(read_glyph_manifest(folder.path()), manifest_file.string());
    REQUIRE_ERROR(read_glyph_manifest(folder.path()), part);
  };
  const auto with = [&](const std::string& old, const std::string& other) {
    std::string text = whole;
    INFO(old);
    REQUIRE(text.find(old) != text.npos);
    return text.replace(text.find(old), old.size(), other);
  };
  refuse("{}", "does not describe glyphs");
  refuse("[1]", "does not describe glyphs");
  refuse("", "empty");
  refuse("glyphs", "not JSON");
  refuse(whole.substr(0, whole.size() / 2), "not JSON");
  refuse(with("\"version\": 1", "\"version\": 2"), "is of version 2; this program reads version 1");
  refuse(with("\"size\": 8", "\"size\": 7"), "'size' is 7, expected a number from 8 to 1024");
  refuse(with("\"size\": 8", "\"size\": 8.5"), "'size' is 8.5");
  refuse(with("\"size\": 8", "\"size\": 8, \"size\": 9"), "'size' stands twice");
  refuse(with("\"layout\"", "\"layouts\""), "expected an object with 'layout'");
  refuse(with("\"face\":2", "\"face\":-1"), "'face' is -1");
  refuse(with("\"brush\"", "\"../brush\""), "the style '../brush' cannot be the name of a folder");
  refuse(with("\"brush\"", "\"..\""), "cannot be the name of a folder");
  refuse(with("\"brush\"", "\"pen\""), "the style 'pen' stands twice");
  refuse(with("\"held_out\":false", "\"held_out\":0"), "'held_out' is 0, expected true or false");
  refuse(with("丁", "一"), "not in the order of their code points");
  refuse(with("一", "一一"), "expected a single one");
  refuse(with("\"pen.ttf\"]", "5]"), "'fonts' is 5, expected texts");
  fs::remove(manifest_file);
  REQUIRE_ERROR(read_glyph_manifest(folder.path()), manifest_file.string());
  REQUIRE_FALSE(holds_glyphs(folder.path()));

  GlyphManifest empty = example_manifest();
  empty.characters.clear();
  REQUIRE_ERROR(write_glyph_manifest(folder.path(), empty), "2 styles and 0 characters");
  GlyphManifest latin1 = example_manifest();
  latin1.source.name = "\xe9";
  REQUIRE_ERROR(write_glyph_manifest(folder.path(), latin1), "cannot be written");
  REQUIRE_FALSE(holds_glyphs(folder.path()));
}

TEST_CASE("glyphs that do not fit their manifest are refused by their names", "[data]") {
  const TemporaryDirectory folder;
  GlyphManifest manifest = example_manifest();
  write_example(folder.path(), manifest);
  const fs::path pair = glyph_pair_path(folder.path(), "pen", U'一' + 4);
  const auto refuse = [&](const std::string& part) {
    REQUIRE_ERROR(load_glyphs(folder.path()), pair.string());
    REQUIRE_ERROR(load_glyphs(folder.path()), part);
  };
  write_png(pair, GrayImage(S, S));
  refuse("is 8 x 8, expected 16 x 8");
  fs::resize_file(pair, 30);
  refuse("too early");
  fs::remove(pair);
  refuse("No such file");
  for (GlyphCharacter& character : manifest.characters) character.held_out = false;
  write_example(folder.path(), manifest);
  REQUIRE_ERROR(load_glyphs(folder.path()), "none of its 12 characters are held out");
}

}  // namespace accrue::test
