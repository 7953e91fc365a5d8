#include "apps/cli/help.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>

#include "apps/cli/messages.h"
#include "core/inside.h"

namespace accrue::app {
namespace {

// A command with fewer options shows all of them.
constexpr size_t many = 24;

class WrappedHelp : public CLI::Formatter {
 public:
  explicit WrappedHelp(size_t width) : width_(std::max<size_t>(width, 60)) { column_width(30); }

  std::string make_option_desc(const CLI::Option* option) const override {
    return wrapped(option->get_description());
  }

  // Breaks a long list of choices into several lines.
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string text = CLI::Formatter::make_option_opts(option), indent(6, ' ');
    std::string lines;
    size_t used = 2 + make_option_name(option, false).size();
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('|', begin), text.size() - 1) + 1;
      if (used + end - begin > width_) {
        lines += '\n' + indent;
        used = indent.size();
      }
      lines += text.substr(begin, end - begin);
      used += end - begin;
      begin = end;
    }
    return lines;
  }

 private:
  // Breaks lines; the parser indents the new ones.
  std::string wrapped(const std::string& text) const {
    const size_t room = width_ - get_column_width();
    std::string lines, word;
    size_t used = 0;
    std::istringstream words(text);
    while (words >> word) {
      const bool breaks = used > 0 && used + 1 + word.size() > room;
      if (used > 0) lines += breaks ? '\n' : ' ';
      lines += word;
      used = breaks || used == 0 ? word.size() : used + 1 + word.size();
    }
    return lines;
  }

  size_t width_;
};

}  // namespace

HelpDetail rewrite_help(std::vector<std::string>& arguments) {
  if (arguments.empty()) arguments = {"--help"};
  if (arguments.front() == "help") {
    arguments.erase(arguments.begin());
    arguments.emplace_back("--help");
  }
  HelpDetail detail = HelpDetail::none;
  for (std::string& argument : arguments) {
    if (argument == "--help" || argument == "-h") detail = HelpDetail::most_needed;
    if (argument != "--help-all") continue;
    argument = "--help";
    return HelpDetail::all;
  }
  return detail;
}

void shorten_help(CLI::App& command, const Settings& settings, HelpDetail detail) {
  const auto options = command.get_options();
  if (detail != HelpDetail::most_needed || options.size() < many) return;
  std::set<std::string> shown{"--help"};
  for (const Setting& setting : settings)
    if (setting.about.asked_by == AskedBy::most_runs) shown.insert("--" + setting.about.name);
  for (CLI::Option* option : options)
    if (option->get_group() == without_effect || !shown.contains(option->get_name()))
      option->group("");
  command.footer(fmt::format("\n--help-all shows all {} options.", options.size()));
}

void wrap_help(CLI::App& app) {
  app.formatter(std::make_shared<WrappedHelp>(std::min<size_t>(terminal_columns(), 100)));
}

}  // namespace accrue::app
