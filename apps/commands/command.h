#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "job/paths.h"
#include "job/request.h"

namespace accrue::app {

// A command of the program.
struct Command {
  std::string name, description;
  Settings settings;  // its options
  std::function<void()> work;
  std::vector<std::string> needed{};  // options that must be given
  // Advice to add to the message of an out-of-memory error.
  std::function<std::string()> advice{};
  bool is_shared = false;  // several ranks may share its work
  // Settings that the command accepts and ignores, with a message.
  std::set<std::string> passed_over{};

  // Adds all settings of another command, so that its arguments work with this one, too. Settings
  // that this command does not have are passed over.
  Command taking_all_of(const Settings& other) const;
};

// The part of a table that holds a network's settings: for model and data, for domains' networks
// and for the machine.
Settings settings_of_networks(const Settings& all, const Request& options);

// Does `work` with these options. First it checks the settings in Request::given and completes the
// options from the file of weights. `paths` are files that the command reads and writes in addition
// to the paths in its settings. Throws Error, and whatever `work` throws. Returns the ranks that
// share the work, which must outlive the objects made by `work`; null if there is one process.
std::shared_ptr<Ranks> perform(const Command& command, Request& options, Paths paths,
                               const std::function<void()>& work);

}  // namespace accrue::app
