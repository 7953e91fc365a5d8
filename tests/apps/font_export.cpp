// accrue font export.

#include "fonts/domain.h"
#include "fonts/face.h"
#include "fonts/glyphs.h"
#include "layers/models.h"
#include "tests/support/cli.h"
#include "tests/support/potrace.h"
#include "tests/support/tiny_font.h"
#include "train/weights.h"

namespace accrue::test {
namespace {

// A font, and the weights of an untrained network for 32 pixels and two styles.
struct ExportFolder : Folder {
  ExportFolder() {
    TinyFont font;
    font.name = "Source";
    for (char32_t code = U'A'; code <= U'Z'; ++code) font.glyphs[code] = {100, 0, 700, 700};
    TemporaryDirectory::write("source.ttf", font.file());
    const accrue::Fonts fonts;
    const SampleSpec sample = fonts.models().front().sample.with({1, 32, 32}, 2);
    const auto model = fonts.factory("zi2zi", {.width = 0.0625}, sample)();
    const Parameters parameters = place(*model, DType::f32, Device::cpu, 1);
    save_weights(*this / "zi2zi.safetensors", parameters,
                 {{"model", "zi2zi"}, {"width", "0.0625"}, {"image", "1x32x32"}, {"classes", "2"}});
    save_weights(*this / "silent.safetensors", parameters,
                 {{"model", "zi2zi"}, {"width", "0.0625"}});
  }
  std::string command(const std::string& rest, const std::string& weights = "zi2zi") const {
    return fmt::format("font export --weights {}.safetensors --font {} --out {} {}",
                       *this / weights, *this / "source.ttf", *this / "new.ttf", rest);
  }
  bool has_written() const { return fs::exists(path() / "new.ttf"); }
  // Writes the part of a data set that an export reads, as if the network had been trained on it.
  void write_manifest(int64_t size, const std::string& source) const {
    GlyphManifest manifest;
    manifest.size = size;
    manifest.layout = "zi2zi";
    manifest.source = {source, "source.ttf", 0, "Free for all"};
    manifest.styles = {{"ming", {"Ming", "ming.ttf", 0, "Free, too"}}, {"kai", {}}};
    manifest.styles[1].font = {"Kai", "kai.ttf", 0, ""};
    manifest.characters = {{U'A', false}, {U'D', true}};
    write_glyph_manifest(path(), manifest);
  }
};

}  // namespace

TEST_CASE("accrue font export writes a font", "[.potrace]") {
  NEEDS_POTRACE;
  const ExportFolder folder;
  const std::string text = succeed(folder.command("--chars ABx --style 1"));
  REQUIRE_THAT(text, ContainsSubstring("new.ttf: Source in style 1, drawn by accrue"));
  REQUIRE_THAT(text, ContainsSubstring("1 character left out, which the font lacks: x\n"));
  REQUIRE_THAT(text, ContainsSubstring("licence of the source: Free for all\n"));
  REQUIRE(fonts::Face(folder / "new.ttf").facts().family == "Source in style 1");

  folder.write_manifest(32, "Source Regular");
  const std::string data = " --data " + folder.path().string();
  const std::string named = succeed(folder.command("--chars AB --style ming --name Mine" + data));
  REQUIRE_THAT(named, ContainsSubstring("Mine, drawn by accrue"));
  REQUIRE_THAT(named, ContainsSubstring("licence of the style: Free, too\n"));
  REQUIRE(fonts::Face(folder / "new.ttf").facts().family == "Mine");
  REQUIRE_THAT(named, !ContainsSubstring("warning"));
  folder.write_manifest(32, "Another Regular");
  REQUIRE_THAT(succeed(folder.command("--chars AB --style ming" + data)),
               ContainsSubstring("learnt to draw from Another Regular, not from Source Regular"));
}

TEST_CASE("without potrace no font is exported", "[font]") {
  const ExportFolder folder;
  const Folder empty;
  const SearchedFirst path(empty.path(), true);
  refuse(folder.command("--chars AB --style 1"), "apt install potrace");
  REQUIRE(!folder.has_written());
}

TEST_CASE("what cannot be exported is refused, and nothing written", "[.potrace]") {
  NEEDS_POTRACE;
  const ExportFolder folder;
  const std::string data = " --data " + folder.path().string();
  refuse(folder.command("--chars AB"), "the network draws 2 styles: expected --data");
  refuse(folder.command("--chars AB --style 2"), "there is no style '2'");
  refuse(folder.command("--chars AB --style kai"), "expected the number of one, from 0 to 1");
  refuse(folder.command("--chars AB --style 0" + data), "has no manifest.json");
  refuse(folder.command("--chars 永字 --style 0"),
         "source.ttf has none of the 2 characters that are asked for");
  refuse(folder.command("--chars AB --style 0", "silent"), "does not say the size of the images");
  refuse(folder.command("--chars AB --style 0", "none"), "none.safetensors");
  refuse(fmt::format("font export --weights {} --font {} --out /nowhere/new.ttf --chars A",
                     folder / "zi2zi.safetensors", folder / "source.ttf"),
         "/nowhere");
  folder.write_manifest(32, "Source Regular");
  refuse(folder.command("--chars AB --style 0" + data),
         "there is no style '0': expected one of ming, kai");
  refuse(folder.command("--chars AB" + data), "--style is not given: expected one of ming, kai");
  refuse(folder.command("--chars AB --style kai --layout bbox" + data), "leave it out");
  folder.write_manifest(64, "Source Regular");
  refuse(folder.command("--chars AB --style kai" + data),
         "expected the data set that it was trained on");
  const auto mlp = make_model({});
  save_weights(folder / "mlp.safetensors", place(*mlp, DType::f32, Device::cpu, 1),
               {{"model", "mlp"}});
  refuse(folder.command("--chars AB --style 0", "mlp"), "holds weights of a network mlp");
  REQUIRE(!folder.has_written());
}

}  // namespace accrue::test
