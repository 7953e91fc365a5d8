
#include <nlohmann/json.hpp>

#include "accumulate/ladder/ladders.h"
#include "apps/bench/commands.h"
#include "apps/cli/messages.h"
#include "apps/cli/output.h"
#include "job/machine.h"
#include "kernels/parallel.h"

namespace accrue::app {
namespace {

Parameters layout_for(const Domains& domains, const BenchKernelsOptions& bench, Device device) {
  if (!bench.model.empty()) {
    const SampleSpec shown = domains.model(bench.model).sample;
    const auto model = domains.of_model(bench.model).factory(bench.model, {}, shown)();
    return place(*model, DType::f32, Device::meta, 0);
  }
  // Several times as large as the last-level cache of most processors and of the largest GPUs.
  const std::string default_size = device == Device::cuda ? "256MiB" : "64MiB";
  return ladder::layout_of(parse_bytes(bench.size.empty() ? default_size : bench.size));
}

// A rung's rate as a fraction of the copy's rate.
double share_of_copy(const ladder::Result& result, const std::vector<ladder::Result>& results) {
  return result.bytes_per_s() / results.front().bytes_per_s();
}

// A time that is a difference of two times may vanish in noise: then there is no rate.
bool has_rate(const ladder::Result& result) { return result.seconds > 0; }

void print_table(const std::vector<ladder::Result>& results, int64_t parameters) {
  constexpr size_t wide_columns = 110;
  const bool wide = terminal_columns() >= wide_columns;
  const std::string work = wide ? fmt::format("{:>9}{:>9}{:>10}", "launches", "bytes/P", "MB") : "";
  say("{:<11}{:<31}{}{:>11}{:>9}{:>8}  {}\n", "ladder", "rung", work, "us", "GB/s", "% copy",
      "check");
  for (const ladder::Result& result : results) {
    const ladder::Rung& rung = result.rung;
    const auto bytes = static_cast<double>(rung.bytes);
    const std::string rate = has_rate(result)
                                 ? fmt::format("{:>9.2f}{:>8.0f}", result.bytes_per_s() / 1e9,
                                               100 * share_of_copy(result, results))
                                 : fmt::format("{:>9}{:>8}", "-", "-");
    const std::string work = wide
                                 ? fmt::format("{:>9}{:>9.1f}{:>10.2f}", rung.launches,
                                               bytes / static_cast<double>(parameters), bytes / 1e6)
                                 : "";
    say("{:<11}{:<31}{}{:>11.1f}{}  {}\n", rung.ladder, rung.name, work, 1e6 * result.seconds, rate,
        result.ok() ? "ok" : "WRONG");
  }
  if (!wide) say("(--json has launches and bytes)\n");
}

nlohmann::ordered_json to_json(const std::vector<ladder::Result>& results) {
  nlohmann::ordered_json rungs = nlohmann::ordered_json::array();
  for (const ladder::Result& result : results) {
    nlohmann::ordered_json entry{{"ladder", result.rung.ladder},
                                 {"rung", result.rung.name},
                                 {"launches", result.rung.launches},
                                 {"bytes", result.rung.bytes},
                                 {"seconds", result.seconds},
                                 {"error", result.error},
                                 {"ok", result.ok()}};
    if (has_rate(result)) {
      entry["bytes_per_s"] = result.bytes_per_s();
      entry["share_of_copy"] = share_of_copy(result, results);
    }
    rungs.push_back(entry);
  }
  return rungs;
}

}  // namespace

Settings settings_of(BenchKernelsOptions& bench, Request& options) {
  constexpr Decides no_result = Decides::no_result;
  Settings s;
  s.group("Options")
      .add(bench.size, {.name = "size",
                        .decides = no_result,
                        .help = "Bytes of an array of float32",
                        .takes = "64MiB",
                        .unset = "64MiB on cpu, 256MiB on cuda"})
      .add(bench.model, names_of_models(options),
           {.name = "model",
            .decides = no_result,
            .help = "This network's parameters instead",
            .excludes = "size",
            .asked_by = AskedBy::most_runs})
      .add(bench.micro_batch, {.name = "micro-batch",
                               .decides = no_result,
                               .help = "Samples in the weight gradients",
                               .range = above_zero,
                               .asked_by = AskedBy::most_runs})
      .add(bench.seconds, {.name = "seconds",
                           .decides = no_result,
                           .help = "How long to measure",
                           .range = above_zero,
                           .asked_by = AskedBy::most_runs})
      .add(options.json, {"json", no_result, "Write the figures", writes("FILE", Path::text)});
  return s;
}

void bench_kernels(const Request& options, const BenchKernelsOptions& bench) {
  check_output(options.json);
  const Device device = apply_machine_settings(options, spoken());
  const ladder::Arrays arrays(layout_for(options.domains, bench, device), device);
  std::vector<ladder::Result> results =
      ladder::check_rungs(ladder::all_ladders(arrays, bench.micro_batch), [&] { arrays.reset(); });
  const int64_t rounds = ladder::measure(results, device, bench.seconds);

  const auto array_bytes = static_cast<size_t>(arrays.size()) * sizeof(float);
  say("{} parameters in {}, {} an array, on {} ({})\n{} in turns\n", arrays.count(),
      counted(arrays.tensors(), "tensor"), format_bytes(array_bytes), name(device),
      counted(thread_count(), "thread"), counted(rounds, "round"));
  print_table(results, arrays.count());
  if (!options.json.empty()) {
    const nlohmann::ordered_json figures{{"device", name(device)},
                                         {"threads", thread_count()},
                                         {"model", bench.model},
                                         {"parameters", arrays.count()},
                                         {"tensors", arrays.tensors()},
                                         {"array_bytes", array_bytes},
                                         {"micro_batch", bench.micro_batch},
                                         {"rounds", rounds},
                                         {"rungs", to_json(results)}};
    write_output(options.json, figures.dump(2) + "\n");
  }
  ladder::require_ok(results);
}

}  // namespace accrue::app
