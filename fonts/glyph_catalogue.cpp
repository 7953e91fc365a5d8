#include "fonts/glyph_catalogue.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "core/inside.h"

namespace accrue {
namespace {

Samples joined(const std::vector<Samples>& parts) {
  Samples all;
  for (const Samples::Field& field : parts.front().fields) {
    const Shape& one = field.values.shape();
    const Tensor values = Tensor::empty(one.with(0, int64_t(parts.size())), field.values.dtype(),
                                        Device::cpu, Category::data);
    for (size_t i = 0; i < parts.size(); ++i)
      values.slice(int64_t(i), int64_t(i) + 1).copy_from(parts[i][field.name]);
    all.fields.push_back({field.name, values});
  }
  return all;
}

}  // namespace

GlyphCatalogue::GlyphCatalogue(const Datasets& data, const std::string& directory) : data_(data) {
  if (holds_glyphs(directory)) manifest_ = read_glyph_manifest(directory);
}

int32_t GlyphCatalogue::style(const std::string& name) const {
  if (name.empty()) return 0;
  if (manifest_) return manifest_->style_number(name);
  check(name == "strokes", "there is no style '{}': expected strokes", name);
  return 0;
}

GlyphCatalogue::Glyphs GlyphCatalogue::held_out(int32_t style, DType dtype) const {
  const int64_t count = data_.test.size() / styles();
  std::vector<int32_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  Glyphs all{gather(data_.test, style * count, (style + 1) * count, dtype), numbers};
  if (manifest_) std::ranges::copy(manifest_->characters_of(Split::test), all.characters.begin());
  return all;
}

GlyphCatalogue::Glyphs GlyphCatalogue::find(const std::string& text, int32_t style,
                                            DType dtype) const {
  check(manifest_.has_value(),
        "the built-in strokes have no characters to find: expected a directory with a manifest");
  std::vector<Samples> found;
  std::vector<int32_t> characters;
  std::vector<std::string> missing;
  for (const char32_t code : from_utf8(text)) {
    const Picked one = place_of(code, style);
    if (one.data) {
      found.push_back(gather(*one.data, one.samples, dtype));
      characters.push_back(static_cast<int32_t>(code));
    } else if (code != U' ' && code != U'\n') {
      missing.push_back(to_utf8(code));
    }
  }
  check(missing.empty(),
        "{} not among the {} characters of the data set: expected others, or a directory prepared "
        "with them",
        fmt::join(missing, " "), manifest_->characters.size());
  check(!found.empty(), "there are no characters to draw in '{}': expected some", text);
  return {joined(found), characters};
}

GlyphCatalogue::Picked GlyphCatalogue::place_of(char32_t code, int32_t style) const {
  for (const Split split : {Split::test, Split::train}) {
    const std::vector<char32_t> characters = manifest_->characters_of(split);
    const auto found = std::ranges::find(characters, code);
    if (found == characters.end()) continue;
    const int64_t first = style * int64_t(characters.size());
    return {split == Split::test ? &data_.test : &data_.train,
            {static_cast<int32_t>(first + (found - characters.begin()))}};
  }
  return {nullptr, {}};
}

}  // namespace accrue
