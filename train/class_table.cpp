#include "train/class_table.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "core/inside.h"
#include "data/csv_cell.h"
#include "train/training.h"

namespace accrue {
namespace {

// The softmax of a row of logits.
template <class T>
std::vector<double> probabilities_of(std::span<const T> logits) {
  const double largest = *std::ranges::max_element(logits);
  std::vector<double> p;
  double sum = 0;
  for (const T logit : logits) sum += p.emplace_back(std::exp(logit - largest));
  for (double& value : p) value /= sum;
  return p;
}

}  // namespace

std::string class_table_heading(const Field& labels) {
  std::string line = class_table_begin;
  for (int64_t k = 0; k < labels.classes; ++k)
    line += fmt::format(",{}", csv_cell(labels.class_name(k)));
  return line + "\n";
}

std::string class_table_lines(const Tensor& logits, int64_t begin, const Dataset& data,
                              const Field& labels) {
  const Tensor host = is_16_bit_dtype(logits.dtype()) ? as_f32(logits) : logits.to(Device::cpu);
  const auto classes = static_cast<size_t>(host.size(1));
  std::string text;
  for (int64_t n = 0; n < host.size(0); ++n) {
    const auto p = dispatch_wide(host.dtype(), [&]<class T>() {
      const std::span<const T> all = host.span<T>();
      return probabilities_of(all.subspan(static_cast<size_t>(n) * classes, classes));
    });
    const int64_t best = std::ranges::max_element(p) - p.begin();
    text += fmt::format("{},{}", csv_cell(data.sample_name(begin + n)),
                        csv_cell(labels.class_name(best)));
    for (const double value : p) text += fmt::format(",{:.6g}", value);
    text += '\n';
  }
  return text;
}

}  // namespace accrue
