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
//   DIR/<style>/U+6C38.png      source left and target right, gray, 2 S wide and S high.
// The manifest is
//   {"format": "accrue glyphs", "version": 1, "size": S, "layout": "bbox", "source": FONT,
//    "styles": [{"name": "ukai", "font": FONT}, ...],
//    "characters": [{"character": "永", "held_out": false}, ...],
//    "missing": [{"character": "凉", "fonts": ["ukai.ttc"]}, ...]}.
// FONT is {"name", "file", "face", "licence"}, and characters stand in the order of their code
// points.
struct GlyphFont {
  std::string name;  // "WenQuanYi Zen Hei Regular"
  std::string file;  // "wqy-zenhei.ttc", without its folder
  int64_t face = 0;
  std::string licence;  // in the font's words; empty if it states none

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

// A character that was asked for but left out, and the files of the fonts that lack it.
struct MissingCharacter {
  char32_t code;
  std::vector<std::string> fonts;

  bool operator==(const MissingCharacter&) const = default;
};

struct GlyphManifest {
  int64_t size = 0;    // S
  std::string layout;  // the placement of glyphs, as their program calls it
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

// True for a tenth of all characters, which is for the test. They are the characters whose code
// point, through the finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom
// number generators", OOPSLA 2014), gives a multiple of 10. The result depends on no other
// character, so data sets of other fonts and other characters never train on a character that this
// one tests.
bool is_held_out(char32_t code);

// "永" and "U+6C38". They throw Error unless the code point is one of Unicode's characters.
std::string to_utf8(char32_t code);
std::string code_name(char32_t code);
// The first `most` characters, and " ..." if there are more.
std::string shortened(const std::u32string& text, size_t most = 20);
// The first hundred characters of a font's licence, or `without` if it states none.
std::string licence_in_short(const std::string& licence, const std::string& without);
// The characters of a text. Throws Error, with the place, for a text that is not UTF-8.
std::u32string from_utf8(const std::string& text);

std::filesystem::path glyph_pair_path(const std::filesystem::path& directory,
                                      const std::string& style, char32_t code);

// True if the directory has a manifest.
bool holds_glyphs(const std::filesystem::path& directory);
// Both throw Error, naming the file, for a manifest of another version or form. The size must be 8
// to 1024, there must be at least one style and one character, each once, and the characters must
// be in order.
GlyphManifest read_glyph_manifest(const std::filesystem::path& directory);
void write_glyph_manifest(const std::filesystem::path& directory, const GlyphManifest& manifest);

}  // namespace detail

// Reads a directory into the fields `sources` and `targets` (pixels [N, 1, S, S]) and `styles`
// (indices [N], the place in the manifest). Samples are sorted by style, and in each style the
// characters of the split are in order; held-out characters are the test. Throws Error, naming the
// file, as read_glyph_manifest() and read_png() do, for a pair of another size, and unless both
// splits have characters.
Datasets load_glyphs(const std::filesystem::path& directory);

}  // namespace accrue
