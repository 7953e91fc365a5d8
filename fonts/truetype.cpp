#include "fonts/truetype.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "core/error.h"
#include "core/inside.h"
#include "fonts/glyphs.h"

namespace accrue::fonts {
namespace {

// Big-endian numbers, one after another. Only the lower bits of each are written.
class BigEndian {
 public:
  BigEndian& u8(int64_t value) {
    bytes_ += static_cast<char>(value);
    return *this;
  }
  BigEndian& u16(int64_t value) { return u8(value >> 8).u8(value); }
  template <class... Values>
  BigEndian& u16s(Values... values) {
    (u16(static_cast<int64_t>(values)), ...);
    return *this;
  }
  BigEndian& u32(int64_t value) { return u16(value >> 16).u16(value); }
  // Takes seconds since 1970 and writes seconds since 1904.
  BigEndian& date(int64_t seconds) {
    const int64_t since_1904 = seconds + 2082844800;
    return u32(since_1904 >> 32).u32(since_1904);
  }
  BigEndian& text(const std::string& text) {
    bytes_ += text;
    return *this;
  }
  BigEndian& zeros(size_t count) {
    bytes_.append(count, '\0');
    return *this;
  }
  void pad() { bytes_.resize((bytes_.size() + 3) / 4 * 4); }

  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

struct UnitPoint {
  int x, y;
  bool on_curve;
  bool operator==(const UnitPoint&) const = default;
};

// A glyph as it is written.
struct GlyphShape {
  std::vector<UnitPoint> points;
  std::vector<int64_t> ends;  // the last point of each contour
  int left = 0, bottom = 0, right = 0, top = 0;
  int advance = 0;
};

int to_unit(double value) {
  return static_cast<int>(std::lround(std::clamp(value, -16384.0, 16383.0)));
}

GlyphShape shape_of(const TrueTypeFont::Glyph& glyph) {
  GlyphShape shape;
  shape.advance = std::clamp(glyph.advance, 0, 65535);
  for (const Contour& contour : glyph.outline) {
    std::vector<UnitPoint> points;
    for (const OutlinePoint& p : contour)
      if (const UnitPoint unit{to_unit(p.x), to_unit(p.y), p.on_curve};
          points.empty() || unit != points.back())
        points.push_back(unit);
    while (points.size() > 1 && points.front() == points.back()) points.pop_back();
    if (points.size() < 3) continue;
    shape.points.insert(shape.points.end(), points.begin(), points.end());
    shape.ends.push_back(static_cast<int64_t>(shape.points.size()) - 1);
  }
  check(shape.points.size() < 32768, "the outline of {} has {} points, expected fewer than 32768",
        code_name(glyph.code), shape.points.size());
  if (shape.points.empty()) return shape;
  const auto [left, right] = std::ranges::minmax(shape.points, {}, &UnitPoint::x);
  const auto [bottom, top] = std::ranges::minmax(shape.points, {}, &UnitPoint::y);
  shape.left = left.x, shape.right = right.x, shape.bottom = bottom.y, shape.top = top.y;
  return shape;
}

// The glyph of all characters that the font lacks.
TrueTypeFont::Glyph missing_box(const FontFacts& source) {
  const double em = source.units_per_em, l = 0.1 * em, r = 0.9 * em, t = 0.8 * em, pen = 0.05 * em;
  const auto box = [](double x0, double y0, double x1, double y1) {
    return Contour{{x0, y0, true}, {x0, y1, true}, {x1, y1, true}, {x1, y0, true}};
  };
  Contour hole = box(l + pen, pen, r - pen, t - pen);
  std::ranges::reverse(hole);
  return {0, source.units_per_em, {box(l, 0, r, t), hole}};
}

// One coordinate of all points, as differences, which take a byte if they fit into one.
struct CoordinateSteps {
  std::vector<int> flags;
  BigEndian values;
};

CoordinateSteps coordinate_steps(const std::vector<UnitPoint>& points, int UnitPoint::*axis,
                                 int byte_flag, int same_or_positive_flag) {
  CoordinateSteps result;
  int before = 0;
  for (const UnitPoint& p : points) {
    const int step = p.*axis - before;
    before = p.*axis;
    const bool is_byte = step != 0 && std::abs(step) < 256;
    const bool flagged = is_byte ? step > 0 : step == 0;
    result.flags.push_back((is_byte ? byte_flag : 0) | (flagged ? same_or_positive_flag : 0));
    if (is_byte) result.values.u8(std::abs(step));
    else if (step != 0) result.values.u16(step);
  }
  return result;
}

BigEndian glyph_table(const GlyphShape& shape) {
  BigEndian table;
  if (shape.points.empty()) return table;
  const CoordinateSteps x = coordinate_steps(shape.points, &UnitPoint::x, 0x02, 0x10);
  const CoordinateSteps y = coordinate_steps(shape.points, &UnitPoint::y, 0x04, 0x20);
  table.u16s(shape.ends.size(), shape.left, shape.bottom, shape.right, shape.top);
  for (const int64_t end : shape.ends) table.u16(end);
  table.u16(0);  // bytes of instructions
  for (size_t i = 0; i < shape.points.size(); ++i)
    table.u8(x.flags[i] | y.flags[i] | (shape.points[i].on_curve ? 1 : 0));
  table.text(x.values.bytes()).text(y.values.bytes());
  table.pad();
  return table;
}

// Consecutive codes with consecutive glyphs.
struct CodeRun {
  int64_t first, last, glyph;
};

BigEndian segments_of_16_bits(std::vector<CodeRun> runs) {
  runs.push_back({0xffff, 0xffff, 0});  // the format needs this at the end
  const auto n = static_cast<int64_t>(runs.size());
  int64_t power = 1, log = 0;
  for (; 2 * power <= n; power *= 2) ++log;
  BigEndian table;
  table.u16s(4, 16 + 8 * n, 0, 2 * n, 2 * power, log, 2 * (n - power));
  for (const CodeRun& run : runs) table.u16(run.last);
  table.u16(0);
  for (const CodeRun& run : runs) table.u16(run.first);
  for (const CodeRun& run : runs) table.u16(run.glyph - run.first);
  return table.zeros(2 * runs.size());
}

BigEndian segments_of_32_bits(const std::vector<CodeRun>& runs) {
  BigEndian table;
  table.u16s(12, 0).u32(16 + 12 * static_cast<int64_t>(runs.size())).u32(0);
  table.u32(static_cast<int64_t>(runs.size()));
  for (const CodeRun& run : runs) table.u32(run.first).u32(run.last).u32(run.glyph);
  return table;
}

// The map for programs that know only 16 bits is left out if there are more segments than it can
// hold.
BigEndian character_map(const std::vector<TrueTypeFont::Glyph>& glyphs) {
  constexpr size_t most_segments = 8000;
  std::vector<CodeRun> runs, short_runs;
  for (size_t i = 0; i < glyphs.size(); ++i) {
    const auto code = static_cast<int64_t>(glyphs[i].code), glyph = static_cast<int64_t>(i) + 1;
    if (runs.empty() || runs.back().last != code - 1 || code == 0x10000)
      runs.push_back({code, code, glyph});
    else runs.back().last = code;
  }
  std::ranges::copy_if(runs, std::back_inserter(short_runs),
                       [](const CodeRun& run) { return run.last < 0xffff; });
  std::vector<std::pair<int, BigEndian>> maps;  // by the number of the encoding
  if (short_runs.size() <= most_segments) maps.emplace_back(1, segments_of_16_bits(short_runs));
  maps.emplace_back(10, segments_of_32_bits(runs));
  BigEndian table, contents;
  table.u16s(0, maps.size());
  for (const auto& [encoding, map] : maps) {
    table.u16s(3, encoding).u32(4 + 8 * static_cast<int64_t>(maps.size()) + contents.size());
    contents.text(map.bytes());
  }
  return table.text(contents.bytes());
}

std::string to_utf16(const std::string& utf8) {
  BigEndian units;
  for (const char32_t code : from_utf8(utf8)) {
    if (code < 0x10000) units.u16(code);
    else units.u16(0xd7c0 + (code >> 10)).u16(0xdc00 + (code & 0x3ff));
  }
  return units.bytes();
}

std::string postscript_name(const std::string& family) {
  std::string name;
  for (const char c : family)
    if (c > ' ' && c < '\x7f' && std::string_view("[](){}<>/%").find(c) == std::string_view::npos)
      name += c;
  return (name.empty() ? "accrue" : name.substr(0, 50)) + "-Regular";
}

BigEndian name_table(const TrueTypeFont& font) {
  const std::vector<std::pair<int, std::string>> entries{{0, font.source.copyright},
                                                         {1, font.family},
                                                         {2, "Regular"},
                                                         {3, font.full_name},
                                                         {4, font.full_name},
                                                         {5, "Version 1.000"},
                                                         {6, postscript_name(font.family)},
                                                         {10, font.description},
                                                         {13, font.source.licence},
                                                         {14, font.source.licence_url}};
  BigEndian records, texts;
  int64_t count = 0;
  for (const auto& [id, text] : entries) {
    if (text.empty()) continue;
    // Keeps the places of all texts within 16 bits.
    const size_t most_bytes = id == 0 || id >= 10 ? 14000 : 1000;
    std::string utf16 = to_utf16(text);
    utf16.resize(std::min(utf16.size(), most_bytes));
    records.u16s(3, 1, 0x409, id, utf16.size(), texts.size());  // Microsoft, Unicode, English
    texts.text(utf16);
    ++count;
  }
  BigEndian table;
  return table.u16s(0, count, 6 + 12 * count).text(records.bytes()).text(texts.bytes());
}

struct FontLimits {
  int left = 0, bottom = 0, right = 0, top = 0;
  int least_right_bearing = 0, most_advance = 0;
  int64_t points = 0, contours = 0, advance_sum = 0, advances = 0;
};

FontLimits limits_of(const std::vector<GlyphShape>& shapes) {
  FontLimits all;
  bool first = true;
  for (const GlyphShape& s : shapes) {
    all.most_advance = std::max(all.most_advance, s.advance);
    all.advance_sum += s.advance;
    all.advances += s.advance > 0 ? 1 : 0;
    if (s.points.empty()) continue;
    const int bearing = s.advance - s.right;
    all.left = first ? s.left : std::min(all.left, s.left);
    all.bottom = first ? s.bottom : std::min(all.bottom, s.bottom);
    all.right = first ? s.right : std::max(all.right, s.right);
    all.top = first ? s.top : std::max(all.top, s.top);
    all.least_right_bearing = first ? bearing : std::min(all.least_right_bearing, bearing);
    all.points = std::max(all.points, static_cast<int64_t>(s.points.size()));
    all.contours = std::max(all.contours, static_cast<int64_t>(s.ends.size()));
    first = false;
  }
  return all;
}

BigEndian windows_table(const TrueTypeFont& font, const FontLimits& all) {
  const FontFacts& f = font.source;
  const int em = f.units_per_em;
  const auto& [ascender, descender, gap] = f.typographic;
  BigEndian table;
  const int64_t advances = std::max<int64_t>(all.advances, 1);
  table.u16s(4, (2 * all.advance_sum + advances) / (2 * advances), f.weight, f.width, f.embedding);
  table.u16s(em * 2 / 3, em * 2 / 3, 0, em / 7, em * 2 / 3, em * 2 / 3, 0, em / 3);
  table.u16s(em / 20, em / 4, 0).zeros(10);  // struck out; no class, no panose
  for (const uint32_t range : f.unicode_ranges) table.u32(range);
  constexpr int is_regular = 1 << 6, is_typographic = 1 << 7;
  table.text("accr").u16(is_regular | (f.is_typographic ? is_typographic : 0));
  const auto in_16_bits = [](char32_t code) { return std::min<int64_t>(code, 0xffff); };
  table.u16s(in_16_bits(font.glyphs.front().code), in_16_bits(font.glyphs.back().code));
  table.u16s(ascender, descender, gap, f.windows_ascent, f.windows_descent);
  for (const uint32_t page : f.code_pages) table.u32(page);
  return table.u16s(0, 0, 0, ' ', 1);
}

uint32_t checksum(const std::string& bytes) {
  uint32_t sum = 0;
  for (size_t i = 0; i < bytes.size(); ++i)
    sum += static_cast<uint32_t>(static_cast<unsigned char>(bytes[i])) << (24 - 8 * (i % 4));
  return sum;
}

// The tables with their directory. The table `head` gets the checksum of the whole file.
std::string file_of(const std::vector<std::pair<std::string, BigEndian>>& tables) {
  const auto n = static_cast<int64_t>(tables.size());
  BigEndian directory, contents;
  int64_t head = 0, power = 1, log = 0;
  for (; 2 * power <= n; power *= 2) ++log;
  directory.u32(0x10000).u16s(n, 16 * power, log, 16 * (n - power));
  for (const auto& [tag, table] : tables) {
    const int64_t place = 12 + 16 * n + contents.size();
    if (tag == "head") head = place;
    directory.text(tag).u32(checksum(table.bytes())).u32(place).u32(table.size());
    contents.text(table.bytes()).pad();
  }
  std::string file = directory.bytes() + contents.bytes();
  BigEndian sum;
  file.replace(static_cast<size_t>(head) + 8, 4,
               sum.u32(int64_t{0xb1b0afba} - checksum(file)).bytes());
  return file;
}

}  // namespace

std::string encode_truetype(TrueTypeFont font) {
  check(font.glyphs.size() < 65535, "a font of {} glyphs: expected fewer than 65535",
        font.glyphs.size());
  check(!font.glyphs.empty(), "a font of no glyphs: expected one or more");
  std::ranges::sort(font.glyphs, {}, &TrueTypeFont::Glyph::code);
  for (size_t i = 1; i < font.glyphs.size(); ++i)
    check(font.glyphs[i].code != font.glyphs[i - 1].code, "{} is in a font twice, expected once",
          code_name(font.glyphs[i].code));
  std::vector<GlyphShape> shapes{shape_of(missing_box(font.source))};
  for (const TrueTypeFont::Glyph& glyph : font.glyphs) shapes.push_back(shape_of(glyph));

  const FontLimits all = limits_of(shapes);
  const FontFacts& source = font.source;
  const int em = source.units_per_em;
  BigEndian glyf, loca, hmtx, head, hhea, maxp, post, gasp;
  for (const GlyphShape& shape : shapes) {
    loca.u32(glyf.size());
    glyf.text(glyph_table(shape).bytes());
    hmtx.u16s(shape.advance, shape.left);
  }
  loca.u32(glyf.size());
  // Left edges lie where hmtx has them, at any size; indices of loca have 32 bits.
  head.u32(0x10000).u32(0x10000).u32(0).u32(0x5f0f3cf5).u16s(0x000b, em);
  head.date(font.created).date(font.created);
  head.u16s(all.left, all.bottom, all.right, all.top, 0, 6, 2, 1, 0);
  hhea.u32(0x10000).u16s(source.line.ascender, source.line.descender, source.line.gap);
  hhea.u16s(all.most_advance, all.left, all.least_right_bearing, all.right, 1).zeros(14);
  hhea.u16(static_cast<int64_t>(shapes.size()));
  maxp.u32(0x10000).u16s(shapes.size(), all.points, all.contours, 0, 0, 2).zeros(16);
  post.u32(0x30000).u32(0).u16s(-em / 10, em / 20).zeros(20);
  gasp.u16s(1, 1, 0xffff, 0x000a);  // gray and smooth at every size, and no instructions
  return file_of({{"OS/2", windows_table(font, all)},
                  {"cmap", character_map(font.glyphs)},
                  {"gasp", gasp},
                  {"glyf", glyf},
                  {"head", head},
                  {"hhea", hhea},
                  {"hmtx", hmtx},
                  {"loca", loca},
                  {"maxp", maxp},
                  {"name", name_table(font)},
                  {"post", post}});
}

}  // namespace accrue::fonts
