#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "job/services.h"

namespace accrue::app {

// A domain with what the program shows of it beside its commands (apps/commands_of_domains.h). What
// a domain has nothing of is null.
struct ProgramDomain {
  std::unique_ptr<Domain> (*make)();
  // Looks on while one of its networks is trained.
  std::unique_ptr<Observer> (*watch)(const Request&, Trainer&, RunLog&,
                                     const Dataset& held_out) = nullptr;
  // What it needs of the machine, for `accrue info`: names and facts.
  std::vector<std::pair<std::string, std::string>> (*about_machine)() = nullptr;
};

// The domains that the program knows, with the usual values of their settings.
Domains all_domains();

// The one list of domains. Of data that two of them claim the later one is taken.
const std::vector<ProgramDomain>& program_domains();

}  // namespace accrue::app
