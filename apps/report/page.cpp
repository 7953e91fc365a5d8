#include "apps/report/page.h"

#include <nlohmann/json.hpp>

#include "apps/cli/environment.h"
#include "train/build.h"
#include "train/process.h"

namespace accrue::app {
namespace embedded {
extern const std::string_view page_html, page_css, page_js, memory_js, runs_js, chart_js;
}

namespace {

// Inside <script>: nothing in a string of the data may end it or start a comment.
std::string script_safe(const nlohmann::ordered_json& json) {
  std::string text;
  for (const char c : json.dump()) {
    if (c == '<') text += "\\u003c";
    else text += c;
  }
  return text;
}

void fill_in(std::string& page, std::string_view placeholder, std::string_view text) {
  const size_t at = page.find(placeholder);
  check(at != std::string::npos, "the page of the report has no place for {}", placeholder);
  page.replace(at, placeholder.size(), text);
}

std::string page_of(std::string_view script, nlohmann::ordered_json result) {
  result["command"] = command_line();
  result["date"] = now();
  result["version"] = version();
  std::string page(embedded::page_html);
  fill_in(page, "/*{{style}}*/", embedded::page_css);
  fill_in(page, "/*{{chart}}*/", embedded::chart_js);
  fill_in(page, "/*{{script}}*/", fmt::format("{}\n{}", embedded::page_js, script));
  // Last, since nobody knows what it holds.
  fill_in(page, "/*{{data}}*/", script_safe(result));
  return page;
}

}  // namespace

void require_chart_library() {
  check(!embedded::chart_js.empty(),
        "a report needs Chart.js, without which this program was built: install the package "
        "libjs-chart.js (scripts/setup.sh does) and build again");
}

nlohmann::ordered_json timelines(const MemoryRows& rows, const MemoryRuns& runs) {
  const MemoryRow* smallest = nullptr;
  for (const MemoryRow& row : rows)
    if (row.way.name == "fused" && (!smallest || row.batches.micro < smallest->batches.micro))
      smallest = &row;
  auto result = nlohmann::ordered_json::array();
  for (const MemoryRow* row : {&rows.front(), smallest}) {
    if (!row) continue;
    nlohmann::ordered_json timeline = runs.timeline(*row);
    timeline["label"] = row->way.name + " " + row->batches.describe();
    result.push_back(std::move(timeline));
  }
  return result;
}

std::string memory_page(nlohmann::ordered_json result) {
  result["machine"] = machine_name(result["device"] == "cuda" ? Device::cuda : Device::cpu);
  return page_of(embedded::memory_js, std::move(result));
}

std::string runs_page(nlohmann::ordered_json runs) {
  return page_of(embedded::runs_js, {{"runs", std::move(runs)}});
}

}  // namespace accrue::app
