#pragma once

#include <memory>
#include <optional>

#include "data/png.h"
#include "train/observer.h"
#include "train/score.h"
#include "train/training.h"

namespace accrue {

struct RunLogOptions {
  // The file of JSON lines: one for each window, with its loss, learning rate, gradient norm and
  // peak memory, and the scores at the end; of networks that train each other one for each of them,
  // with the player's name. Empty: none.
  std::string json;
  // A directory for TensorBoard and `accrue report`. Empty: none.
  //   events.out.tfevents.*  scalars named after the keys of a JSON line ("train/loss",
  //                          "peak_bytes/activations"; a player's "generator/loss") over the
  //                          steps, of several players over the windows, the scores'
  //                          ("test/accuracy"), and histograms ("gradients/0.weight"), all with
  //                          descriptions; the hyperparameters
  //   metrics.jsonl          the JSON lines
  //   summary.json           at the end
  std::string directory;
  // The run's choices as names and values: its row in TensorBoard's table of hyperparameters.
  // Empty: none.
  std::vector<std::pair<std::string, std::string>> hyperparameters{};
  int64_t histograms_every = 0;  // optimizer steps between the gradients' histograms; 0: none
  bool continued = false;        // a run that goes on: its files are continued
  // The process's memory before the run's data was there, from which its growth is counted.
  size_t resident_before = 0;
};

// Writes down a run. The files stay readable, up to the last thing told, when the process is
// killed; the JSON file by itself only up to the last checkpoint.
class RunLog : public Observer {
 public:
  // Throws Error for files that cannot be opened, a directory that cannot be made or written to or
  // that has another run in it, histograms for a strategy that keeps no gradients, and for a
  // directory without protobuf.
  RunLog(const RunLogOptions& options, const TrainingOptions& training_options, Training& training);
  ~RunLog() override;

  void on_window(const Player& player) override;
  void on_step(const WindowReport& report) override;
  void on_score(int64_t epoch, int64_t windows, const Score& score, bool is_best) override;
  // Throws Error if the JSON file could not be written completely.
  void on_checkpoint() override;

  // A picture of the run after so many windows, for TensorBoard.
  void image(int64_t window, const std::string& tag, const GrayImage& image);
  // The scores on the test data, of the weights and of their average.
  void score(const Score& test, const std::optional<Score>& of_average);
  // Writes summary.json: a JSON object as text, after when the run began and ended.
  void finish(const std::string& summary);

 private:
  struct Files;
  std::unique_ptr<Files> files_;
};

// Cuts a file of JSON lines back to those of a run's first `windows` windows, for a run that goes
// on from there. A last line that was cut short when the run ended, and scores, are left out.
// Returns the number of the last window that it has a line of: less than asked for, if lines are
// not there.
int64_t keep_logged_windows(const std::string& path, int64_t windows);

}  // namespace accrue
