#include "fonts/samples.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <optional>
#include <string>

#include "core/inside.h"
#include "data/samples.h"
#include "fonts/glyph_drawings.h"

namespace accrue {
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

class FontSamples : public Observer {
 public:
  FontSamples(const Request& options, Trainer& trainer, RunLog& log, const Dataset& held_out,
              const Notices& notices);
  // The memory of the characters to draw.
  Usage held_on(Device device) const override { return device == Device::cpu ? held_ : Usage{}; }
  void on_window(const Player& player) override;
  void on_step(const WindowReport& report) override;
  void on_score(int64_t epoch, int64_t windows, const Score& score, bool is_best) override;

 private:
  const std::optional<int64_t> sample_every_;
  const std::string log_dir_;
  Trainer& trainer_;
  RunLog& log_;
  const Notices notices_;
  Samples samples_;
  Usage held_;
  int64_t drawn_window_ = 0;
  int64_t windows_won_ = 0, blank_scores_ = 0;  // in a row
};

FontSamples::FontSamples(const Request& options, Trainer& trainer, RunLog& log,
                         const Dataset& held_out, const Notices& notices)
    : sample_every_(options.sample_every),
      log_dir_(options.log_dir),
      trainer_(trainer),
      log_(log),
      notices_(notices) {
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
  const Zi2ziGenerator& network = Zi2ziGenerator::of(trainer_.training().model());
  const Tensor drawn = draw_glyphs(network, samples_, trainer_.training().device(),
                                   trainer_.training().batches().micro);
  const GrayImage sheet = sheet_of(samples_, drawn);
  write_png(fmt::format("{}/samples/window-{:06}.png", log_dir_, window), sheet);
  log_.picture(window, "generator/drawings", sheet);
}

void FontSamples::on_step(const WindowReport& report) {
  if (report.player != "discriminator") return;
  const double verdicts = (report.terms.at(0) + report.terms.at(1)) / 2;
  windows_won_ = verdicts < won_below ? windows_won_ + 1 : 0;
  if (windows_won_ != won_after) return;
  notices_.warn(
      "for {} windows the discriminator has hardly been wrong (loss below {}), so "
      "the generator learns nothing from it: try --lr-d {:.1g}, --d-spectral-norm, or a larger "
      "--g-steps",
      won_after, won_below, report.lr / 5);
}

void FontSamples::on_score(int64_t, int64_t, const Score& score, bool) {
  blank_scores_ = score["ink"] < blank_below ? blank_scores_ + 1 : 0;
  if (blank_scores_ != blank_after) return;
  notices_.warn(
      "the generator draws blank pages, with {:.1f} % of the targets' ink: "
      "try a lower --lr, a larger --l1-weight, or start again with another --seed",
      100 * score["ink"]);
}

}  // namespace

std::unique_ptr<Observer> watch_drawings(const Request& options, Trainer& trainer, RunLog& log,
                                         const Dataset& held_out, const Notices& notices) {
  return std::make_unique<FontSamples>(options, trainer, log, held_out, notices);
}

}  // namespace accrue
