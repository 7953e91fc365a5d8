#include "report/page.h"

#include <nlohmann/json.hpp>

#include "core/build.h"
#include "core/error.h"
#include "core/inside.h"
#include "report/report.h"
#include "train/process.h"

namespace accrue {
namespace embedded {
extern const std::string_view page_html, page_css, page_js, memory_js, runs_js, chart_js;
}

namespace {

// For JSON inside <script>: no string in the data may end the script or start a comment.
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
  // Filled in last, because the data may contain anything.
  fill_in(page, "/*{{data}}*/", script_safe(result));
  return page;
}

}  // namespace

void require_chart_library() {
  check(!embedded::chart_js.empty(),
        "a report needs Chart.js, without which this program was built: install the package "
        "libjs-chart.js (scripts/setup.sh does) and build again");
}

std::string memory_page(nlohmann::ordered_json result) {
  return page_of(embedded::memory_js, std::move(result));
}

std::string runs_page(nlohmann::ordered_json runs) {
  return page_of(embedded::runs_js, {{"runs", std::move(runs)}});
}

}  // namespace accrue
