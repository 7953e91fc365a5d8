#include "python/values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <vector>

#include "core/error.h"

namespace accrue::python {

std::string text_of(nb::handle object) { return nb::cast<std::string>(nb::str(object)); }

std::string shown(nb::handle object) {
  constexpr size_t most = 80;
  std::string text = nb::cast<std::string>(nb::repr(object));
  std::ranges::replace(text, '\n', ' ');
  if (text.size() > most) text = text.substr(0, most) + "...";
  return text;
}

namespace {

[[noreturn]] void refuse(const std::string& argument, nb::handle value,
                         const std::string& expected) {
  fail("{} is {}: expected {}", argument, shown(value), expected);
}

// True for a bool of Python or NumPy.
bool is_truth(nb::handle value) {
  if (nb::isinstance<nb::bool_>(value)) return true;
  const auto name = nb::cast<std::string>(value.type().attr("__name__"));
  return name == "bool_" || name == "bool";
}

// Returns nb::int_ or nb::float_ for anything that Python takes for a number, else nothing.
std::optional<nb::object> number_in(nb::handle value) {
  if (is_truth(value)) return std::nullopt;
  for (const auto& [method, convert] :
       {std::pair{"__index__", &PyNumber_Index}, {"__float__", &PyNumber_Float}}) {
    if (!nb::hasattr(value, method)) continue;
    if (PyObject* const number = convert(value.ptr())) return nb::steal(number);
    PyErr_Clear();
  }
  return std::nullopt;
}

// The table of settings refuses the text of an object that is no number.
std::string text_of_number(nb::handle value) {
  const auto number = number_in(value);
  if (!number) return text_of(value);
  if (nb::isinstance<nb::float_>(*number)) return fmt::format("{}", nb::cast<double>(*number));
  return text_of(*number);
}

// The words of a choice may be numbers, or yes and no, for which a caller may give True and False.
std::string text_of_choice(const Setting& setting, nb::handle value) {
  const auto words = setting.choices();
  const auto has = [&](const char* word) { return std::ranges::find(words, word) != words.end(); };
  if (is_truth(value) && has("yes") && has("no"))
    return nb::cast<bool>(nb::bool_(value)) ? "yes" : "no";
  return text_of(value);
}

bool is_path(const Setting& setting) { return setting.about.takes.path != Path::none; }

// "N|HxW", "64MiB"
bool may_be_number(const Setting& setting) {
  const std::string& takes = setting.about.takes;
  return takes.starts_with("N|") || std::isdigit(static_cast<unsigned char>(takes[0])) != 0;
}

std::string text_in(const Setting& setting, const std::string& argument, nb::handle value) {
  const std::string& expected = setting.about.takes;
  if (may_be_number(setting) && number_in(value)) return text_of_number(value);
  std::string text;
  if (nb::isinstance<nb::str>(value)) text = nb::cast<std::string>(value);
  else if (is_path(setting)) text = path_of(value, argument, expected);
  else refuse(argument, value, expected);
  if (text.find('\0') != std::string::npos) refuse(argument, value, expected);
  return text;
}

std::string text_of_one(const Setting& setting, const std::string& argument, nb::handle value) {
  switch (setting.holds) {
    case Holds::text: return text_in(setting, argument, value);
    case Holds::choice: return text_of_choice(setting, value);
    case Holds::whole_number:
    case Holds::number: break;
  }
  return text_of_number(value);
}

// Lists, tuples, arrays.
bool is_sequence(nb::handle value) {
  if (nb::isinstance<nb::str>(value) || nb::isinstance<nb::bytes>(value) ||
      nb::isinstance<nb::dict>(value) || !nb::hasattr(value, "__iter__"))
    return false;
  return !nb::hasattr(value, "ndim") || !nb::bool_(value.attr("ndim").equal(nb::int_(0)));
}

}  // namespace

std::string path_of(nb::handle object, const std::string& argument, const std::string& expected) {
  if (nb::isinstance<nb::str>(object)) return nb::cast<std::string>(object);
  if (nb::hasattr(object, "__fspath__"))
    if (const nb::object path = object.attr("__fspath__")(); nb::isinstance<nb::str>(path))
      return nb::cast<std::string>(path);
  refuse(argument, object, expected);
}

std::string text_for(const Setting& setting, const std::string& argument, nb::handle value) {
  if (setting.is_flag) {
    if (!is_truth(value)) refuse(argument, value, "True or False");
    return nb::cast<bool>(nb::bool_(value)) ? "yes" : "no";
  }
  if (!setting.takes_several() || !is_sequence(value)) return text_of_one(setting, argument, value);
  std::vector<std::string> parts;
  for (nb::handle part : value) {
    parts.push_back(text_of_one(setting, argument, part));
    if (parts.back().empty() || parts.back().find(',') != std::string::npos)
      refuse(argument, value, setting.about.takes + ", each without a comma");
  }
  return fmt::format("{}", fmt::join(parts, ","));
}

std::string type_of(const Setting& setting) {
  if (setting.is_flag) return "bool";
  if (setting.about.name == "init") return "str | os.PathLike[str] | accrue._results.Weights";
  std::string one;
  switch (setting.holds) {
    case Holds::whole_number: one = "int"; break;
    case Holds::number: one = "float"; break;
    case Holds::text:
      one = may_be_number(setting) ? "int | str"
            : is_path(setting)     ? "str | os.PathLike[str]"
                                   : "str";
      break;
    case Holds::choice:
      std::vector<std::string> words = setting.choices();
      // Words with spaces, such as "the model's", stand for None.
      std::erase_if(words, [](const std::string& word) { return word.find(' ') != word.npos; });
      one = fmt::format("typing.Literal['{}']", fmt::join(words, "', '"));
  }
  if (setting.takes_several())
    return one == "str" ? "str | typing.Sequence[str]"
                        : fmt::format("{} | typing.Iterable[{}] | str", one, one);
  for (const auto& [word, number] : setting.about.words)
    one += fmt::format(" | typing.Literal['{}']", word);
  return one;
}

}  // namespace accrue::python
