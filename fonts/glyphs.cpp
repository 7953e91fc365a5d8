#include "fonts/glyphs.h"

#include <algorithm>
#include <set>

#include "core/random.h"
#include "data/atomic_file.h"
#include "data/byte_stream.h"
#include "data/strict_json.h"
#include "kernels/parallel.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* glyph_format = "accrue glyphs";
constexpr int glyph_format_version = 1;
// 64 bytes for each of 250,000 characters, more than any font has.
constexpr uint64_t max_manifest_bytes = 16 << 20;
constexpr int64_t max_listed = 250'000;
constexpr int64_t least_size = 8, most_size = 1024;

fs::path manifest_path(const fs::path& directory) { return directory / "manifest.json"; }

[[noreturn]] void fail_for(const char* name, const json& found, const std::string& expected) {
  fail("'{}' is {:.80}, expected {}", name, found.dump(), expected);
}

const json& member(const json& object, const char* name) {
  if (!object.is_object() || !object.contains(name))
    fail("expected an object with '{}', found {:.80}", name, object.dump());
  return object[name];
}

std::string text_of(const json& object, const char* name) {
  const json& value = member(object, name);
  if (!value.is_string()) fail_for(name, value, "a text");
  return value.get<std::string>();
}

int64_t number_of(const json& object, const char* name, int64_t low, int64_t high) {
  const json& value = member(object, name);
  if (!value.is_number_integer() || value < low || value > high)
    fail_for(name, value, fmt::format("a number from {} to {}", low, high));
  return value.get<int64_t>();
}

const json& list_of(const json& object, const char* name) {
  const json& value = member(object, name);
  if (!value.is_array()) fail_for(name, value, "a list");
  return value;
}

char32_t character_of(const json& object) {
  const std::string text = text_of(object, "character");
  const std::u32string codes = from_utf8(text);
  check(codes.size() == 1, "'character' is '{:.80}', expected a single one", text);
  return codes[0];
}

GlyphFont font_of(const json& object) {
  return {text_of(object, "name"), text_of(object, "file"),
          number_of(object, "face", 0, (1 << 16) - 1), text_of(object, "licence")};
}

ordered_json to_json(const GlyphFont& font) {
  return {{"name", font.name}, {"file", font.file}, {"face", font.face}, {"licence", font.licence}};
}

// Writes JSON with a line for each element of a list.
std::string to_lines(const ordered_json& object) {
  std::string text;
  for (const auto& [name, value] : object.items()) {
    text += fmt::format("{} {}: ", text.empty() ? "{\n" : ",\n", ordered_json(name).dump());
    if (!value.is_array()) text += value.dump();
    for (size_t i = 0; value.is_array() && i < value.size(); ++i)
      text += (i == 0 ? "[\n  " : ",\n  ") + value[i].dump();
    if (value.is_array()) text += value.empty() ? "[]" : "]";
  }
  return text + "\n}\n";
}

// Checks a manifest that was read, or that is to be written.
void check_manifest(const GlyphManifest& manifest) {
  check(manifest.size >= least_size && manifest.size <= most_size,
        "'size' is {}, expected {} to {} pixels", manifest.size, least_size, most_size);
  check(!manifest.styles.empty() && !manifest.characters.empty(),
        "it has {} styles and {} characters, expected one or more of each", manifest.styles.size(),
        manifest.characters.size());
  std::set<std::string> names;
  for (const GlyphStyle& style : manifest.styles) {
    const bool is_folder = !style.name.empty() && style.name.front() != '.' &&
                           style.name.find('/') == std::string::npos &&
                           style.name.find('\0') == std::string::npos;
    check(is_folder, "the style '{}' cannot be the name of a folder", style.name);
    check(names.insert(style.name).second, "the style '{}' stands twice in it", style.name);
  }
  const auto unordered =
      std::ranges::adjacent_find(manifest.characters, std::greater_equal{}, &GlyphCharacter::code);
  check(unordered == manifest.characters.end(),
        "its characters are not in the order of their code points, each once, from {} on",
        unordered == manifest.characters.end() ? "" : code_name(unordered->code));
}

