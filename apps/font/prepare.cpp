#include "apps/font/prepare.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "apps/cli/output.h"
#include "apps/font/listing.h"
#include "core/error.h"
#include "data/atomic_file.h"
#include "fonts/characters.h"

namespace accrue::app {
namespace {

namespace fs = std::filesystem;

// A directory that is made beside its destination and moved into place when it is complete.
class NewDirectory {
 public:
  // Throws Error if the destination exists with something in it.
  explicit NewDirectory(const std::string& name) {
    std::error_code problem;
    destination_ = fs::weakly_canonical(fs::absolute(name), problem);
    if (!destination_.has_filename()) destination_ = destination_.parent_path();
    const bool is_new = !problem && !fs::exists(destination_, problem);
    check(is_new || (fs::is_directory(destination_, problem) &&
                     fs::is_empty(destination_, problem) && !problem),
          "'{}' exists and is no empty directory; expected the name of a new one", name);
    for (int i = 0; !made_; ++i) {  // a killed process with the same id may have left one
      path_ = destination_.parent_path() / fmt::format(".accrue-{}-{}.tmp", ::getpid(), i);
      made_ = fs::create_directory(path_, problem);
      check(!problem, "cannot make '{}': {}", name, problem.message());
    }
  }
  ~NewDirectory() {
    std::error_code ignored;
    if (made_) fs::remove_all(path_, ignored);
  }
  NewDirectory(const NewDirectory&) = delete;
  NewDirectory& operator=(const NewDirectory&) = delete;

  const fs::path& path() const { return path_; }

  // Adds a file. What it holds is on the disk only after commit(), which waits once for all files.
  void write(const fs::path& file, const std::string& content) const {
    std::ofstream stream(file, std::ios::binary);
    stream.write(content.data(), static_cast<std::streamsize>(content.size()));
    stream.close();
    check(stream.good(), "cannot write '{}': {}", file.string(), std::strerror(errno));
  }

  void commit() {
    const int descriptor = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool synced = descriptor >= 0 && ::syncfs(descriptor) == 0;
    const int reason = errno;
    if (descriptor >= 0) ::close(descriptor);
    check(synced, "cannot make '{}': {}", destination_.string(), std::strerror(reason));
    std::error_code problem;
    fs::rename(path_, destination_, problem);
    check(!problem, "cannot make '{}': {}", destination_.string(), problem.message());
    made_ = false;
    sync_directory(destination_.parent_path());
  }

