// accrue font train, draw and score, on a few glyphs.

#include "data/png.h"
#include "data/safetensors.h"
#include "tests/support/cli.h"

namespace accrue::test {
namespace {

// Each epoch has four windows.
int glyph_epochs() { return reduced() ? 1 : 2; }

struct Trained : Folder {
  std::string data = *this / "glyphs", weights = *this / "generator.safetensors";
  std::string text;

  explicit Trained(const std::string& more = "", int64_t side = 32) {
    write_glyph_data(data, side);
    text = succeed(fmt::format(
        "font train --width 0.125 --micro-batch 2 --effective-batch 6 --epochs {} --data {} --save "
        "{} {}",
        glyph_epochs(), data, weights, more));
  }
};

}  // namespace

TEST_CASE("a trace of a font's training has the turns of both networks", "[cli][full]") {
  const auto recorded_steps = [](const std::string& with) {
    const Folder folder;
    const Trained trained("--memory-trace " + (folder / "trace") + " " + with);
    REQUIRE_THAT(trained.text, ContainsSubstring("recorded the memory of"));
    const auto trace = nlohmann::json::parse(read_file(folder / "trace"));
    return std::ranges::count_if(trace["traceEvents"],
                                 [](const auto& event) { return event["name"] == "step"; });
  };
  REQUIRE(recorded_steps("--memory-trace-windows 1") == 2);
  // In the third window the generator plays for the first time, and it plays twice.
  REQUIRE(recorded_steps("--memory-trace-windows 3 --n-critic 3 --g-steps 2") == 5);
}

TEST_CASE("a font is trained, drawn and scored", "[cli]") {
  const Folder folder;
  const Trained trained("--log-every 1 --json " + (folder / "log.json"));
  INFO(trained.text);
  REQUIRE_THAT(trained.text, ContainsSubstring("predicted to the byte"));
  REQUIRE_THAT(trained.text, ContainsSubstring("discriminator loss"));
  REQUIRE_THAT(trained.text, ContainsSubstring("generator loss"));
  REQUIRE_THAT(trained.text, ContainsSubstring("test SSIM"));
  REQUIRE_THAT(trained.text, ContainsSubstring(fmt::format("{} samples in", 24 * glyph_epochs())));

  const auto steps = json_steps(folder / "log.json");
  REQUIRE(int(steps.size()) == 2 * glyph_epochs() * 4);
  for (const auto& step : steps) {
    const bool generator = step["player"] == "generator";
    REQUIRE(step["terms"].size() == (generator ? 5 : 3));
    double sum = 0;
    const auto term = [&](const char* name) { return step["terms"][name].get<double>(); };
    if (generator)
      sum = term("adversarial_weight") * term("adversarial") + 97 * term("l1") +
            15 * term("constancy") + term("category");
    else sum = (term("real") + term("fake") + term("category")) / 2;
    REQUIRE(step["loss"].get<double>() == Approx(sum).epsilon(1e-5));
  }

  const std::string with = " --weights " + trained.weights + " --data " + trained.data;
  const std::string sheet = trained / "sheet.png";
  succeed("font draw --all --style pen --out " + sheet + with);
  const GrayImage all = read_png(sheet);
  succeed("font draw --text 丁一丂 --out " + sheet + with);
  REQUIRE(read_png(sheet).height == all.height);
  REQUIRE(read_png(sheet).width < all.width);
  succeed("font draw --text 一 --between brush,pen --steps 5 --out " + sheet + with);
  REQUIRE(read_png(sheet).height > 5 * 32);

  const std::string scores = trained / "scores.json";
  succeed("font score --json " + scores + with);
  const auto json = nlohmann::json::parse(file_bytes(scores));
  REQUIRE(json["characters"] == 8);
  // Half of the targets equal their sources.
  REQUIRE(json["source"]["ink_iou"] > 0.5);
  REQUIRE(json["blank"]["ink_iou"] == 0);
  REQUIRE_THAT(succeed("eval --init " + trained.weights + " --data " + trained.data),
               ContainsSubstring("test SSIM"));
}

TEST_CASE("a font is drawn with dropout, which depends on the seed and the character",
          "[cli][full]") {
  const Trained trained("--steps 2 --g-dropout 0.3", 64);
  REQUIRE(read_safetensors_metadata(trained.weights).at("g-dropout") == "0.3");
  const auto draw = [&](const std::string& options) {
    const std::string sheet = trained / "sheet.png";
    succeed("font draw --out " + sheet + " --weights " + trained.weights + " --data " +
            trained.data + " " + options);
    return read_png(sheet);
  };
  const auto varied = draw("--all --dropout-seed 7 --micro-batch 1 --threads 1").pixels;
  REQUIRE(draw("--all --dropout-seed 7 --micro-batch 4 --threads 2").pixels == varied);
  REQUIRE(draw("--all --dropout-seed 8").pixels != varied);
  REQUIRE(draw("--all").pixels != varied);
  const GrayImage alone = draw("--text 丁 --dropout-seed 7");
  const GrayImage among = draw("--text 丁一丁 --dropout-seed 7");
  REQUIRE(among.height == alone.height);
  for (int64_t y = 0; y < alone.height; ++y)
    for (int64_t x = 0; x < alone.width; ++x)
      for (const int64_t left : {int64_t{0}, among.width - alone.width})
        REQUIRE(among.at(y, left + x) == alone.at(y, x));
  const std::string between = "--text 一丁 --between brush,pen --steps 3 ";
  REQUIRE(draw(between + "--dropout-seed 7").pixels != draw(between).pixels);
}

TEST_CASE("a font's training leaves sheets on its way", "[cli][full]") {
  const Folder folder;
  const std::string log = folder / "log";
  const Trained trained("--sample-every 3 --eval-every epoch --log-dir " + log);
  REQUIRE_THAT(trained.text, ContainsSubstring("predicted to the byte"));
  for (const char* sheet : {"window-000003.png", "window-000006.png"}) {
    const GrayImage image = read_png(log + "/samples/" + sheet);
    REQUIRE(image.width > 8 * 32);
    REQUIRE(image.height > 3 * 32);
  }
  REQUIRE(!fs::exists(log + "/samples/window-000009.png"));
}

TEST_CASE("a font's batch norm is warned of where the split shows in it", "[cli][full]") {
  const std::string warning = "warning: BatchNorm normalises over each micro-batch of 2 samples";
  REQUIRE_THAT(Trained("--steps 1 --norm batch").text, ContainsSubstring(warning));
  REQUIRE(Trained("--steps 1").text.find(warning) == std::string::npos);
}

TEST_CASE("what cannot be drawn is refused", "[cli][full]") {
  const Trained trained("--steps 1");
  const std::string with = " --weights " + trained.weights + " --data " + trained.data;
  refuse("font draw --text 水一 " + with, "水 not among the 16 characters");
  refuse("font draw --all --style quill " + with, "no style 'quill': expected one of brush, pen");
  refuse("font draw --all --between brush " + with, "--between has 1 style: expected two");
  refuse("font draw " + with, "expected --text TEXT or --all");
  refuse("font draw --text 一 --weights " + trained.weights, "expected --all instead of --text");
  refuse("font draw --all --dropout-seed 1 " + with, "has no dropout to draw with");
  refuse("font train --data digits --steps 1", "but the data set digits has images");
  refuse("train --model cnn --data strokes --steps 1", "strokes");
  refuse("font train --mean 0 --data " + trained.data, "draws pixels from -1 to 1");
  refuse("train --model cnn --lr-d 1 --steps 1", "--lr-d");
  refuse("bench train --model zi2zi --effective-batch 16 --data " + trained.data, "is a game of 2");
  refuse("font score --weights " + (trained / "nothing") + " --data " + trained.data, "nothing");
}

}  // namespace accrue::test
