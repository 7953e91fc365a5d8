#include "data/strict_json.h"

#include <set>
#include <vector>

#include "core/error.h"
#include "core/inside.h"

namespace accrue {
namespace {

using nlohmann::json;
using Event = json::parse_event_t;

// An object or an array that is being parsed.
struct Level {
  bool is_array = false;
  int64_t elements = 0;
  std::set<std::string> names;
};

}  // namespace

json parse_strict_json(const std::string& text, int max_depth, const std::string& what,
                       int64_t max_elements) {
  std::vector<Level> levels(static_cast<size_t>(max_depth) + 1);
  // An event's depth is the number of objects and arrays around it.
  const auto see = [&](int depth, Event event, json& value) {
    check(depth <= max_depth, "{} is nested too deeply", what);
    const auto d = static_cast<size_t>(depth);
    const bool begins = event == Event::object_start || event == Event::array_start;
    if (d > 0 && (begins || event == Event::value) && levels[d - 1].is_array)
      check(++levels[d - 1].elements <= max_elements, "{} has an array of more than {} elements",
            what, max_elements);
    if (begins) levels[d] = {.is_array = event == Event::array_start};
    if (event == Event::key)
      check(levels[d - 1].names.insert(value.get<std::string>()).second, "'{}' stands twice in {}",
            value.get<std::string>(), what);
    return true;
  };
  // The parser would take a NUL for the end of the text.
  check(text.find('\0') == std::string::npos, "{} is not JSON: its byte {} is 0", what,
        text.find('\0'));
  try {
    return json::parse(text, see);
  } catch (const json::exception& error) {
    fail("{} is not JSON: {}", what, error.what());
  }
}

nlohmann::ordered_json parse_own_json(const std::string& text) {
  using Json = nlohmann::ordered_json;
  if (text.find('\0') != std::string::npos) return Json::value_t::discarded;
  return Json::parse(text, nullptr, false);
}

}  // namespace accrue
