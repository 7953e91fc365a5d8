#include "apps/fonts/samples.h"

#include <filesystem>
#include <numeric>

#include "apps/cli/messages.h"
#include "fonts/glyph_drawings.h"

namespace accrue::app {
namespace {

constexpr int64_t most_samples = 20;
// A discriminator that is rarely wrong has nothing left to teach.
constexpr double won_below = 0.02;
constexpr int64_t won_after = 50;
// A part of the targets' ink. Many generators begin with blank pages.
constexpr double blank_below = 0.1;
constexpr int64_t blank_after = 2;

Samples first_of(const Dataset& data, DType dtype) {
  std::vector<int32_t> numbers(static_cast<size_t>(std::min(most_samples, data.size())));
  std::iota(numbers.begin(), numbers.end(), 0);
  return gather(data, numbers, dtype);
}

}  // namespace

FontSamples::FontSamples(const Request& options, Trainer& trainer, RunLog& log,
                         const Dataset& held_out)
    : sample_every_(options.sample_every), log_dir_(options.log_dir), trainer_(trainer), log_(log) {
  if (!sample_every_) return;
  check(!log_dir_.empty(), "--sample-every draws into a run's log: expected --log-dir DIR, too");
  const Usage before = ledger(Device::cpu).current();
  samples_ = first_of(held_out, compute_dtype(options.precision));
  held_ = ledger(Device::cpu).current();
  for (Category c : all_categories) held_[c] -= before[c];
  std::filesystem::create_directories(std::filesystem::path(options.log_dir) / "samples");
}

void FontSamples::on_window(const Player& player) {
  if (!sample_every_ || player.name != "generator") return;
  const int64_t window = trainer_.windows() + 1;
  if (window % *sample_every_ != 0 || window == drawn_window_) return;
  drawn_window_ = window;
  const auto& network = dynamic_cast<const Zi2ziGenerator&>(trainer_.training().model());
  const Tensor drawn = draw_glyphs(network, samples_, trainer_.training().device(),
                                   trainer_.training().batches().micro);
  const GrayImage sheet = sheet_of(samples_, drawn);
  write_png(fmt::format("{}/samples/window-{:06}.png", log_dir_, window), sheet);
  log_.image(window, "generator/drawings", sheet);
}

void FontSamples::on_step(const WindowReport& report) {
  if (report.player != "discriminator") return;
  const double verdicts = (report.terms.at(0) + report.terms.at(1)) / 2;
  windows_won_ = verdicts < won_below ? windows_won_ + 1 : 0;
  if (windows_won_ != won_after) return;
  say_error(
      "warning: for {} windows the discriminator has hardly been wrong (loss below {}), so "
      "the generator learns nothing from it: try --lr-d {:.1g}, --d-spectral-norm, or a larger "
      "--g-steps\n",
      won_after, won_below, report.lr / 5);
}

void FontSamples::on_score(int64_t, int64_t, const Score& score, bool) {
  blank_scores_ = score["ink"] < blank_below ? blank_scores_ + 1 : 0;
  if (blank_scores_ != blank_after) return;
  say_error(
      "warning: the generator draws blank pages, with {:.1f} % of the ink of what it is to "
      "draw: try a lower --lr, a larger --l1-weight, or start again with another --seed\n",
      100 * score["ink"]);
}

}  // namespace accrue::app
