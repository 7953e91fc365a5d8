#pragma once

#include "apps/domains.h"
#include "data/samples.h"
#include "train/run_log.h"
#include "train/trainer.h"

namespace accrue::app {

// Keeps an eye on a generator in training. Every --sample-every windows it has some characters that
// were held out drawn, as a sheet DIR/samples/window-000100.png in the log's directory and in
// TensorBoard; and it warns where the discriminator has won and where the generator draws blank
// pages.
class FontSamples : public Watcher {
 public:
  // The first characters of the data set that is held out, which is on the cpu.
  FontSamples(const Request& options, Trainer& trainer, RunLog& log, const Dataset& held_out);
  // The memory of those characters.
  Usage held_on(Device device) const override { return device == Device::cpu ? held_ : Usage{}; }
  void on_window(const Player& player) override;
  void on_step(const WindowReport& report) override;
  void on_score(int64_t epoch, int64_t windows, const Score& score, bool is_best) override;

 private:
  const std::optional<int64_t> sample_every_;
  const std::string log_dir_;
  Trainer& trainer_;
  RunLog& log_;
  Samples samples_;
  Usage held_;
  int64_t drawn_window_ = 0;
  int64_t windows_won_ = 0, blank_scores_ = 0;  // in a row
};

}  // namespace accrue::app
