#include "apps/cli/completion.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "core/error.h"
#include "core/inside.h"

namespace accrue::app {
namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// Returns "cnn mlp" for an option that takes cnn|mlp, and nothing for one that takes any value.
std::string choices_of(const CLI::Option& option) {
  std::string choices = option.get_type_name();
  if (choices.find('|') == std::string::npos || std::isupper(choices.front())) return {};
  std::ranges::replace(choices, '|', ' ');
  return choices;
}

std::string options_of(const CLI::App& command) {
  std::string options;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) options += fmt::format(" --{}", name);
  return options;
}

// Adds cases of a bash script: the words before the cursor, and the words that may follow. `path`
// is the command with a blank, such as "bench train ".
void add_cases(const CLI::App& command, const std::string& path, std::string& choices,
               std::string& words) {
  for (const CLI::Option* option : command.get_options())
    if (const std::string of = choices_of(*option); !of.empty())
      for (const std::string& name : option->get_lnames())
        choices += fmt::format("    '{}--{}') words='{}' ;;\n", path, name, of);
  std::string next = options_of(command);
  for (const CLI::Option* option : command.get_options())
    if (option->get_positional()) next = choices_of(*option) + next;
  for (const CLI::App* sub : commands_of(command)) {
    next = fmt::format("{} {}", sub->get_name(), next);
    add_cases(*sub, fmt::format("{}{} ", path, sub->get_name()), choices, words);
  }
  words += fmt::format("    '{}') words='{}' ;;\n", path, next);
}

constexpr const char* bash_head = R"(# Completes accrue's commands, options and choices.
_accrue() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command= words= given
  for given in "${COMP_WORDS[@]:1:$((COMP_CWORD - 1))}"; do
    [[ $given == -* ]] && break
    command+="$given "
  done
  case $command$before in
)";
constexpr const char* bash_tail = R"(    esac ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _accrue accrue
)";

std::string bash_script(const CLI::App& app) {
  std::string choices, words;
  add_cases(app, "", choices, words);
  return fmt::format("{}{}    *) case $command in\n{}{}", bash_head, choices, words, bash_tail);
}

void add_fish_lines(const CLI::App& command, const std::string& condition, std::string& lines) {
  const auto quoted = [](const std::string& text) {
    std::string escaped;
    for (const char c : text) {
      if (c == '\'') escaped += '\\';
      escaped += c;
    }
    return fmt::format("'{}'", escaped);
  };
  for (const CLI::App* sub : commands_of(command)) {
    lines += fmt::format("complete -c accrue -f -n \"{}\" -a {} -d {}\n", condition,
                         sub->get_name(), quoted(sub->get_description()));
    add_fish_lines(*sub, fmt::format("__fish_seen_subcommand_from {}", sub->get_name()), lines);
  }
  for (const CLI::Option* option : command.get_options()) {
    const std::string choices = choices_of(*option);
    if (option->get_positional() && !choices.empty())
      lines += fmt::format("complete -c accrue -f -n \"{}\" -a {}\n", condition, quoted(choices));
    for (const std::string& name : option->get_lnames())
      lines += fmt::format("complete -c accrue -n \"{}\" -l {}{} -d {}\n", condition, name,
                           choices.empty() ? "" : fmt::format(" -x -a {}", quoted(choices)),
                           quoted(option->get_description()));
  }
}

}  // namespace

std::string completion_script(const CLI::App& app, const std::string& shell) {
  if (shell == "bash") return bash_script(app);
  // zsh either sources the script or loads it from its function path. In the second case the first
  // call must also complete.
  if (shell == "zsh")
    return fmt::format(
        "#compdef accrue\nautoload -U +X bashcompinit && bashcompinit\n{}"
        "[[ $funcstack[1] != _accrue ]] || _bash_complete -F _accrue\n",
        bash_script(app));
  check(shell == "fish", "completion for '{}': expected bash, zsh or fish", shell);
  std::string lines = "# Completes accrue's commands, options and choices.\n";
  add_fish_lines(app, "__fish_use_subcommand", lines);
  return lines;
}

}  // namespace accrue::app
