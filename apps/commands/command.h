#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "job/paths.h"
#include "job/request.h"

namespace accrue::app {

// What the program is told to do.
struct Command {
  std::string name, description;
  Settings settings;  // that it has as options
  std::function<void()> work;
  std::vector<std::string> needed{};  // options that must be given
  // What may help where memory runs out, for the end of the error's message.
  std::function<std::string()> advice{};
  bool is_shared = false;  // by the launcher's ranks, if there are several
  // The settings that it takes, and with which it does nothing. It says so.
  std::set<std::string> passed_over{};

  // Takes all settings of another command, so that only the word has to be changed in one that
  // somebody has written: those that it does not have are passed over.
  Command taking_all_of(const Settings& other) const;
};

// Takes a network's settings from a table: of model and data, of domains' networks and of the
// machine.
Settings settings_of_networks(const Settings& all, const Request& options);

// Does `work` by the options as they are, Request::given among them: checks what was given, and
// takes what weights say. `paths` are what is read and written beside the settings' own. Throws
// Error, and what `work` throws. Returns the ranks that share it, which must outlive what the work
// has made; null if there is one process.
std::shared_ptr<Ranks> perform(const Command& command, Request& options, Paths paths,
                               const std::function<void()>& work);

}  // namespace accrue::app
