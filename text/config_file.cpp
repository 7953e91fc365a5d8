#include "text/config_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace accrue {
namespace {

using nlohmann::json;

// Strings without quotes, other values as JSON.
std::string said(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

bool is_empty(const json& value) {
  return value.is_null() || value == "" || (value.is_structured() && value.empty());
}

bool asks_for_something(const json& value) {
  return !(is_empty(value) || value == false || value == 0);
}

// The allowed values of a key, in words, if its value is another one; otherwise nothing.
std::optional<std::string> expected_in_place_of(const json& value, const KnownKey& key) {
  std::string expected;
  for (const json& allowed : json::parse(key.values)) {
    if (value == allowed) return {};
    if (!is_empty(allowed)) expected += (expected.empty() ? "" : " or ") + said(allowed);
  }
  return expected.empty() ? "nothing" : expected;
}

}  // namespace

const KnownKey* KnownKeys::find(std::string_view name) const {
  for (const auto& table : tables) {
    const auto found = std::ranges::find_if(table, [&](const KnownKey& key) {
      return name == key.name || (key.name.ends_with('.') && name.starts_with(key.name));
    });
    if (found != table.end()) return &*found;
  }
  return nullptr;
}

std::string KnownKeys::judge(const std::string& where, std::string_view name,
                             const json& value) const {
  if (const KnownKey* const key = find(name)) {
    if (key->heed != Heed::fixed) return {};
    const auto expected = expected_in_place_of(value, *key);
    check(!expected, "{}{} is {}, expected {}: accrue cannot compute anything else", where, name,
          said(value), expected.value_or(""));
    return {};
  }
  if (!asks_for_something(value) && unknown != UnknownKeys::refused) return {};
  check(unknown == UnknownKeys::warned_of,
        "{}{} is {}, which is not known and may change the computation: expected a file "
        "without it",
        where, name, said(value));
  return fmt::format("{}{} is {}, which is not known, and is ignored", where, name, said(value));
}

void KnownKeys::check_is_read(std::string_view name) const {
  const KnownKey* const key = find(name);
  check(key && key->heed == Heed::read, "{} is read, but does not stand in the table of keys",
        name);
}

ConfigFile::ConfigFile(std::string where, const json& object, const KnownKeys& known)
    : where_(std::move(where)), known_(known), json_(std::make_unique<json>(object)) {
  check(json_->is_object(), "{}: expected an object", where_);
  for (const auto& [name, value] : json_->items())
    if (std::string warning = known.judge(where_ + ": ", name, value); !warning.empty())
      warnings_.push_back(std::move(warning));
}

ConfigFile::~ConfigFile() = default;

const json& ConfigFile::operator[](const char* name) const {
  static const json none;
  known_.check_is_read(name);
  const auto found = json_->find(name);
  return found == json_->end() ? none : *found;
}

bool ConfigFile::has(const char* name) const { return !(*this)[name].is_null(); }

int64_t ConfigFile::count(const char* name, std::optional<int64_t> otherwise) const {
  const json& value = (*this)[name];
  if (value.is_null() && otherwise) return *otherwise;
  check(value.is_number_integer() && value > 0, "{}: expected a whole number above 0 as {}", where_,
        name);
  return value;
}

double ConfigFile::number(const char* name, std::optional<double> otherwise) const {
  const json& value = (*this)[name];
  if (value.is_null() && otherwise) return *otherwise;
  check(value.is_number() && value > 0, "{}: expected a number above 0 as {}", where_, name);
  return value;
}

bool ConfigFile::flag(const char* name, bool otherwise) const {
  const json& value = (*this)[name];
  if (value.is_null()) return json_->contains(name) ? false : otherwise;
  check(value.is_boolean(), "{}: expected true or false as {}", where_, name);
  return value;
}

std::string ConfigFile::word(const char* name, std::string otherwise) const {
  const json& value = (*this)[name];
  if (value.is_null()) return otherwise;
  check(value.is_string(), "{}: expected a text as {}", where_, name);
  return value;
}

std::vector<std::string> ConfigFile::asks_for() const {
  std::vector<std::string> all;
  for (const auto& [name, value] : json_->items())
    if (const KnownKey* const key = known_.find(name);
        key && key->heed == Heed::writing && expected_in_place_of(value, *key))
      all.push_back(fmt::format("{} {}", name, said(value)));
  return all;
}

}  // namespace accrue
