#pragma once

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/inside.h"
#include "data/append_file.h"
#include "data/png.h"
#include "train/histogram.h"

namespace accrue {

// Throws Error that says what to install, if the program was built without protobuf.
void require_event_files();

// A file for TensorBoard: records (data/record_file.h) of event.proto's protobuf messages. Every
// call leaves the file complete.
class EventFile {
 public:
  // Returns the text, in Markdown, that TensorBoard shows with a tag's chart.
  using Describe = std::function<std::string(const std::string& tag)>;

  // Begins a new file in the directory. It tells TensorBoard to ignore the steps from `first_step`
  // on in earlier files there, unless that is 0.
  EventFile(const std::filesystem::path& directory, int64_t first_step, Describe describe = {});

  template <class T>
  using Tagged = std::vector<std::pair<std::string, T>>;
  // Adds the run's row in TensorBoard's table of hyperparameters. Text that is a number counts as a
  // number.
  void add_hyperparameters(const Tagged<std::string>& values);
  void add(int64_t step, const Tagged<double>& scalars, const Tagged<Histogram>& histograms = {});
  void add_picture(int64_t step, const std::string& tag, const GrayImage& image);
  // Adds text in Markdown, UTF-8.
  void add_text(int64_t step, const std::string& tag, const std::string& text);

 private:
  AppendFile file_;
  Describe describe_;
  std::set<std::string> described_;
};

// The content of an event file, decoded.
struct Event {
  int64_t step;
  EventFile::Tagged<double> scalars;
  EventFile::Tagged<Histogram> histograms;
  EventFile::Tagged<std::string> descriptions{};
  std::vector<std::string> hyperparameters{};  // their names
  EventFile::Tagged<std::string> images{};     // as PNG files
  EventFile::Tagged<std::string> texts{};
};
// Throws Error for a damaged file. Leaves out an incomplete last record, left by a writer that
// died.
std::vector<Event> read_events(const std::filesystem::path& path);

}  // namespace accrue
