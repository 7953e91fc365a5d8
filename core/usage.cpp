#include "core/usage.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <unordered_map>

#include "core/error.h"
#include "core/inside.h"

namespace accrue {

std::string_view detail::name(Category category) {
  static constexpr std::array<std::string_view, all_categories.size()> names{
      "parameters", "gradients", "optimizer", "activations", "workspace", "data"};
  return names[static_cast<size_t>(category)];
}

size_t Usage::total() const {
  size_t sum = 0;
  for (size_t b : bytes) sum += b;
  return sum;
}

std::string to_string(const Usage& usage) {
  std::string text = format_bytes(usage.total());
  std::string_view separator = " = ";
  for (Category c : all_categories) {
    if (usage[c] == 0) continue;
    text += fmt::format("{}{} {}", separator, name(c), format_bytes(usage[c]));
    separator = " + ";
  }
  return text;
}

std::string format_bytes(size_t bytes) {
  static constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < units.size()) value /= 1024, ++unit;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

size_t parse_bytes(const std::string& text) {
  static const std::unordered_map<std::string, double> units{
      {"", 1},          {"b", 1},           {"k", 1024.0},       {"kib", 1024.0},
      {"m", 1048576.0}, {"mib", 1048576.0}, {"g", 1073741824.0}, {"gib", 1073741824.0},
      {"t", 0x1p40},    {"tib", 0x1p40},    {"kb", 1e3},         {"mb", 1e6},
      {"gb", 1e9},      {"tb", 1e12}};
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string unit;
  for (const char* c = end; c != text.data() + text.size(); ++c)
    if (*c != ' ') unit += static_cast<char>(std::tolower(static_cast<unsigned char>(*c)));
  const auto factor = units.find(unit);
  const bool valid = error == std::errc() && factor != units.end() && value > 0 &&
                     value * factor->second < 9e18 && value * factor->second >= 1;
  check(valid, "'{}' is not a size: expected a number and a unit, such as 64MiB or 1.5GiB", text);
  return static_cast<size_t>(value * factor->second);
}

double Reserve::fragmentation() const {
  const size_t free = reserved - allocated;
  return free == 0 ? 0 : 1 - double(largest_free) / double(free);
}

std::string to_string(const Reserve& reserve) {
  return fmt::format(
      "reserved {} in {} segments, {} of it allocated, largest free block {}, fragmentation {:.0f} "
      "%",
      format_bytes(reserve.reserved), reserve.segments, format_bytes(reserve.allocated),
      format_bytes(reserve.largest_free), 100 * reserve.fragmentation());
}

}  // namespace accrue
