#include "tests/support/tiny_font.h"

#include <cstdint>
#include <utility>

namespace accrue::test {
namespace {

// Big-endian numbers one after another.
class Words {
 public:
  Words& u16(int value) {
    text_ += static_cast<char>(value >> 8);
    text_ += static_cast<char>(value);
    return *this;
  }
  Words& u32(uint32_t value) {
    return u16(static_cast<int>(value >> 16)).u16(static_cast<int>(value & 0xffff));
  }
  Words& bytes(const std::string& text) {
    text_ += text;
    return *this;
  }
  Words& zeros(size_t count) {
    text_.append(count, '\0');
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string outline(const TinyFont::Box& box) {
  if (box.left == box.right) return {};
  Words glyph;
  glyph.u16(1).u16(box.left).u16(box.bottom).u16(box.right).u16(box.top);
  glyph.u16(3).u16(0);                // the last point; no instructions
  glyph.bytes(std::string(4, '\1'));  // points on the curve, by 16-bit differences
  const int width = box.right - box.left, height = box.top - box.bottom;
  glyph.u16(box.left).u16(0).u16(width).u16(0);
  return glyph.u16(box.bottom).u16(height).u16(0).u16(-height).text();
}

std::string names(const TinyFont& font) {
  const std::vector<std::pair<int, std::string>> entries{
      {0, font.copyright}, {1, font.name}, {2, "Regular"}, {13, font.licence}};
  Words table;
  std::string texts;
  table.u16(0).u16(static_cast<int>(entries.size())).u16(static_cast<int>(6 + 12 * entries.size()));
  for (const auto& [id, text] : entries) {  // Microsoft, Unicode, English: UTF-16
    table.u16(3).u16(1).u16(0x409).u16(id).u16(static_cast<int>(2 * text.size()));
    table.u16(static_cast<int>(texts.size()));
    for (const char c : text) texts += {'\0', c};
  }
  return table.bytes(texts).text();
}

std::string character_map(const TinyFont& font) {
  const auto count = static_cast<uint32_t>(font.glyphs.size());
  Words table;
  table.u16(0).u16(1).u16(3).u16(10).u32(12);
  table.u16(12).u16(0).u32(16 + 12 * count).u32(0).u32(count);
  uint32_t glyph = 1;
  for (const auto& [code, box] : font.glyphs) table.u32(code).u32(code).u32(glyph++);
  return table.text();
}

}  // namespace

std::string TinyFont::file(size_t offset) const {
  std::vector<Box> boxes{{100, 0, 900, 700}};  // the glyph for missing characters
  for (const auto& [code, box] : glyphs) boxes.push_back(box);
  const int count = static_cast<int>(boxes.size());
  Words places, metrics;
  std::string shapes;
  for (const Box& box : boxes) {
    places.u32(static_cast<uint32_t>(shapes.size()));
    metrics.u16(1000).u16(box.left);
    shapes += outline(box);
    shapes.resize((shapes.size() + 3) / 4 * 4);
  }
  places.u32(static_cast<uint32_t>(shapes.size()));
  Words head, line, limits;
  head.u32(0x10000).u32(0).u32(0).u32(0x5f0f3cf5).u16(0).u16(1000).zeros(16);
  head.u16(0).u16(-200).u16(1000).u16(800).u16(0).u16(8).u16(2).u16(1).u16(0);
  line.u32(0x10000).u16(ascender).u16(-200).u16(0).u16(1000).zeros(22).u16(count);
  limits.u32(0x10000).u16(count).u16(4).u16(1).zeros(22);
  const std::vector<std::pair<std::string, std::string>> tables{
      {"cmap", character_map(*this)}, {"glyf", shapes},         {"head", head.text()},
      {"hhea", line.text()},          {"hmtx", metrics.text()}, {"loca", places.text()},
      {"maxp", limits.text()},        {"name", names(*this)}};
  Words directory;
  std::string contents;
  directory.u32(0x10000).u16(static_cast<int>(tables.size())).zeros(6);
  const size_t begin = offset + 12 + 16 * tables.size();
  for (const auto& [tag, content] : tables) {
    directory.bytes(tag).u32(0).u32(static_cast<uint32_t>(begin + contents.size()));
    directory.u32(static_cast<uint32_t>(content.size()));
    contents += content;
    contents.resize((contents.size() + 3) / 4 * 4);
  }
  return directory.text() + contents;
}

TinyFont letters(const std::string& name, int width) {
  TinyFont font;
  font.name = name;
  for (int i = 0; i < 26; ++i)
    font.glyphs[U'A' + static_cast<char32_t>(i)] = {100, 0, 100 + width, 300 + 10 * i};
  font.glyphs[U' '] = {0, 0, 0, 0};
  return font;
}

std::string collection_of(const std::vector<TinyFont>& fonts) {
  Words header;
  header.bytes("ttcf").u32(0x10000).u32(static_cast<uint32_t>(fonts.size()));
  std::string contents;
  const size_t begin = 12 + 4 * fonts.size();
  for (const TinyFont& font : fonts) {
    header.u32(static_cast<uint32_t>(begin + contents.size()));
    contents += font.file(begin + contents.size());
  }
  return header.text() + contents;
}

}  // namespace accrue::test
