#include "apps/commands/command.h"

#include <algorithm>

#include "apps/cli/messages.h"
#include "apps/cli/ranks.h"
#include "job/checks.h"

namespace accrue::app {
namespace {

// Lets an option with the value "-" write to standard output.
void write_to_standard_output(const Setting& setting) {
  check(setting.about.takes.path == Path::text,
        "--{} -: expected the name of a file or directory, because standard output takes text only",
        setting.about.name);
  reserve_standard_output();
}

// The message with the command's advice.
std::string with_advice(std::string message, const std::function<std::string()>& advice) {
  try {
    if (const std::string text = advice(); !text.empty()) message += "\n" + text;
  } catch (const Error&) {
    // The options themselves are wrong or the data is gone: the first error is enough.
  }
  return message;
}

// An OutOfMemory error with advice in its message.
class AdvisedOutOfMemory : public OutOfMemory {
 public:
  AdvisedOutOfMemory(const OutOfMemory& error, std::string text)
      : OutOfMemory(error), text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

// Throws the exception that has ended a command. If several ranks share the command, all of them
// end.
[[noreturn]] void rethrow(const Command& command, MpiRanks* ranks) {
  try {
    try {
      throw;
    } catch (const OutOfMemory& error) {
      if (command.advice)
        throw AdvisedOutOfMemory(error, with_advice(error.what(), command.advice));
      throw;
    }
  } catch (const std::exception& error) {
    if (ranks) abort_ranks(*ranks, error);
    throw;
  }
}

void say_what_is_passed_over(const Command& command, const std::set<std::string>& given) {
  std::string names;
  for (const Setting& setting : command.settings)
    if (const std::string& name = setting.about.name;
        command.passed_over.contains(name) && given.contains(name))
      names += (names.empty() ? "--" : ", --") + name;
  if (!names.empty()) say("{} does nothing with {}\n", command.name, names);
}

}  // namespace

Command Command::taking_all_of(const Settings& other) const {
  Command result = *this;
  std::set<std::string> known;
  for (const Setting& setting : settings) known.insert({setting.about.name, setting.about.alias});
  const Settings rest =
      other.where([&](const Setting& setting) { return !known.contains(setting.about.name); });
  for (const Setting& setting : rest) result.passed_over.insert(setting.about.name);
  result.settings.append(rest);
  return result;
}

Settings settings_of_networks(const Settings& all, const Request& options) {
  std::vector<std::string> headings = headings_of_networks(options);
  headings.emplace_back("Machine");
  return all.in(headings);
}

std::shared_ptr<Ranks> perform(const Command& command, Request& options, Paths paths,
                               const std::function<void()>& work) {
  check(command.is_shared || launched().count == 1,
        "{} is one process, but was started as {} ranks: expected train, eval or bench train, or "
        "no mpirun",
        command.name, launched().count);
  resolve(options, command.settings, command.passed_over, launched().count, std::move(paths),
          spoken());
  for (const Setting& setting : command.settings)
    if (setting.text() == "-" && !command.passed_over.contains(setting.about.name))
      write_to_standard_output(setting);
  say_what_is_passed_over(command, options.given);
  const std::shared_ptr<MpiRanks> ranks =
      command.is_shared ? start_ranks(options, command.settings) : nullptr;
  try {
    work();
  } catch (...) {
    rethrow(command, ranks.get());
  }
  return ranks;
}

}  // namespace accrue::app
