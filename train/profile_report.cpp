#include "train/profile_report.h"

#include <algorithm>

#include "core/error.h"
#include "kernels/parallel.h"
#include "train/profile_json.h"
#include "train/trace_events.h"

namespace accrue {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* between_kernels = "between kernels";

std::string name_of(Phase phase) {
  return phase == Phase::setup ? "outside" : std::string(name(phase));
}

// A rate in units of `unit`, and in percent of the machine's rate; dashes if there is none.
std::string rate(double per_s, double unit, double of_machine) {
  if (per_s == 0) return fmt::format("{:>10}{:>7}", "-", "-");
  const std::string share = of_machine > 0 ? fmt::format("{:.0f}", 100 * per_s / of_machine) : "-";
  return fmt::format("{:>10.2f}{:>7}", per_s / unit, share);
}

std::string headline(const Profile& profile, const MachineRates& rates) {
  std::string text = fmt::format("where the time went: {:.1f} ms, {} on {} ({})\n",
                                 profile.total_us() / 1e3, counted(profile.steps(), "window"),
                                 name(profile.device()), counted(thread_count(), "thread"));
  if (rates.flops_per_s == 0) return text + "there was no memory to measure the machine's rates\n";
  return text + fmt::format(
                    "the machine's rates: {:.1f} GFLOP/s ({} product of {}^3),\n"
                    "{:.1f} GB/s (copy of {})\n",
                    rates.flops_per_s / 1e9, name(rates.gemm_dtype),
                    MachineRates::gemm_size(profile.device()), rates.bytes_per_s / 1e9,
                    format_bytes(MachineRates::copy_bytes));
}

// A row for each kernel, with its number of calls and both its rates.
std::string wide_table(const Profile& profile, const MachineRates& rates) {
  std::string text =
      fmt::format("{:<10}{:<18}{:<28}{:>9}{:>11}{:>7}{:>10}{:>7}{:>10}{:>7}\n", "phase", "op",
                  "kernel", "calls", "ms", "%", "GFLOP/s", "% gemm", "GB/s", "% copy");
  for (const ProfileRow& row : rows_of(profile))
    text += fmt::format("{:<10}{:<18}{:<28}{:>9}{:>11.2f}{:>7.1f}{}{}\n", row.phase, row.op,
                        row.kernel, row.calls > 0 ? std::to_string(row.calls) : "-", row.us / 1e3,
                        100 * row.share, rate(row.flops_per_s(), 1e9, rates.flops_per_s),
                        rate(row.bytes_per_s(), 1e9, rates.bytes_per_s));
  return text;
}

// A table of 80 columns. Shows each kernel's rate of arithmetic if it has one, otherwise its rate
// of bytes.
std::string narrow_table(const Profile& profile) {
  std::string text = fmt::format("{:<9}{:<17}{:<25}{:>9}{:>6}{:>14}\n", "phase", "op", "kernel",
                                 "ms", "%", "rate");
  for (const ProfileRow& row : rows_of(profile)) {
    const double per_s = row.flops > 0 ? row.flops_per_s() : row.bytes_per_s();
    const std::string rate =
        per_s == 0 ? "-"
                   : fmt::format("{:.1f} {}", per_s / 1e9, row.flops > 0 ? "GFLOP/s" : "GB/s");
    text += fmt::format("{:<9}{:<17.16}{:<25.24}{:>9.2f}{:>6.1f}{:>14}\n", row.phase, row.op,
                        row.kernel, row.us / 1e3, 100 * row.share, rate);
  }
  return text;
}

}  // namespace

std::vector<ProfileRow> rows_of(const Profile& profile) {
  const double total = profile.total_us();
  std::vector<ProfileRow> rows;
  for (const Profile::Row& row : profile.rows())
    rows.push_back({.phase = name_of(row.phase),
                    .op = std::string(row.op.text()),
                    .kernel = std::string(row.kernel),
                    .calls = row.calls,
                    .us = row.us,
                    .flops = row.work.flops,
                    .bytes = row.work.bytes});
  for (const Profile::PhaseTime& phase : profile.phases())
    rows.push_back({.phase = name_of(phase.phase),
                    .op = {},
                    .kernel = between_kernels,
                    .us = phase.us - phase.kernels_us});
  for (ProfileRow& row : rows) row.share = total > 0 ? row.us / total : 0;
  std::ranges::stable_sort(rows, std::greater(), &ProfileRow::us);
  return rows;
}

std::string profile_table(const Profile& profile, const MachineRates& rates, size_t columns) {
  constexpr size_t wide_columns = 117;
  std::string text = headline(profile, rates);
  text += columns >= wide_columns ? wide_table(profile, rates) : narrow_table(profile);
  std::string sums;
  for (const Profile::PhaseTime& phase : profile.phases())
    sums += fmt::format("{}{} {:.1f} %", sums.empty() ? "" : ", ", name_of(phase.phase),
                        100 * phase.us / profile.total_us());
  return text + sums + "\n";
}

Json profile_json(const Profile& profile, const MachineRates& rates) {
  Json json{
      {"device", name(profile.device())}, {"threads", thread_count()}, {"windows", profile.steps()},
      {"us", profile.total_us()},         {"rows", Json::array()},     {"phases", Json::object()}};
  if (rates.flops_per_s > 0) {
    json["gemm_flops_per_s"] = rates.flops_per_s;
    json["copy_bytes_per_s"] = rates.bytes_per_s;
  }
  for (const ProfileRow& row : rows_of(profile))
    json["rows"].push_back({{"phase", row.phase},
                            {"op", row.op},
                            {"kernel", row.kernel},
                            {"calls", row.calls},
                            {"us", row.us},
                            {"share", row.share},
                            {"flops", row.flops},
                            {"bytes", row.bytes}});
  for (const Profile::PhaseTime& phase : profile.phases())
    json["phases"][name_of(phase.phase)] = {{"us", phase.us}, {"kernels_us", phase.kernels_us}};
  return json;
}

std::string profile_trace(const Profile& profile, const MachineRates& rates, int64_t windows,
                          Json about) {
  constexpr int track = 1;
  TraceEvents events("accrue train");
  events.name_track(track, "phases and kernels");
  for (const Profile::Span& span : profile.spans()) {
    Json args{{"step", span.step}, {"micro_batch", span.micro_batch}};
    if (span.kernel.empty()) {
      events.add_span(track, name_of(span.phase), "phase", span.begin_us, span.end_us,
                      std::move(args));
      continue;
    }
    args["kernel"] = span.kernel;
    args["layer"] = span.layer.text();
    args["flops"] = span.work.flops;
    args["bytes"] = span.work.bytes;
    const std::string_view shown = span.op.empty() ? span.kernel : span.op.text();
    events.add_span(track, shown, name_of(span.phase), span.begin_us, span.end_us, std::move(args));
  }
  about["traced_windows"] = std::min(profile.steps(), windows);
  about["events_left_out"] = profile.spans_left_out();
  about["profile"] = profile_json(profile, rates);
  return events.text(about);
}

}  // namespace accrue