GlyphManifest to_manifest(const json& object) {
  check(object.is_object() && object.contains("format") && object["format"] == glyph_format,
        "it does not describe glyphs: expected \"format\": \"{}\"", glyph_format);
  const json& version = member(object, "version");
  if (version != glyph_format_version)
    fail("it is of version {:.80}; this program reads version {}", version.dump(),
         glyph_format_version);
  GlyphManifest manifest;
  manifest.size = number_of(object, "size", least_size, most_size);
  manifest.layout = text_of(object, "layout");
  manifest.source = font_of(member(object, "source"));
  for (const json& style : list_of(object, "styles"))
    manifest.styles.push_back({text_of(style, "name"), font_of(member(style, "font"))});
  for (const json& character : list_of(object, "characters")) {
    const json& held_out = member(character, "held_out");
    if (!held_out.is_boolean()) fail_for("held_out", held_out, "true or false");
    manifest.characters.push_back({character_of(character), held_out.get<bool>()});
  }
  for (const json& missing : list_of(object, "missing")) {
    MissingCharacter& character = manifest.missing.emplace_back(character_of(missing));
    for (const json& font : list_of(missing, "fonts")) {
      if (!font.is_string()) fail_for("fonts", font, "texts");
      character.fonts.push_back(font.get<std::string>());
    }
  }
  check_manifest(manifest);
  return manifest;
}

std::string content_of_manifest(const fs::path& path) {
  InputFile file(path);
  check(file.size() <= max_manifest_bytes, "its {} bytes are above the limit of {}", file.size(),
        max_manifest_bytes);
  std::string text(file.size(), '\0');
  text.resize(file.read(std::as_writable_bytes(std::span(text))));
  return text;
}

// Reads the halves of a pair into [S, S] each.
void read_pair(std::span<uint8_t> source, std::span<uint8_t> target, const fs::path& path,
               int64_t S) {
  const GrayImage image = read_png(path);
  check(image.height == S && image.width == 2 * S,
        "'{}' is {} x {}, expected {} x {}: source and target of the size in the manifest beside "
        "each other",
        path.string(), image.width, image.height, 2 * S, S);
  for (int64_t y = 0; y < S; ++y) {
    const auto row = image.pixels.begin() + y * 2 * S;
    std::copy_n(row, S, source.begin() + y * S);
    std::copy_n(row + S, S, target.begin() + y * S);
  }
}

Dataset load_split(const fs::path& directory, const GlyphManifest& manifest, Split split) {
  const MemoryScope scope(split == Split::train ? "training data" : "test data");
  const std::vector<char32_t> codes = manifest.characters_of(split);
  check(!codes.empty(),
        "'{}': {} of its {} characters are held out for the test, expected some of "
        "them to be and some not",
        manifest_path(directory).string(), split == Split::train ? "all" : "none",
        manifest.characters.size());
  const auto C = static_cast<int64_t>(codes.size()), S = manifest.size;
  const auto styles = static_cast<int64_t>(manifest.styles.size());
  const int64_t N = styles * C;
  const auto make = [&](const Shape& shape, DType dtype) {
    return Tensor::empty(shape, dtype, Device::cpu, Category::data);
  };
  Dataset dataset{directory.string(), directory.string()};
  dataset.fields = {{"sources", make({N, 1, S, S}, DType::u8), Encoding::pixel},
                    {"targets", make({N, 1, S, S}, DType::u8), Encoding::pixel},
                    {"styles", make({N}, DType::i32), Encoding::index, styles}};
  const auto sources = dataset["sources"].span<uint8_t>();
  const auto targets = dataset["targets"].span<uint8_t>();
  const auto style_of = dataset["styles"].span<int32_t>();
  const auto size = static_cast<size_t>(S * S);
  parallel_for(N, 16 * S * S, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const auto i = static_cast<size_t>(n);
      const GlyphStyle& style = manifest.styles[static_cast<size_t>(n / C)];
      style_of[i] = static_cast<int32_t>(n / C);
      read_pair(sources.subspan(i * size, size), targets.subspan(i * size, size),
                glyph_pair_path(directory, style.name, codes[static_cast<size_t>(n % C)]), S);
    }
  });
  return dataset;
}

}  // namespace

int32_t GlyphManifest::style_number(const std::string& name) const {
  const auto found = std::ranges::find(styles, name, &GlyphStyle::name);
  check(found != styles.end(), "there is no style '{}': expected one of {}", name, style_names());
  return static_cast<int32_t>(found - styles.begin());
}

std::string GlyphManifest::style_names() const {
  std::string names;
  for (const GlyphStyle& style : styles) names += (names.empty() ? "" : ", ") + style.name;
  return names;
}

std::vector<char32_t> GlyphManifest::characters_of(Split split) const {
  std::vector<char32_t> codes;
  for (const GlyphCharacter& character : characters)
    if (character.held_out == (split == Split::test)) codes.push_back(character.code);
  return codes;
}

