#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "data/png.h"
#include "train/observer.h"
#include "train/score.h"
#include "train/training.h"

namespace accrue {

// The files that record a run.
struct RunLogOptions {
  // The file of JSON lines: one for each window, with its loss, learning rate, gradient norm and
  // peak memory, and the scores at the end. Networks that train each other have separate lines,
  // with the player's name. Empty: no such file.
  std::string json;
  // Receives these lines if there is no such file.
  std::function<void(std::string_view)> json_lines{};
  // A directory for TensorBoard and `accrue report`. Empty: none.
  //   events.out.tfevents.*  scalars named after the keys of a JSON line ("train/loss",
  //                          "peak_bytes/activations"; a player's "generator/loss") over the
  //                          steps, or with several players over the windows; scores
  //                          ("test/accuracy"); histograms ("gradients/0.weight"); descriptions of
  //                          all of them; the hyperparameters
  //   metrics.jsonl          the JSON lines
  //   summary.json           written at the end
  std::string directory;
  // The run's choices as names and values, for its row in TensorBoard's table of hyperparameters.
  // Empty: no row.
  std::vector<std::pair<std::string, std::string>> hyperparameters{};
  // The meanings of its scores and of its players' terms, beside the usual numbers of a run.
  detail::Descriptions descriptions{};
  int64_t histograms_every = 0;  // optimizer steps between the gradients' histograms; 0: none
  bool continued = false;        // the run was resumed: append to its files
  // The process's memory before the run's data was loaded; growth is measured from here.
  size_t resident_before = 0;
};

// Records a run. If the process is killed, its files are readable up to the last event, except that
// the separate JSON file is complete only up to the last checkpoint. Throws an Error that names the
// file if it cannot be written.
class RunLog : public Observer {
 public:
  // Throws Error for files that cannot be opened, and for a directory that cannot be created or
  // written or that has another run in it. Throws Error for histograms with a strategy that keeps
  // no gradients, and for a directory in a build without protobuf.
  RunLog(const RunLogOptions& options, const TrainingOptions& training_options,
         detail::Training& training);
  ~RunLog() override;

  void on_window(const Player& player) override;
  void on_step(const WindowReport& report) override;
  void on_score(int64_t epoch, int64_t windows, const Score& score, bool is_best) override;
  // Throws Error if the JSON file could not be written completely.
  void on_checkpoint() override;

  // Adds a picture made after `window` windows, for TensorBoard.
  void picture(int64_t window, const std::string& tag, const detail::GrayImage& drawn);
  // Records a text that was generated after `window` windows: in a line {"window", "sample"}, and
  // for TensorBoard. Bytes that are not UTF-8 become U+FFFD.
  void sample(int64_t window, const std::string& tag, const std::string& text);
  // Writes the scores on the test data: with the weights, and with their average.
  void score(const Score& test, const std::optional<Score>& of_average);
  // Writes summary.json: when the run began and ended, then the contents of `summary`, a JSON
  // object as text.
  void finish(const std::string& summary);

 private:
  struct Files;
  std::unique_ptr<Files> files_;
};

namespace detail {

// Truncates a file of JSON lines to the lines of the first `windows` windows, for a run that
// resumes there. Removes scores, and a last line that is incomplete. Returns the number of the last
// window that has a line: less than `windows` if lines are missing.
int64_t keep_logged_windows(const std::string& path, int64_t windows);

}  // namespace detail

}  // namespace accrue
