#include "report/runs.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/catch.h"
#include "tests/support/files.h"

namespace accrue::test {

using Json = nlohmann::json;

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
    lines << R"({"step": 11, "lo)";  // an incomplete line
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
  REQUIRE_ERROR(read_run(folder.path()), "expected the directory of a run's log");
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
      // The artist plays every other time.
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

}  // namespace accrue::test