 private:
  fs::path destination_, path_;
  bool made_ = false;
};

// "ukai" of ukai.ttc, "ukai-2" of ukai.ttc#2 or of a second ukai.
std::string style_name(const GlyphFont& font, const std::vector<GlyphStyle>& styles) {
  std::string stem = fs::path(font.file).stem().string();
  for (char& c : stem)
    if (static_cast<unsigned char>(c) <= ' ' || c == '.') c = '-';
  if (font.face > 0) stem += fmt::format("-{}", font.face);
  const auto taken = [&](const std::string& name) {
    return std::ranges::find(styles, name, &GlyphStyle::name) != styles.end();
  };
  std::string name = stem;
  for (int i = 2; taken(name); ++i) name = fmt::format("{}-{}", stem, i);
  return name;
}

// The source font and then the targets.
std::vector<fonts::Face> open_fonts(const FontPrepareOptions& prepare) {
  check(!prepare.targets.empty(), "--target: expected one font or more");
  std::vector<fonts::Face> faces;
  faces.emplace_back(prepare.source);
  for (const std::string& target : prepare.targets) faces.emplace_back(target);
  return faces;
}

GrayImage beside(const GrayImage& source, const GrayImage& target) {
  const int64_t S = source.height;
  GrayImage pair(S, 2 * S);
  for (int64_t y = 0; y < S; ++y) {
    std::copy_n(source.pixels.begin() + y * S, S, pair.pixels.begin() + y * 2 * S);
    std::copy_n(target.pixels.begin() + y * S, S, pair.pixels.begin() + y * 2 * S + S);
  }
  return pair;
}

// The glyphs of a character in every font, or the files of the fonts that lack it.
struct Drawn {
  std::vector<GrayImage> images;
  std::vector<std::string> missing;
};

Drawn draw_in_all(const std::vector<fonts::Face>& faces, char32_t code,
                  const FontPrepareOptions& prepare) {
  Drawn drawn;
  for (const fonts::Face& face : faces) {
    std::optional<GrayImage> image = face.draw(code, prepare.size, prepare.layout);
    if (image) drawn.images.push_back(std::move(*image));
    else drawn.missing.push_back(face.about().file);
  }
  return drawn;
}

// Writes the pairs of as many characters as are wanted, and says in the manifest which.
void draw_pairs(const NewDirectory& folder, GlyphManifest& manifest,
                const std::vector<fonts::Face>& faces, const FontPrepareOptions& prepare) {
  const size_t limit = prepare.limit ? static_cast<size_t>(*prepare.limit) : SIZE_MAX;
  for (const char32_t code : fonts::characters_of(prepare.characters)) {
    if (manifest.characters.size() == limit) break;
    const Drawn drawn = draw_in_all(faces, code, prepare);
    if (!drawn.missing.empty()) {
      manifest.missing.push_back({code, drawn.missing});
      continue;
    }
    manifest.characters.push_back({code, is_held_out(code)});
    for (size_t s = 0; s < manifest.styles.size(); ++s)
      folder.write(glyph_pair_path(folder.path(), manifest.styles[s].name, code),
                   encode_png(beside(drawn.images[0], drawn.images[s + 1])));
  }
  std::ranges::sort(manifest.characters, {}, &GlyphCharacter::code);
  std::ranges::sort(manifest.missing, {}, &MissingCharacter::code);
}

void check_splits(const GlyphManifest& manifest, const std::vector<fonts::Face>& faces) {
  if (manifest.characters.empty()) {
    std::string counts;
    for (const fonts::Face& face : faces) {
      const auto lacks = [&](const MissingCharacter& each) {
        return std::ranges::find(each.fonts, face.about().file) != each.fonts.end();
      };
      const auto lacking = std::ranges::count_if(manifest.missing, lacks);
      counts += fmt::format("{}{} has {}", counts.empty() ? "" : ", ", face.about().file,
                            static_cast<int64_t>(manifest.missing.size()) - lacking);
    }
    fail("no character is in every font: of the {} asked for {}", manifest.missing.size(), counts);
  }
  const size_t tested = manifest.characters_of(Split::test).size();
  check(tested > 0 && tested < manifest.characters.size(),
        "{} of the {} that all fonts have would be held out for the test, which is a tenth of "
        "many: expected more characters",
        tested == 0 ? "none" : "all", counted(int64_t(manifest.characters.size()), "character"));
}

// 2000 as "2,000".
std::string with_commas(size_t number) {
  std::string text = fmt::format("{}", number);
  for (size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, 1, ',');
  return text;
}

std::string describe_font(const std::string& role, const GlyphFont& font) {
  return fmt::format("{}: {} ({}{}), {}\n", role, font.name, font.file,
                     font.face > 0 ? fmt::format("#{}", font.face) : "",
                     font.licence.empty() ? "without a licence in it"
                                          : shortened(from_utf8(font.licence), most_of_licence));
}

void print_summary(const GlyphManifest& manifest, const std::string& out) {
  fmt::print(
      "{} characters, {}, {} held out, {}x{}, to {}\n", with_commas(manifest.characters.size()),
      counted(static_cast<int64_t>(manifest.styles.size()), "style"),
      with_commas(manifest.characters_of(Split::test).size()), manifest.size, manifest.size, out);
  fmt::print("{}", describe_font("source", manifest.source));
  for (const GlyphStyle& style : manifest.styles)
    fmt::print("{}", describe_font("style " + style.name, style.font));
  std::u32string missing;
  for (const MissingCharacter& each : manifest.missing) missing += each.code;
  if (!missing.empty())
    fmt::print("{} left out, which some font lacks: {}\n",
               counted(static_cast<int64_t>(missing.size()), "character"),
               shortened(missing, most_listed));
}

}  // namespace

Settings settings_of(FontPrepareOptions& prepare) {
  constexpr Decides result = Decides::result;
  Settings s;
  s.group("Fonts")
      .add(prepare.source,
           {"source", result, "The font to draw from; FILE.ttc#N for a face of several", "FONT"})
      .add(prepare.targets,
           {"target", result, "The font to learn, or several: a style each", "FONT"})
      .add(prepare.characters,
           {"chars", result, "gb2312 (its 6763 hanzi), a file of UTF-8, or the characters",
            "TEXT|FILE"})
      .add(prepare.limit, {.name = "limit",
                           .decides = result,
                           .help = "Take the first so many that all fonts have",
                           .takes = "N",
                           .range = positive});
  s.group("Output")
      .add(prepare.size,
           {.name = "size", .decides = result, .help = "Pixels of a side", .range = {8, 1024}})
      .add(prepare.layout, fonts::glyph_layout_names(),
           {"layout", result,
            "bbox: each glyph fills the square; zi2zi: all of one size, as zi2zi placed them"})
      .add(prepare.out, {"out", result, "The directory to make", "DIR"});
  return s;
}

void prepare_font(const FontPrepareOptions& prepare) {
  const std::vector<fonts::Face> faces = open_fonts(prepare);
  NewDirectory folder(prepare.out);
  GlyphManifest manifest;
  manifest.size = prepare.size;
  for (const auto& [name, layout] : fonts::glyph_layout_names())
    if (layout == prepare.layout) manifest.layout = name;
  manifest.source = faces[0].about();
  for (size_t f = 1; f < faces.size(); ++f) {
    const GlyphFont& font = faces[f].about();
    manifest.styles.push_back({style_name(font, manifest.styles), font});
    fs::create_directory(folder.path() / manifest.styles.back().name);
  }
  draw_pairs(folder, manifest, faces, prepare);
  check_splits(manifest, faces);
  write_glyph_manifest(folder.path(), manifest);
  folder.commit();
  print_summary(manifest, prepare.out);
}

}  // namespace accrue::app
