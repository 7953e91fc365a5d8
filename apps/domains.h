#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/inside.h"
#include "job/answer_files.h"
#include "job/services.h"

namespace accrue::app {

// A domain, and its functions for the program other than commands (apps/commands_of_domains.h);
// null where the domain has none.
struct ProgramDomain {
  std::unique_ptr<Domain> (*make)();
  // Makes an observer of a training of one of the domain's networks.
  std::unique_ptr<Observer> (*watch)(const Request&, Trainer&, RunLog&,
                                     const Dataset& held_out) = nullptr;
  // Facts about the domain's libraries or tools on this machine, for `accrue info`: names and
  // texts.
  std::vector<std::pair<std::string, std::string>> (*about_machine)() = nullptr;
  // Facts about the request's model, one of the domain's, for `accrue info`: names and texts.
  std::vector<std::pair<std::string, std::string>> (*about_model)(const Request&) = nullptr;
  // What `accrue predict` does with the weights of one of the domain's networks. The domain that
  // has the command needs none.
  void (*predict)(const Request&, const AnswerFiles&) = nullptr;
};

// The domains of this build, in the order of CMake's ACCRUE_DOMAINS. The build writes it: for each
// domain x it calls x_domain(), which apps/x/domain.cpp defines.
const std::vector<ProgramDomain>& program_domains();
// The same domains with the usual values of their settings.
Domains domains_of_program();

}  // namespace accrue::app
