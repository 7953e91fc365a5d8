#include "data/classes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/inside.h"
#include "data/samples.h"
#include "data/strict_json.h"

namespace accrue {
namespace {

using nlohmann::json;

constexpr const char *names_key = "class-names", *values_key = "class-values";
constexpr int64_t most_classes = int64_t{1} << 20;

bool is_utf8(const std::string& text) {
  try {
    json(text).dump();
    return true;
  } catch (const json::type_error&) {
    return false;
  }
}

std::string as_utf8(const std::string& text) {
  if (is_utf8(text)) return text;
  constexpr size_t longest = 4;  // bytes of a character
  std::string result;
  for (size_t at = 0, length = 0; at < text.size(); at += length) {
    for (length = 1; length < longest && !is_utf8(text.substr(at, length));) ++length;
    if (is_utf8(text.substr(at, length))) {
      result += text.substr(at, length);
    } else {
      result += fmt::format("\\x{:02X}", static_cast<unsigned char>(text[at]));
      length = 1;
    }
  }
  return result;
}

std::string default_name(const std::vector<uint8_t>& values, size_t k) {
  return std::to_string(values.empty() ? k : size_t{values.at(k)});
}

}  // namespace

bool Classes::have_names() const {
  for (size_t k = 0; k < names.size(); ++k)
    if (names[k] != default_name(values, k)) return true;
  return false;
}

std::string Classes::describe() const {
  constexpr size_t most = 20;
  const bool says_values = !values.empty() && have_names();
  std::vector<std::string> words;
  for (size_t k = 0; k < std::min(most, names.size()); ++k)
    words.push_back(says_values ? fmt::format("{} ({})", names[k], values[k]) : names[k]);
  return fmt::format("{}{}", fmt::join(words, ", "),
                     names.size() > most ? fmt::format(", ... ({} in all)", names.size()) : "");
}

Classes detail::classes_of(const Field& field) {
  Classes classes{.values = field.class_values};
  for (int64_t k = 0; k < field.class_count(); ++k)
    classes.names.push_back(as_utf8(field.class_name(k)));
  return classes;
}

void detail::add_classes(const Classes& classes, Metadata& metadata) {
  metadata[names_key] = json(classes.names).dump();
  if (!classes.values.empty()) metadata[values_key] = json(classes.values).dump();
}

std::optional<Classes> detail::classes_in(const Metadata& metadata) {
  const auto names = metadata.find(names_key), values = metadata.find(values_key);
  if (names == metadata.end()) return std::nullopt;
  Classes classes;
  const auto list = [](const Metadata::value_type& entry) {
    const json all = parse_strict_json(entry.second, 1, entry.first, most_classes);
    check(all.is_array(), "{} is {}: expected a list", entry.first, entry.second);
    return all;
  };
  for (const json& name : list(*names)) {
    check(name.is_string(), "{} has {} among the names: expected text", names_key, name.dump());
    classes.names.push_back(name.get<std::string>());
  }
  if (values == metadata.end()) return classes;
  for (const json& value : list(*values)) {
    check(value.is_number_unsigned() && value.get<uint64_t>() < 256,
          "{} has {} among the values: expected 0 to 255", values_key, value.dump());
    classes.values.push_back(value.get<uint8_t>());
  }
  check(classes.values.size() == classes.names.size(),
        "{} has {} values for {} names: expected one for each", values_key, classes.values.size(),
        classes.names.size());
  return classes;
}

bool ClassMatch::is_known() const {
  return std::ranges::none_of(places, [](int32_t place) { return place < 0; });
}

ClassMatch detail::match_classes(const Classes& data, const Classes& network) {
  const bool have_values = !data.values.empty() && !network.values.empty(),
             have_names = data.have_names() && network.have_names();
  // Masks with one class per pixel have values, planes do not: they cannot be compared.
  const bool is_comparable = data.values.empty() == network.values.empty();
  // A single plane without a name matches another one.
  const bool is_one = data.size() == 1 && network.size() == 1 && !have_names;
  const auto is_same = [&](size_t k, size_t place) {
    if (!is_comparable || is_one) return is_comparable;
    return have_values && !have_names ? data.values[k] == network.values[place]
                                      : data.names[k] == network.names[place];
  };
  ClassMatch match{.places = std::vector<int32_t>(data.names.size(), -1)};
  for (size_t place = 0; place < network.names.size(); ++place) {
    bool is_there = false;
    for (size_t k = 0; k < data.names.size(); ++k)
      if (match.places[k] < 0 && is_same(k, place)) {
        match.places[k] = static_cast<int32_t>(place);
        is_there = true;
        break;
      }
    if (!is_there) match.lacking.push_back(network.names[place]);
  }
  return match;
}

void detail::renumber_classes(Field& field, const ClassMatch& match, const Classes& network) {
  const Classes own = classes_of(field);
  if (own == network) return;
  const std::vector<int32_t> places = match.places;
  std::function<void(std::span<std::byte>)> renumber;
  if (field.encoding == Encoding::index) {
    renumber = [places](std::span<std::byte> row) {
      for (int32_t& index : elements_of<int32_t>(row))
        if (index >= 0 && static_cast<size_t>(index) < places.size())
          index = places[static_cast<size_t>(index)];
    };
    field.classes = network.size();
  } else {
    check(places.size() == network.names.size(), "cannot match {} planes of masks with {}",
          places.size(), network.names.size());
    renumber = [places](std::span<std::byte> row) {
      const std::vector<std::byte> planes(row.begin(), row.end());
      const size_t bytes = row.size() / places.size();
      for (size_t k = 0; k < places.size(); ++k)
        std::ranges::copy(std::span(planes).subspan(k * bytes, bytes),
                          row.begin() + static_cast<std::ptrdiff_t>(bytes) * places[k]);
    };
  }
  // A network without names takes the names of the data.
  std::vector<std::string> names = network.names;
  if (!network.have_names())
    for (size_t k = 0; k < places.size(); ++k) names[static_cast<size_t>(places[k])] = own.names[k];
  const bool in_order = std::ranges::is_sorted(places) && places.size() == names.size();
  field.class_names = std::move(names);
  field.class_values = network.values;
  if (in_order) return;
  if (field.read)
    field.read = [read = std::move(field.read), renumber](std::span<std::byte> row, int64_t n) {
      read(row, n);
      renumber(row);
    };
  else
    for (int64_t n = 0; n < field.values.size(0); ++n) renumber(row_of(field.values, n));
}

}  // namespace accrue
