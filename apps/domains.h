#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "accrue/domains.h"
#include "job/services.h"

namespace accrue::app {

// A domain with what the program shows of it beside its commands (apps/commands_of_domains.h). What
// a domain has nothing of is null.
struct ProgramDomain {
  // Looks on while one of its networks is trained.
  std::unique_ptr<Observer> (*watch)(const Request&, Trainer&, RunLog&,
                                     const Dataset& held_out) = nullptr;
  // What it needs of the machine, for `accrue info`: names and facts.
  std::vector<std::pair<std::string, std::string>> (*about_machine)() = nullptr;
};

// What the program shows of all_domains(), in their order.
const std::vector<ProgramDomain>& program_domains();

}  // namespace accrue::app
