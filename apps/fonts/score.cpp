#include "apps/fonts/score.h"

#include <nlohmann/json.hpp>

#include "apps/cli/messages.h"
#include "apps/cli/output.h"
#include "apps/fonts/generator.h"
#include "fonts/glyph_score.h"
#include "fonts/zi2zi_game.h"
#include "train/json.h"
#include "train/score.h"
#include "train/training.h"

namespace accrue::app {
namespace {

// Scores what is drawn without a network, over a data set on the cpu.
GlyphScore mean_score(const Dataset& data, const std::function<Tensor(const Samples&)>& drawn) {
  constexpr int64_t at_a_time = 64;
  GlyphScore sum;
  for (int64_t begin = 0; begin < data.size(); begin += at_a_time) {
    const Samples part = gather(data, begin, std::min(begin + at_a_time, data.size()));
    const GlyphScore s = sum_of_glyph_scores(drawn(part), part["targets"]);
    sum = {sum.ssim + s.ssim, sum.ink_iou + s.ink_iou, sum.ink_f1 + s.ink_f1, sum.l1 + s.l1};
  }
  const double n = double(data.size());
  return {sum.ssim / n, sum.ink_iou / n, sum.ink_f1 / n, sum.l1 / n};
}

}  // namespace

Settings font_score_settings(Request& options) {
  Settings s = drawing_settings(options);
  s.group("Options").add(
      options.json, {"json", Decides::no_result, "Write the scores", writes("FILE", Path::text)});
  return s;
}

void score_font(const Request& options) {
  check_output(options.json);
  const LoadedGenerator generator = load_generator(options);
  const Dataset& test = generator.data.test;
  const Score score = with_fewer_samples(options.micro_batch, [&](int64_t samples) {
    return evaluate(*generator.model, *glyph_drawing(), test, samples,
                    generator.parameters.compute_dtype(), generator.device);
  });
  nlohmann::ordered_json json{{"characters", test.size()}};
  say("{} held out   {:>8} {:>8} {:>8} {:>8}\n", counted(test.size(), "glyph"), "SSIM", "ink IoU",
      "ink F1", "L1");
  const auto report = [&](const char* key, const char* words, const GlyphScore& s) {
    say("{:<24} {:>8.4f} {:>8.4f} {:>8.4f} {:>8.4f}\n", words, s.ssim, s.ink_iou, s.ink_f1, s.l1);
    json[key] = {{"ssim", s.ssim}, {"ink_iou", s.ink_iou}, {"ink_f1", s.ink_f1}, {"l1", s.l1}};
  };
  report("drawn", "drawn", {score["ssim"], score["ink_iou"], score["ink_f1"], score["l1"]});
  report("source", "the source itself",
         mean_score(test, [](const Samples& s) { return s["sources"]; }));
  report("blank", "a blank page", mean_score(test, [](const Samples& s) {
           return Tensor::full(s["targets"].shape(), 1, DType::f32, Device::cpu, Category::data);
         }));
  if (!options.json.empty()) write_output(options.json, json.dump(2) + "\n");
}

}  // namespace accrue::app
