#include "fonts/face.h"

#include <ft2build.h>
#include FT_FREETYPE_H
#include FT_ADVANCES_H
#include FT_BBOX_H
#include FT_OUTLINE_H
#include FT_SFNT_NAMES_H
#include FT_TRUETYPE_IDS_H
#include FT_TRUETYPE_TABLES_H

#include <algorithm>
#include <cmath>
#include <string_view>

#include "core/error.h"
#include "data/byte_stream.h"

namespace accrue::fonts {
namespace {

// Outlines are loaded at this size and then scaled. Without a size, fonts whose programs put their
// glyphs together have no outlines.
constexpr int loaded_pixels = 1024;

struct FaceName {
  std::string file;
  std::optional<int64_t> face;
};

FaceName split_name(const std::string& name) {
  const size_t sign = name.rfind('#');
  std::error_code ignored;
  if (sign == std::string::npos || std::filesystem::exists(name, ignored)) return {name, {}};
  const std::string number = name.substr(sign + 1);
  const bool is_number = !number.empty() && number.size() < 6 &&
                         number.find_first_not_of("0123456789") == std::string::npos;
  check(is_number, "'{}': expected the number of a face behind '#', as in FILE.ttc#0", name);
  return {name.substr(0, sign), std::stoll(number)};
}

// UTF-16, big-endian.
std::string from_utf16(std::string_view bytes) {
  const auto unit = [&](size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(bytes[i]) << 8 |
                                 static_cast<unsigned char>(bytes[i + 1]));
  };
  std::string text;
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
    char32_t code = unit(i);
    if (code >= 0xd800 && code < 0xdc00 && i + 3 < bytes.size() && unit(i + 2) >> 10 == 0x37) {
      code = 0x10000 + ((code - 0xd800) << 10) + (unit(i + 2) - 0xdc00);
      i += 2;
    }
    text += code >= 0xd800 && code < 0xe000 ? "?" : to_utf8(code);
  }
  return text;
}