bool detail::is_held_out(char32_t code) {
  return mix_bits(uint64_t{code} + 0x9e3779b97f4a7c15) % 10 == 0;
}

std::string detail::to_utf8(char32_t code) {
  check(code <= 0x10ffff && (code < 0xd800 || code > 0xdfff),
        "U+{:X} is no character: expected U+0 to U+10FFFF without the surrogates",
        static_cast<uint32_t>(code));
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | (code >> shift & 0x3f)); };
  if (code < 0x80) return {static_cast<char>(code)};
  if (code < 0x800) return {static_cast<char>(0xc0 | code >> 6), tail(0)};
  if (code < 0x10000) return {static_cast<char>(0xe0 | code >> 12), tail(6), tail(0)};
  return {static_cast<char>(0xf0 | code >> 18), tail(12), tail(6), tail(0)};
}

std::string detail::code_name(char32_t code) {
  return fmt::format("U+{:04X}", static_cast<uint32_t>(code));
}

std::string detail::shortened(const std::u32string& text, size_t most) {
  std::string result;
  for (const char32_t code : text.substr(0, most)) result += to_utf8(code);
  return result + (text.size() > most ? " ..." : "");
}

std::string detail::licence_in_short(const std::string& licence, const std::string& without) {
  return licence.empty() ? without : shortened(from_utf8(licence), 100);
}

std::u32string detail::from_utf8(const std::string& text) {
  std::u32string codes;
  for (size_t at = 0; at < text.size();) {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
    const size_t length = byte(0) < 0x80 ? 1 : byte(0) < 0xe0 ? 2 : byte(0) < 0xf0 ? 3 : 4;
    char32_t code = length == 1 ? byte(0) : byte(0) & (0x7f >> length);
    bool whole = at + length <= text.size();
    for (size_t i = 1; i < length && whole; ++i) code = code << 6 | (byte(i) & 0x3f);
    // A code that is cut off, overlong or a surrogate differs when it is written again.
    whole = whole && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) &&
            text.compare(at, length, to_utf8(code)) == 0;
    check(whole, "the text is not UTF-8: byte {} is {:02x}", at, byte(0));
    codes += code;
    at += length;
  }
  return codes;
}

fs::path detail::glyph_pair_path(const fs::path& directory, const std::string& style,
                                 char32_t code) {
  return directory / style / (code_name(code) + ".png");
}

bool detail::holds_glyphs(const fs::path& directory) {
  std::error_code ignored;  // a directory that cannot be reached has no manifest
  return fs::exists(manifest_path(directory), ignored);
}

GlyphManifest detail::read_glyph_manifest(const fs::path& directory) {
  const fs::path path = manifest_path(directory);
  try {
    return to_manifest(parse_strict_json(content_of_manifest(path), 5, "it", max_listed));
  } catch (const Error& error) {
    fail("'{}' cannot be used: {}", path.string(), error.what());
  }
}

void detail::write_glyph_manifest(const fs::path& directory, const GlyphManifest& manifest) {
  const fs::path path = manifest_path(directory);
  try {
    check_manifest(manifest);
    ordered_json styles = ordered_json::array(), characters = ordered_json::array(),
                 missing = ordered_json::array();
    for (const GlyphStyle& style : manifest.styles)
      styles.push_back({{"name", style.name}, {"font", to_json(style.font)}});
    for (const GlyphCharacter& each : manifest.characters)
      characters.push_back({{"character", to_utf8(each.code)}, {"held_out", each.held_out}});
    for (const MissingCharacter& each : manifest.missing)
      missing.push_back({{"character", to_utf8(each.code)}, {"fonts", each.fonts}});
    const ordered_json object{{"format", glyph_format},
                              {"version", glyph_format_version},
                              {"size", manifest.size},
                              {"layout", manifest.layout},
                              {"source", to_json(manifest.source)},
                              {"styles", styles},
                              {"characters", characters},
                              {"missing", missing}};
    write_text_atomically(path, to_lines(object));
  } catch (const std::exception& error) {  // also for text that is not UTF-8
    fail("'{}' cannot be written: {}", path.string(), error.what());
  }
}

Datasets load_glyphs(const fs::path& directory) {
  const GlyphManifest manifest = read_glyph_manifest(directory);
  return {load_split(directory, manifest, Split::train),
          load_split(directory, manifest, Split::test)};
}

}  // namespace accrue
