#include "python/history.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/working.h"

namespace accrue::python {

void History::add(const WindowReport& report) {
  steps_.push_back(report.step);
  epochs_.push_back(report.epoch);
  samples_.push_back(report.samples);
  losses_.push_back(report.loss);
  lrs_.push_back(report.lr);
  grad_norms_.push_back(report.grad_norm);
  seconds_.push_back(report.seconds);
  if (!report.player.empty()) players_.push_back(report.player);
  if (report.skipped) ++skipped_;
}

// Copies the bytes at once, because a run may have a million windows.
template <class T>
nb::object History::array_of(const std::vector<T>& values, const char* type) {
  const nb::bytes bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  return nb::module_::import_("numpy").attr("frombuffer")(bytes, type).attr("copy")();
}

nb::object History::to_python(const std::string& unit, double pieces) const {
  nb::dict columns;
  columns["step"] = array_of(steps_, "int64");
  columns["epoch"] = array_of(epochs_, "int64");
  columns["loss"] = array_of(losses_, "float64");
  columns["lr"] = array_of(lrs_, "float64");
  columns["grad_norm"] = array_of(grad_norms_, "float64");
  columns["seconds"] = array_of(seconds_, "float64");
  nb::list scores;
  for (const auto& [windows, score] : scores_) scores.append(nb::make_tuple(windows, score));
  return nb::module_::import_("accrue._history")
      .attr("_history")(columns, array_of(samples_, "int64"), scores, players_, unit, pieces);
}

}  // namespace accrue::python
