// bench memory's words and the data of its web page. tests/apps/cli.cpp runs the command,
// scripts/check_report.py the page.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/report/page.h"
#include "apps/report/runs.h"
#include "apps/report/timeline.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"

namespace accrue::test {
namespace {

using namespace app;
using Json = nlohmann::json;

Json change(double us, size_t parameters, size_t activations) {
  return {{"name", "memory"},
          {"ph", "C"},
          {"ts", us},
          {"args", {{"parameters", parameters}, {"activations", activations}}}};
}

Json phase(const char* name, double us, double duration, int step, int micro_batch = 0) {
  return {{"name", name},    {"ph", "X"},
          {"cat", "phase"},  {"ts", us},
          {"dur", duration}, {"args", {{"step", step}, {"micro_batch", micro_batch}}}};
}

Json trace_of(std::vector<Json> events) { return {{"traceEvents", std::move(events)}}; }

MemoryRow row(const Way& way, int64_t micro_batch, size_t activations, double us) {
  MemoryRow row{1, {micro_batch, 64}, way};
  row.peak[Category::parameters] = 1000;
  row.peak[Category::activations] = activations;
  row.peak[Category::data] = 100'000;  // is left aside
  row.rss_growth_bytes = row.total_bytes() + 5000;
  row.us_per_sample = {us};
  return row;
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("a timeline is the last whole window, from its start", "[report]") {
  const Json timeline = window_timeline(trace_of({
      change(0, 10, 0),
      phase("setup", 0, 100, 0),
      change(150, 10, 900),
      phase("forward", 100, 1000, 0),
      phase("backward", 1100, 1000, 0),
      change(2050, 10, 7),
      phase("step", 2100, 100, 0, 1),
      phase("forward", 3000, 1000, 1),
      change(3500, 10, 40),
      change(4200, 10, 90),
      change(4300, 10, 20),
      phase("backward", 4000, 1000, 1),
      phase("step", 5000, 500, 1, 1),
      // A window that was not finished.
      phase("forward", 6000, 1000, 2),
      change(6500, 10, 5000),
  }));
  REQUIRE(timeline["duration_ms"] == 2.5);
  REQUIRE(timeline["peak_bytes"] == 100);
  const std::vector<double> ms{0, 0.5, 1.2, 1.3};
  const std::vector<int> parameters{10, 10, 10, 10}, activations{7, 40, 90, 20}, none{0, 0, 0, 0};
  REQUIRE(timeline["ms"].get<std::vector<double>>() == ms);
  const auto bytes = [&](const char* category) {
    return timeline["bytes"][category].get<std::vector<int>>();
  };
  REQUIRE(bytes("parameters") == parameters);
  REQUIRE(bytes("activations") == activations);
  REQUIRE(bytes("gradients") == none);
  const Json& phases = timeline["phases"];
  REQUIRE(phases.size() == 3);
  REQUIRE(phases[0]["name"] == "forward");
  REQUIRE(phases[0]["bytes"]["activations"] == 40);
  REQUIRE(phases[1]["start_ms"] == 1.0);
  REQUIRE(phases[1]["duration_ms"] == 1.0);
  REQUIRE(phases[1]["bytes"]["activations"] == 90);
  // What was alive when it began.
  REQUIRE(phases[2]["bytes"]["activations"] == 20);
}

TEST_CASE("a thinned timeline keeps the peak", "[report]") {
  std::vector<Json> events{phase("forward", 0, 10'000, 0), phase("step", 10'000, 10, 0)};
  for (int i = 0; i < 10'000; ++i) events.push_back(change(i, 1, i == 7777 ? 999 : i % 100));
  const Json timeline = window_timeline(trace_of(std::move(events)), 50);
  REQUIRE(timeline["ms"].size() <= 100);
  REQUIRE(timeline["ms"].size() >= 50);
  REQUIRE(timeline["peak_bytes"] == 1000);
  const auto activations = timeline["bytes"]["activations"].get<std::vector<int>>();
  REQUIRE(std::ranges::max(activations) == 999);
  const auto ms = timeline["ms"].get<std::vector<double>>();
  REQUIRE(std::ranges::is_sorted(ms));
}

TEST_CASE("a trace without a window is refused", "[report]") {
  REQUIRE_ERROR(window_timeline(trace_of({change(0, 1, 1), phase("forward", 0, 1, 0)})),
                "no window that ends with a step");
}

TEST_CASE("the verdict says what pays", "[report]") {
  MemoryRows rows{row(at_once(), 64, 9000, 10), row(find_way("fused"), 8, 1000, 12),
                  row(find_way("fused"), 4, 8500, 30), row(find_way("separate"), 8, 9024, 9),
                  row(find_way("pytorch"), 8, 0, 20)};
  rows[4].rss_growth_bytes = rows[0].rss_growth_bytes / 2;
  REQUIRE(verdict(rows[0], rows) == "the baseline");
  REQUIRE(verdict(rows[1], rows) == "5.00x less memory for 1.20x the time");
  REQUIRE(verdict(rows[2], rows) == "does not pay: 1.05x less memory for 3.00x the time");
  REQUIRE(verdict(rows[3], rows) == "does not pay: 24 B more memory, 0.90x the time");
  // Known from outside only, so compared from outside.
  REQUIRE(verdict(rows[4], rows) == "2.00x less memory for 2.00x the time");
  rows.push_back(row(find_way("step-in-backward"), 64, 500, 10));
  REQUIRE(verdict(rows[1], rows) ==
          "5.00x less memory for 1.20x the time; step-in-backward at once needs 500 B less");
}

TEST_CASE("a run's curves are means over stretches of its steps", "[report]") {
  const TemporaryDirectory folder;
  const std::filesystem::path log = folder.path() / "run";
  std::filesystem::create_directories(log);
  {
    std::ofstream lines(log / "metrics.jsonl");
    for (int step = 1; step <= 10; ++step)
      lines << Json{{"step", step},
                    {"samples", 4},
                    {"loss", step == 4 ? Json() : Json(step)},
                    // Every other step takes three times as long.
                    {"samples_per_s", step % 2 ? 30.0 : 10.0},
                    {"peak_bytes", {{"total", 7}, {"data", 2}}}}
            << "\n";
    lines << R"({"step": 11, "lo)";  // not written to its end
  }
  const Json run = read_run(log, 5);
  const std::vector<int> last_steps{2, 4, 6, 8, 10};
  REQUIRE(run["curves"].size() == 1);
  const Json& curve = run["curves"][0];
  REQUIRE(curve["step"].get<std::vector<int>>() == last_steps);
  const std::vector<double> loss{1.5, 3, 5.5, 7.5, 9.5};
  REQUIRE(curve["loss"].get<std::vector<double>>() == loss);
  // 8 samples in 4/30 + 4/10 seconds.
  for (const Json& rate : curve["samples_per_s"]) REQUIRE(double(rate) == Approx(15));
  REQUIRE(!curve.contains("noise_scale"));
  REQUIRE(!curve.contains("player"));
  REQUIRE(curve["last_loss"] == 10);
  REQUIRE(run["status"] == "not ended");
  REQUIRE(run["steps"] == 10);
  REQUIRE(read_run(log)["curves"][0]["step"].size() == 10);
  std::ofstream(log / "summary.json") << R"({"status": "finished", "steps": 10})";
  REQUIRE(read_run(log)["status"] == "finished");
  std::ofstream(log / "metrics.jsonl", std::ios::app) << "ss\n{}\n";
  REQUIRE_ERROR(read_run(log), "line 11: expected a JSON object");
  std::ofstream(log / "metrics.jsonl") << "";
  REQUIRE_ERROR(read_run(log), "no optimizer step yet");
  REQUIRE_ERROR(read_run(folder.path()), "expected a directory that train --log-dir has written");
}

TEST_CASE("each network of a game has a curve of its own", "[report]") {
  const TemporaryDirectory folder;
  {
    std::ofstream lines(folder.path() / "metrics.jsonl");
    for (int window = 1; window <= 4; ++window) {
      const auto write = [&](const char* player, int step, double loss) {
        lines << Json{{"player", player},
                      {"window", window},
                      {"step", step},
                      {"samples", 4},
                      {"samples_per_s", 2.0},
                      {"loss", loss},
                      {"peak_bytes", {{"total", 7 + window}, {"data", 2}}}}
              << "\n";
      };
      write("critic", window, window);
      // Plays every other time.
      if (window % 2 == 0) write("artist", window / 2, -window);
    }
  }
  const Json run = read_run(folder.path());
  REQUIRE(run["curves"].size() == 2);
  const Json &critic = run["curves"][0], &artist = run["curves"][1];
  REQUIRE(critic["player"] == "critic");
  REQUIRE(artist["player"] == "artist");
  REQUIRE(critic["step"] == Json{1, 2, 3, 4});
  REQUIRE(critic["loss"] == Json{1.0, 2.0, 3.0, 4.0});
  REQUIRE(artist["step"] == Json{1, 2});
  REQUIRE(artist["loss"] == Json{-2.0, -4.0});
  REQUIRE(artist["last_loss"] == -4.0);
  REQUIRE(run["steps"] == 4);
  REQUIRE(run["samples_per_s"] == 2.0);
  REQUIRE(run["peak_bytes"]["total"] == 11);
}

TEST_CASE("the latest sheet of drawings is in the report", "[report]") {
  const TemporaryDirectory folder;
  std::ofstream(folder.path() / "metrics.jsonl")
      << Json{{"step", 1}, {"loss", 1.0}, {"peak_bytes", {{"total", 7}, {"data", 2}}}} << "\n";
  REQUIRE(!read_run(folder.path()).contains("sheet"));
  std::filesystem::create_directory(folder.path() / "samples");
  const auto write = [&](const char* name, const std::string& bytes) {
    std::ofstream(folder.path() / "samples" / name, std::ios::binary) << bytes;
  };
  write("window-000900.png", "Ma");
  write("window-001000.png", "Man\xff");
  write("window-x.png", "none");
  const Json sheet = read_run(folder.path())["sheet"];
  REQUIRE(sheet["window"] == 1000);
  REQUIRE(sheet["png"] == "TWFu/w==");
  write("window-1000001.png", "Ma");
  REQUIRE(read_run(folder.path())["sheet"]["png"] == "TWE=");
}

TEST_CASE("scores on the way stand at their steps", "[report]") {
  const TemporaryDirectory folder;
  const auto run_of = [&](const std::string& lines) {
    std::ofstream(folder.path() / "metrics.jsonl") << lines;
    return read_run(folder.path());
  };
  const std::string steps = R"({"step": 1, "loss": 3}
{"step": 2, "loss": 2}
)";
  REQUIRE(!run_of(steps).contains("scores"));
  const Json run =
      run_of(steps + R"({"epoch": 1, "window": 2, "test": {"loss": 5, "dice": 0.5}, "is_best": true}
{"step": 3, "loss": 1}
{"epoch": 2, "window": 1, "test": {"loss": 6, "dice": 0.25}, "is_best": false}
{"test": {"loss": 7, "dice": 0.125}}
)");
  REQUIRE(run["scores"]["step"] == Json{2, 3});
  REQUIRE(run["scores"]["loss"] == Json{5, 6});
  REQUIRE(run["scores"]["dice"] == Json{0.5, 0.25});
  REQUIRE(!run["scores"].contains("accuracy"));
  REQUIRE(run["test"]["dice"] == 0.125);
}

TEST_CASE("nothing in the data ends the script that holds it", "[report]") {
  const std::string plain = memory_page({{"rows", Json::array()}, {"device", "cpu"}});
  const std::string page =
      memory_page({{"rows", Json::array()}, {"device", "cpu"}, {"data", "</script><!--<script>"}});
  for (const char* part : {"<script", "</script", "<!--"})
    REQUIRE(count_of(page, part) == count_of(plain, part));
  REQUIRE(count_of(page, "\\u003c/script>") == 1);
  REQUIRE(count_of(page, "{{") == 0);
}

}  // namespace accrue::test
