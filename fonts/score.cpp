#include "fonts/score.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "fonts/draw.h"
#include "fonts/zi2zi_game.h"
#include "train/score.h"
#include "train/training.h"

namespace accrue {
namespace {

// The mean score of drawings that need no network, over a data set on the cpu.
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

std::string FontScores::json() const {
  nlohmann::ordered_json all{{"characters", characters}};
  const auto add = [&](const char* key, const GlyphScore& s) {
    all[key] = {{"ssim", s.ssim}, {"ink_iou", s.ink_iou}, {"ink_f1", s.ink_f1}, {"l1", s.l1}};
  };
  add("drawn", drawn);
  add("source", source);
  add("blank", blank);
  return all.dump(2);
}

FontScores score_font(const Request& options, const Notices& notices) {
  const LoadedGenerator generator = load_generator(options, notices);
  const Dataset& test = generator.data.test;
  const Score score = with_fewer_samples(options.micro_batch, [&](int64_t samples) {
    return evaluate(*generator.model, *glyph_drawing(), test, samples,
                    generator.parameters.compute_dtype(), generator.device);
  });
  const auto source = [](const Samples& s) { return s["sources"]; };
  const auto blank = [](const Samples& s) {
    return Tensor::full(s["targets"].shape(), 1, DType::f32, Device::cpu, Category::data);
  };
  const FontScores scores{.characters = test.size(),
                          .drawn = {score["ssim"], score["ink_iou"], score["ink_f1"], score["l1"]},
                          .source = mean_score(test, source),
                          .blank = mean_score(test, blank)};
  notices.say("{} held out   {:>8} {:>8} {:>8} {:>8}", counted(test.size(), "glyph"), "SSIM",
              "ink IoU", "ink F1", "L1");
  const auto tell = [&](const char* whose, const GlyphScore& s) {
    notices.say("{:<24} {:>8.4f} {:>8.4f} {:>8.4f} {:>8.4f}", whose, s.ssim, s.ink_iou, s.ink_f1,
                s.l1);
  };
  tell("drawn", scores.drawn);
  tell("the source itself", scores.source);
  tell("a blank page", scores.blank);
  return scores;
}

}  // namespace accrue
