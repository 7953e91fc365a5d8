#include "python/docstrings.h"

#include <deque>
#include <utility>

namespace accrue::python {
namespace {

constexpr size_t width = 88;

// Words in lines of at most `width`, each after `indent`. A line break in the text stays.
std::string wrapped(std::string_view text, const std::string& indent) {
  std::string lines, line = indent;
  const auto end_line = [&] { lines += std::exchange(line, indent) + "\n"; };
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find_first_of(" \n", at), text.size());
    const std::string_view word = text.substr(at, end - at);
    if (line.size() + word.size() + 1 > width && line.size() > indent.size()) end_line();
    if (line.size() > indent.size() && !word.empty()) line += ' ';
    line += word;
    if (end < text.size() && text[end] == '\n') end_line();
    at = end + 1;
  }
  if (line.size() > indent.size()) end_line();
  return lines;
}

void replace_all(std::string& text, std::string_view old, std::string_view by) {
  for (size_t at = 0; (at = text.find(old, at)) != std::string::npos; at += by.size())
    text.replace(at, old.size(), by);
}

std::string section(const std::string& title, const std::string& body) {
  return body.empty() ? "" : "\n" + title + "\n" + std::string(title.size(), '-') + "\n" + body;
}

std::string listed(const std::vector<ArgumentDoc>& arguments) {
  std::string lines;
  for (const ArgumentDoc& each : arguments)
    lines += each.name + " : " + each.type + "\n" + wrapped(each.text, "    ");
  return lines;
}

std::string with_end(std::string text) {
  if (!text.empty() && text.back() != '\n') text += '\n';
  return text;
}

}  // namespace

std::string Docstring::text() const {
  std::string all = summary + "\n";
  if (!more.empty()) {
    std::string_view rest = more;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      all += "\n" + wrapped(rest.substr(0, end), "");
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  all += section("Parameters", listed(parameters));
  if (!returned.empty()) all += section("Returns", returned + "\n" + wrapped(returns, "    "));
  all += section("Other Parameters", listed(others));
  if (!raises.empty()) all += section("Raises", "Error\n" + wrapped(raises, "    "));
  all += section("Notes", with_end(notes));
  return all + section("Examples", with_end(examples));
}

std::string shown_type(std::string annotation) {
  constexpr std::string_view none = " | None", literal = "Literal[";
  const bool may_be_none = annotation.ends_with(none);
  if (may_be_none) annotation.resize(annotation.size() - none.size());
  for (const char* const prefix : {"typing.", "os.", "accrue._results.", "accrue._typing.",
                                   "accrue._listening.", "accrue._losses.", "numpy."})
    replace_all(annotation, prefix, "");
  replace_all(annotation, "PathLike[str]", "path");
  for (size_t at = 0; (at = annotation.find(literal, at)) != std::string::npos;) {
    const size_t end = annotation.find(']', at);
    annotation[end] = '}';
    annotation.replace(at, literal.size(), "{");
  }
  return annotation + (may_be_none ? ", optional" : "");
}

const char* lasting(std::string text) {
  static std::deque<std::string> texts;
  return texts.emplace_back(std::move(text)).c_str();
}

}  // namespace accrue::python
