#include "report/runs.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "core/error.h"
#include "core/inside.h"
#include "data/strict_json.h"
#include "report/page.h"
#include "report/report.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::vector<Json> lines_of(const fs::path& path) {
  std::ifstream file(path);
  check(file.is_open(), "cannot open '{}': expected the directory of a run's log", path.string());
  std::vector<Json> lines;
  for (std::string text; std::getline(file, text);) {
    Json line = parse_own_json(text);
    // A running training may still be writing this line.
    if (!line.is_object() && file.peek() == std::ifstream::traits_type::eof()) break;
    check(line.is_object(), "{}, line {}: expected a JSON object", path.string(), lines.size() + 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

// The mean of a key over a range of steps, weighted by samples for a rate. Null if there is no
// number.
Json mean(std::span<const Json> stretch, const std::string& key) {
  double sum = 0, weights = 0;
  for (const Json& line : stretch) {
    const auto value = line.find(key);
    if (value == line.end() || !value->is_number()) continue;
    const double v = *value;
    const double samples = line.value("samples", 1.0);
    const bool is_rate = key == "samples_per_s";
    if (is_rate && v <= 0) continue;
    sum += is_rate ? samples / v : v;
    weights += is_rate ? samples : 1;
  }
  if (weights == 0) return nullptr;
  return key == "samples_per_s" ? weights / sum : sum / weights;
}

Json curves_of(const std::vector<Json>& steps, size_t points) {
  Json curves{{"step", Json::array()}, {"last_loss", steps.back().value("loss", Json())}};
  const size_t stretches = std::min(points, steps.size());
  for (size_t i = 0; i < stretches; ++i) {
    const size_t begin = steps.size() * i / stretches, end = steps.size() * (i + 1) / stretches;
    const std::span<const Json> stretch(&steps[begin], end - begin);
    curves["step"].push_back(stretch.back().at("step"));
    for (const char* key : {"loss", "lr", "grad_norm", "samples_per_s", "noise_scale"})
      if (steps.front().contains(key)) curves[key].push_back(mean(stretch, key));
  }
  return curves;
}

// The lines of each player's steps; a network that trains alone is a player without a name.
std::vector<std::pair<std::string, std::vector<Json>>> by_player(const std::vector<Json>& lines) {
  std::vector<std::pair<std::string, std::vector<Json>>> players;
  for (const Json& line : lines) {
    if (!line.contains("step")) continue;
    const std::string name = line.value("player", "");
    auto player = std::ranges::find(players, name, [](const auto& p) { return p.first; });
    if (player == players.end()) player = players.insert(player, {name, {}});
    player->second.push_back(line);
  }
  return players;
}

// The scores during the run, with the step that each came after. Null if there are none.
Json scores_of(const std::vector<Json>& lines) {
  Json scores;
  int64_t step = 0;
  for (const Json& line : lines) {
    step = line.value("step", step);
    if (!line.contains("is_best")) continue;
    scores["step"].push_back(step);
    for (const char* key : {"loss", "accuracy", "dice", "ssim"})
      if (const auto& test = line.at("test"); test.contains(key)) scores[key].push_back(test[key]);
  }
  return scores;
}

std::string in_base64(const std::string& bytes) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const auto byte = [&](size_t k) {
      return i + k < bytes.size() ? uint32_t{static_cast<unsigned char>(bytes[i + k])} : 0;
    };
    const uint32_t word = byte(0) << 16 | byte(1) << 8 | byte(2);
    for (int k = 0; k < 4; ++k) text += digits[word >> (18 - 6 * k) & 63];
  }
  const size_t padding = (3 - bytes.size() % 3) % 3;
  return text.replace(text.size() - padding, padding, padding, '=');
}

// The sheet with the highest number, as in samples/window-000500.png. Null if there is none.
Json latest_sheet(const fs::path& samples) {
  long long latest = -1;
  fs::path path;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(samples, none)) {
    long long window = 0;
    int length = 0;
    const std::string name = entry.path().filename().string();
    const bool is_sheet = std::sscanf(name.c_str(), "window-%18lld.png%n", &window, &length) == 1 &&
                          size_t(length) == name.size();
    if (!is_sheet || window <= latest) continue;
    latest = window;
    path = entry.path();
  }
  if (path.empty()) return nullptr;
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  return {{"window", latest}, {"png", in_base64(bytes)}};
}

Json summary_of(const fs::path& path) {
  if (!fs::exists(path)) return {{"status", "not ended"}};
  std::ifstream file(path);
  Json summary = parse_own_json({std::istreambuf_iterator<char>(file), {}});
  check(summary.is_object(), "{}: expected a JSON object", path.string());
  return summary;
}

// A short name for each directory: its last part, or the whole path if two directories share the
// last part.
std::vector<std::string> labels_of(const std::vector<std::string>& directories) {
  std::multiset<std::string> names;
  std::vector<std::string> last;
  for (const std::string& directory : directories) {
    const fs::path path = fs::path(directory).lexically_normal();
    last.push_back((path.has_filename() ? path : path.parent_path()).filename().string());
    names.insert(last.back());
  }
  for (size_t i = 0; i < last.size(); ++i)
    if (names.count(last[i]) > 1) last[i] = directories[i];
  return last;
}

}  // namespace

Json read_run(const fs::path& directory, size_t points) {
  const std::vector<Json> lines = lines_of(directory / "metrics.jsonl");
  const auto players = by_player(lines);
  check(!players.empty(), "{} has no optimizer step yet: nothing to report",
        (directory / "metrics.jsonl").string());
  Json run{{"samples_per_s", mean(lines, "samples_per_s")}};
  size_t most_steps = 0;
  for (const auto& [name, steps] : players) {
    Json curves = curves_of(steps, points);
    if (!name.empty()) curves["player"] = name;
    run["curves"].push_back(std::move(curves));
    most_steps = std::max(most_steps, steps.size());
    for (const char* key : {"peak_bytes", "peak_rss_growth_bytes"})
      if (steps.back().contains(key)) run[key] = steps.back().at(key);
  }
  run["steps"] = most_steps;
  if (const Json scores = scores_of(lines); !scores.is_null()) run["scores"] = scores;
  if (const Json sheet = latest_sheet(directory / "samples"); !sheet.is_null())
    run["sheet"] = sheet;
  if (lines.back().contains("test")) run.update(lines.back());
  run.update(summary_of(directory / "summary.json"));
  return run;
}

std::string report_on(const std::vector<std::string>& directories) {
  require_chart_library();
  const std::vector<std::string> labels = labels_of(directories);
  Json runs = Json::array();
  for (size_t i = 0; i < directories.size(); ++i) {
    Json run{{"label", labels[i]}};
    run.update(read_run(directories[i]));
    runs.push_back(std::move(run));
  }
  return runs_page(std::move(runs));
}

}  // namespace accrue
