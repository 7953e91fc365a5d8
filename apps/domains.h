#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "accrue/domains.h"
#include "job/services.h"

namespace accrue::app {

// A domain's functions for the program, other than commands (apps/commands_of_domains.h); null
// where the domain has none.
struct ProgramDomain {
  // Makes an observer of a training of one of the domain's networks.
  std::unique_ptr<Observer> (*watch)(const Request&, Trainer&, RunLog&,
                                     const Dataset& held_out) = nullptr;
  // Facts about the domain's libraries or tools on this machine, for `accrue info`: names and
  // texts.
  std::vector<std::pair<std::string, std::string>> (*about_machine)() = nullptr;
};

// A ProgramDomain for each of all_domains(), in the same order.
const std::vector<ProgramDomain>& program_domains();

}  // namespace accrue::app
