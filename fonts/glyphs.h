#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/png.h"

namespace accrue {

namespace detail {

// Characters drawn in one font, the source, and in others, the styles, as a directory:
//   DIR/manifest.json           the contents, written last
//   DIR/<style>/U+6C38.png      source left and target right, gray, 2 S wide and S high
// The manifest is
//   {"format": "accrue glyphs", "version": 1, "size": S, "layout": "bbox", "source": FONT,
//    "styles": [{"name": "ukai", "font": FONT}, ...],
//    "characters": [{"character": "永", "held_out": false}, ...],
//    "missing": [{"character": "凉", "fonts": ["ukai.ttc"]}, ...]}
// where FONT is {"name", "file", "face", "licence"}, and characters stand in the order of their
// code points.
struct GlyphFont {
  std::string name;  // "WenQuanYi Zen Hei Regular"
  std::string file;  // "wqy-zenhei.ttc", without its folder
  int64_t face = 0;
  std::string licence;  // as the font states it; empty if it does not

  bool operator==(const GlyphFont&) const = default;
};

struct GlyphStyle {
  std::string name;  // of its folder
  GlyphFont font;

  bool operator==(const GlyphStyle&) const = default;
};

struct GlyphCharacter {
  char32_t code;
  bool held_out;  // for the test

  bool operator==(const GlyphCharacter&) const = default;
};

// A character that was asked for and left out, and the files of the fonts that lack it.
struct MissingCharacter {
  char32_t code;
  std::vector<std::string> fonts;

  bool operator==(const MissingCharacter&) const = default;
};

struct GlyphManifest {
  int64_t size = 0;    // S
  std::string layout;  // how glyphs were placed, in the words of the program that did it
  GlyphFont source;
  std::vector<GlyphStyle> styles;
  std::vector<GlyphCharacter> characters;
  std::vector<MissingCharacter> missing;

  // The characters of a split, in the order of each style's samples.
  std::vector<char32_t> characters_of(Split split) const;
  // "ming, kai"
  std::string style_names() const;
  // The place of a style. Throws Error, listing the names, if there is no such style.
  int32_t style_number(const std::string& name) const;
  bool operator==(const GlyphManifest&) const = default;
};

// True for the tenth of all characters that is for the test: those for which the finaliser of
// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014)
// of the code point is a multiple of 10. It depends on no other character, so data sets of other
// fonts and other choices of characters never train on what this one tests.
bool is_held_out(char32_t code);

// "永" and "U+6C38". They throw Error unless the code point is one of Unicode's characters.
std::string to_utf8(char32_t code);
std::string code_name(char32_t code);
// The first `most` characters, with " ..." in place of the others.
std::string shortened(const std::u32string& text, size_t most = 20);
// A hundred characters of a font's licence, or `without` if it states none.
std::string licence_in_short(const std::string& licence, const std::string& without);
// The characters of a text. Throws Error for one that is not UTF-8, with the place.
std::u32string from_utf8(const std::string& text);

std::filesystem::path glyph_pair_path(const std::filesystem::path& directory,
                                      const std::string& style, char32_t code);

// True if the directory has a manifest.
bool holds_glyphs(const std::filesystem::path& directory);
// Both throw Error, naming the file, for a manifest of another version or not as above, with a size
// of 8 to 1024, at least one style and one character, each once, and characters in order.
GlyphManifest read_glyph_manifest(const std::filesystem::path& directory);
void write_glyph_manifest(const std::filesystem::path& directory, const GlyphManifest& manifest);

}  // namespace detail

// Reads a directory: `sources` and `targets` (pixels [N, 1, S, S]) and `styles` (indices [N], the
// place in the manifest), style by style, and in each the characters of the split in order; those
// held out are the test. Throws Error, naming the file, as read_glyph_manifest() and read_png() do,
// for a pair of another size, and unless there are characters in both splits.
Datasets load_glyphs(const std::filesystem::path& directory);

}  // namespace accrue
