#include "train/roofline.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "train/training.h"

namespace accrue {
namespace {

using RowsByKernel = std::map<std::string, RooflineRow>;

// Adds the kernels that a profile has seen.
void count(RowsByKernel& rows, const Profile& profile, const MachineRates& rates, bool in_step) {
  for (const Profile::Span& span : profile.spans()) {
    if (span.kernel.empty()) continue;
    RooflineRow& row = rows[std::string(span.kernel)];
    row.in_step = in_step;
    row.kernel = span.kernel;
    ++row.calls;
    row.flops += span.work.flops;
    row.bytes += span.work.bytes;
    row.least_us +=
        1e6 * std::max(span.work.flops / rates.flops_per_s, span.work.bytes / rates.bytes_per_s);
  }
}

void append(std::vector<RooflineRow>& all, const RowsByKernel& rows) {
  const auto begin = all.insert(all.end(), rows.size(), {});
  std::ranges::transform(rows, begin, [](const auto& entry) { return entry.second; });
  std::stable_sort(begin, all.end(), [](const RooflineRow& a, const RooflineRow& b) {
    return a.least_us > b.least_us;
  });
}

std::string line(std::string_view kernel, int64_t calls, double flops, double bytes,
                 double least_us, double measured_us) {
  return fmt::format("{:<28}{:>6}{:>12.2f}{:>12.2f}{:>11.1f}{:>11}\n", kernel, calls, flops / 1e9,
                     bytes / 1e6, least_us,
                     measured_us > 0 ? fmt::format("{:.1f}", measured_us) : "-");
}

}  // namespace

double Roofline::least_us(bool of_step) const {
  double us = 0;
  for (const RooflineRow& row : rows) us += row.in_step == of_step ? row.least_us : 0;
  return us;
}

int64_t Roofline::calls(bool of_step) const {
  int64_t sum = 0;
  for (const RooflineRow& row : rows) sum += row.in_step == of_step ? row.calls : 0;
  return sum;
}

double Roofline::window_us() const {
  return double(micro_steps) * least_us(false) + least_us(true);
}

MachineRates rates_of_h200(Precision precision) {
  const DType dtype = compute_dtype(precision);
  const bool is_short = is_16_bit_dtype(dtype);
  const double flops = is_short ? 989e12 : precision == Precision::tf32 ? 495e12 : 67e12;
  return {.flops_per_s = flops, .bytes_per_s = 4.8e12, .gemm_dtype = dtype};
}

Roofline roofline_of(const TrainingOptions& options, const Dataset& data) {
  check(options.players.empty(), "[roofline_of] a game of several networks: expected one network");
  check(!options.keeps_window(),
        "[roofline_of] BatchNorms that see a whole window: expected micro-batches by themselves");
  TrainingOptions shortened = options;
  const int64_t parts = std::min<int64_t>(options.batches.accumulation_steps(), 2);
  shortened.batches.effective = parts * options.batches.micro;
  shortened.on_oom = OnOom::fail;
  shortened.cuda_graphs = Graphs::off;
  Training training(shortened, data.to(Device::meta), Device::meta_cuda);
  training.loader().start_epoch(0);
  for (int64_t k = 1; k < parts; ++k) training.micro_step(*training.loader().next(), 0);
  Roofline roofline{.rates = rates_of_h200(options.precision),
                    .micro_batch = options.batches.micro,
                    .micro_steps = options.batches.accumulation_steps(),
                    .rows = {}};
  for (const bool in_step : {false, true}) {
    Profile profile(Device::meta_cuda, 1);
    if (in_step) training.window().enqueue_step();
    else training.micro_step(*training.loader().next(), 0);
    profile.stop();
    RowsByKernel rows;
    count(rows, profile, roofline.rates, in_step);
    append(roofline.rows, rows);
  }
  return roofline;
}

void add_measured(Roofline& roofline, const Profile& profile) {
  const auto windows = double(std::max<int64_t>(profile.steps(), 1));
  for (const Profile::Row& measured : profile.rows())
    for (RooflineRow& row : roofline.rows)
      if (row.kernel == measured.kernel && row.in_step == (measured.phase == Phase::step))
        row.measured_us += measured.us / windows / double(row.in_step ? 1 : roofline.micro_steps);
}

std::string roofline_table(const Roofline& roofline) {
  std::string text = fmt::format(
      "an H200 at {:.1f} TB/s and {:.0f} TFLOP/s takes at least, for a micro-step of {}:\n"
      "{:<28}{:>6}{:>12}{:>12}{:>11}{:>11}\n",
      roofline.rates.bytes_per_s / 1e12, roofline.rates.flops_per_s / 1e12,
      counted(roofline.micro_batch, "sample"), "kernel", "calls", "GFLOP", "MB", "least us",
      "measured");
  for (const bool in_step : {false, true}) {
    double flops = 0, bytes = 0, measured_us = 0;
    if (in_step) text += "and for a step:\n";
    for (const RooflineRow& row : roofline.rows) {
      if (row.in_step != in_step) continue;
      flops += row.flops, bytes += row.bytes, measured_us += row.measured_us;
      text += line(row.kernel, row.calls, row.flops, row.bytes, row.least_us, row.measured_us);
    }
    text += line("together", roofline.calls(in_step), flops, bytes, roofline.least_us(in_step),
                 measured_us);
  }
  const double samples = double(roofline.micro_batch * roofline.micro_steps);
  return text + fmt::format("a window of {} takes {:.2f} ms at least: at most {:.0f} samples/s\n",
                            counted(roofline.micro_steps, "micro-step"), roofline.window_us() / 1e3,
                            1e6 * samples / roofline.window_us());
}

nlohmann::ordered_json roofline_json(const Roofline& roofline) {
  nlohmann::ordered_json json{{"gpu", "H200"},
                              {"bytes_per_s", roofline.rates.bytes_per_s},
                              {"flops_per_s", roofline.rates.flops_per_s},
                              {"micro_batch", roofline.micro_batch},
                              {"micro_steps", roofline.micro_steps},
                              {"window_least_us", roofline.window_us()},
                              {"micro_step_least_us", roofline.least_us(false)},
                              {"step_least_us", roofline.least_us(true)},
                              {"rows", nlohmann::ordered_json::array()}};
  for (const RooflineRow& row : roofline.rows)
    json["rows"].push_back({{"of", row.in_step ? "step" : "micro-step"},
                            {"kernel", row.kernel},
                            {"calls", row.calls},
                            {"flops", row.flops},
                            {"bytes", row.bytes},
                            {"least_us", row.least_us},
                            {"measured_us", row.measured_us}});
  return json;
}

}  // namespace accrue
