#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "train/observer.h"

namespace accrue::python {

namespace nb = nanobind;

// The outcomes of the windows that a trainer has run, and the scores between them.
class History {
 public:
  void add(const WindowReport& report);
  // After the latest window.
  void add_score(nb::object score) { scores_.emplace_back(losses_.size(), std::move(score)); }

  // The losses as a NumPy array.
  nb::object losses() const { return array_of(losses_, "float64"); }
  int64_t skipped() const { return skipped_; }
  // As accrue._history.History: arrays by name. A sample has `pieces` of the unit of throughput.
  nb::object to_python(const std::string& unit, double pieces) const;

 private:
  template <class T>
  static nb::object array_of(const std::vector<T>& values, const char* type);

  std::vector<int64_t> steps_, epochs_, samples_;
  std::vector<double> losses_, lrs_, grad_norms_, seconds_;
  std::vector<std::string> players_;  // empty with one network
  std::vector<std::pair<size_t, nb::object>> scores_;
  int64_t skipped_ = 0;
};

}  // namespace accrue::python