// The text in one line, with single spaces.
std::string in_one_line(const std::string& text) {
  std::string line;
  for (const char c : text) {
    const bool space = static_cast<unsigned char>(c) <= ' ' || c == '\x7f';
    if (!space) line += c;
    else if (!line.empty() && line.back() != ' ') line += ' ';
  }
  if (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

// The first of these entries that the table of names has, in English if possible.
std::string entry_of(FT_Face face, std::initializer_list<FT_UShort> ids) {
  for (const FT_UShort id : ids) {
    std::string best;
    int best_rank = 0;
    for (FT_UInt i = 0; i < FT_Get_Sfnt_Name_Count(face); ++i) {
      FT_SfntName name{};
      if (FT_Get_Sfnt_Name(face, i, &name) != 0 || name.name_id != id) continue;
      const std::string_view bytes(reinterpret_cast<const char*>(name.string), name.string_len);
      const bool is_utf16 = name.platform_id == TT_PLATFORM_MICROSOFT ||
                            name.platform_id == TT_PLATFORM_APPLE_UNICODE;
      const bool is_ascii = std::ranges::all_of(bytes, [](char c) { return (c & 0x80) == 0; });
      if (!is_utf16 && !is_ascii) continue;
      const bool is_english = name.platform_id == TT_PLATFORM_MICROSOFT &&
                              name.language_id == TT_MS_LANGID_ENGLISH_UNITED_STATES;
      const int rank = is_english ? 3 : is_utf16 ? 1 : 2;
      if (rank <= best_rank) continue;
      best = in_one_line(is_utf16 ? from_utf16(bytes) : std::string(bytes));
      best_rank = best.empty() ? 0 : rank;
    }
    if (!best.empty()) return best;
  }
  return {};
}

std::string name_of(FT_Face face) {
  const auto part = [](const char* text) { return std::string(text ? text : ""); };
  const std::string name = in_one_line(part(face->family_name) + " " + part(face->style_name));
  const bool is_ascii = std::ranges::all_of(name, [](char c) { return (c & 0x80) == 0; });
  return name.empty() || !is_ascii ? "unnamed" : name;
}

}  // namespace

struct Face::Opened {
  FT_Library library = nullptr;
  FT_Face face = nullptr;
  std::string path;
  GlyphFont about;

  ~Opened() {
    if (face) FT_Done_Face(face);
    if (library) FT_Done_FreeType(library);
  }

  // Throws Error unless FreeType takes that face of the file.
  void open(FT_Long index) {
    if (face) FT_Done_Face(std::exchange(face, nullptr));
    const FT_Error error = FT_New_Face(library, path.c_str(), index, &face);
    check(error != FT_Err_Unknown_File_Format,
          "'{}' is no font, or one of a kind that FreeType "
          "does not read",
          path);
    check(error == 0, "'{}' is a damaged font: FreeType's error {:#x}", path, error);
  }

  std::string list_of_faces(FT_Long count) {
    std::string list;
    for (FT_Long i = 0; i < count; ++i) {
      open(i);
      list += fmt::format("{}#{} {}", i == 0 ? "" : ", ", i, name_of(face));
    }
    return list;
  }

  // The outline of a glyph in 64ths of a pixel; null if the font has none.
  FT_Outline* outline_of(char32_t code) {
    const FT_UInt glyph = FT_Get_Char_Index(face, code);
    if (glyph == 0) return nullptr;
    const FT_Error error = FT_Load_Glyph(face, glyph, FT_LOAD_NO_BITMAP | FT_LOAD_NO_HINTING);
    check(error == 0, "'{}' is a damaged font: its glyph of {} ({}) gives FreeType's error {:#x}",
          path, to_utf8(code), code_name(code), error);
    FT_GlyphSlot slot = face->glyph;
    return slot->format == FT_GLYPH_FORMAT_OUTLINE && slot->outline.n_points > 0 ? &slot->outline
                                                                                 : nullptr;
  }
};

const std::map<std::string, GlyphLayout>& glyph_layout_names() {
  static const std::map<std::string, GlyphLayout> names{{"bbox", GlyphLayout::bbox},
                                                        {"zi2zi", GlyphLayout::zi2zi}};
  return names;
}

Face::Face(const std::string& name) : opened_(std::make_unique<Opened>()) {
  Opened& font = *opened_;
  const FaceName asked = split_name(name);
  font.path = InputFile(asked.file).path().string();  // throws Error if it cannot be read
  check(FT_Init_FreeType(&font.library) == 0, "FreeType cannot start: no memory");
  font.open(-1);
  const FT_Long count = font.face->num_faces;
  check(count == 1 || asked.face, "'{0}' holds {1} faces, expected one of them by '{0}#N': {2}",
        font.path, count, count == 1 ? "" : font.list_of_faces(count));
  const int64_t index = asked.face.value_or(0);
  check(index < count, "'{}' has no face {}: it has 0 to {}", font.path, index, count - 1);
  font.open(static_cast<FT_Long>(index));
  check(FT_IS_SCALABLE(font.face), "'{}' has bitmaps alone, expected a font of outlines",
        font.path);
  check(FT_Select_Charmap(font.face, FT_ENCODING_UNICODE) == 0,
        "'{}' does not say which of its glyphs are which Unicode characters", font.path);
  check(FT_Set_Pixel_Sizes(font.face, 0, loaded_pixels) == 0 && font.face->units_per_EM > 0,
        "'{}' is a damaged font: its glyphs have no size", font.path);
  font.about = {
      name_of(font.face), std::filesystem::path(font.path).filename().string(), index,
      entry_of(font.face, {TT_NAME_ID_LICENSE, TT_NAME_ID_LICENSE_URL, TT_NAME_ID_COPYRIGHT})};
}

Face::~Face() = default;
Face::Face(Face&&) noexcept = default;

const GlyphFont& Face::about() const { return opened_->about; }

namespace {

// The place of an outline that has loaded_pixels; `scale` is relative to that size.
GlyphPlacement placement_of(FT_Outline& outline, FT_Face face, int64_t S, GlyphLayout layout) {
  const auto size = static_cast<double>(S);
  if (layout == GlyphLayout::bbox) {
    FT_BBox box{};
    FT_Outline_Get_BBox(&outline, &box);
    const auto width = static_cast<double>(box.xMax - box.xMin) / 64;
    const auto height = static_cast<double>(box.yMax - box.yMin) / 64;
    const double scale =
        std::min((size - 2 * std::floor(size / 16)) / std::max({width, height, 1.0 / 64}), 4096.0);
    return {scale, (size - scale * static_cast<double>(box.xMin + box.xMax) / 64) / 2,
            (size - scale * static_cast<double>(box.yMin + box.yMax) / 64) / 2};
  }
  constexpr double em = 150, offset = 20, canvas = 256;
  const double ascender = std::ceil(em * face->ascender / face->units_per_EM);
  return {em / loaded_pixels * size / canvas, offset * size / canvas,
          size - (offset + ascender) * size / canvas};
}

void place_outline(FT_Outline& outline, const GlyphPlacement& placement) {
  const auto factor = static_cast<FT_Fixed>(std::lround(placement.scale * 65536));
  const FT_Matrix matrix{factor, 0, 0, factor};
  FT_Outline_Transform(&outline, &matrix);
  FT_Outline_Translate(&outline, std::lround(placement.x * 64), std::lround(placement.y * 64));
}

}  // namespace

std::optional<GrayImage> Face::draw(char32_t code, int64_t S, GlyphLayout layout) const {
  FT_Outline* const outline = opened_->outline_of(code);
  if (!outline) return std::nullopt;
  place_outline(*outline, placement_of(*outline, opened_->face, S, layout));
  GrayImage image(S, S, 0);
  FT_Bitmap bitmap{};
  bitmap.rows = bitmap.width = static_cast<unsigned>(S);
  bitmap.pitch = static_cast<int>(S);
  bitmap.buffer = image.pixels.data();
  bitmap.pixel_mode = FT_PIXEL_MODE_GRAY;
  bitmap.num_grays = 256;
  const FT_Error error = FT_Outline_Get_Bitmap(opened_->library, outline, &bitmap);
  check(error == 0, "'{}' is a damaged font: {} ({}) cannot be drawn: FreeType's error {:#x}",
        opened_->path, to_utf8(code), code_name(code), error);
  bool blank = true;
  for (uint8_t& pixel : image.pixels) {
    blank = blank && pixel == 0;
    pixel = static_cast<uint8_t>(255 - pixel);
  }
  if (blank) return std::nullopt;
  return image;
}

std::optional<GlyphPlacement> Face::placement(char32_t code, int64_t S, GlyphLayout layout) const {
  FT_Outline* const outline = opened_->outline_of(code);
  if (!outline) return std::nullopt;
  GlyphPlacement placement = placement_of(*outline, opened_->face, S, layout);
  placement.scale *= static_cast<double>(loaded_pixels) / opened_->face->units_per_EM;
  return placement;
}

std::optional<int> Face::advance(char32_t code) const {
  const FT_UInt glyph = FT_Get_Char_Index(opened_->face, code);
  FT_Fixed advance = 0;
  if (glyph == 0 || FT_Get_Advance(opened_->face, glyph, FT_LOAD_NO_SCALE, &advance) != 0)
    return std::nullopt;
  return static_cast<int>(advance);
}

FontFacts Face::facts() const {
  FT_Face face = opened_->face;
  FontFacts facts;
  facts.family = entry_of(face, {TT_NAME_ID_TYPOGRAPHIC_FAMILY, TT_NAME_ID_FONT_FAMILY});
  if (facts.family.empty() && face->family_name) facts.family = in_one_line(face->family_name);
  facts.copyright = entry_of(face, {TT_NAME_ID_COPYRIGHT});
  facts.licence = entry_of(face, {TT_NAME_ID_LICENSE});
  facts.licence_url = entry_of(face, {TT_NAME_ID_LICENSE_URL});
  facts.units_per_em = face->units_per_EM;
  facts.line = {face->ascender, face->descender,
                std::max(face->height - (face->ascender - face->descender), 0)};
  if (const auto* hhea = static_cast<const TT_HoriHeader*>(FT_Get_Sfnt_Table(face, FT_SFNT_HHEA));
      hhea && hhea->Ascender != hhea->Descender)
    facts.line = {hhea->Ascender, hhea->Descender, hhea->Line_Gap};
  facts.typographic = facts.line;
  facts.windows_ascent = std::max(facts.line.ascender, 0);
  facts.windows_descent = std::max(-facts.line.descender, 0);
  const auto* os2 = static_cast<const TT_OS2*>(FT_Get_Sfnt_Table(face, FT_SFNT_OS2));
  if (!os2 || os2->version == 0xffff) return facts;
  facts.typographic = {os2->sTypoAscender, os2->sTypoDescender, os2->sTypoLineGap};
  facts.is_typographic = (os2->fsSelection >> 7 & 1) != 0;
  facts.windows_ascent = os2->usWinAscent;
  facts.windows_descent = os2->usWinDescent;
  facts.weight = os2->usWeightClass;
  facts.width = os2->usWidthClass;
  facts.embedding = os2->fsType;
  const auto word = [](FT_ULong value) { return static_cast<uint32_t>(value); };
  facts.unicode_ranges = {word(os2->ulUnicodeRange1), word(os2->ulUnicodeRange2),
                          word(os2->ulUnicodeRange3), word(os2->ulUnicodeRange4)};
  facts.code_pages = {word(os2->ulCodePageRange1), word(os2->ulCodePageRange2)};
  return facts;
}

}  // namespace accrue::fonts
