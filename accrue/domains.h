#pragma once

// The domains that accrue has: what a job can be about.

#include "fonts/domain.h"
#include "images/domain.h"
#include "text/domain.h"

namespace accrue {

// All of them, with the usual values of their settings. Of data that two of them claim the later
// one is taken.
inline detail::Domains all_domains() {
  using namespace detail;
  std::vector<std::unique_ptr<Domain>> all;
  all.push_back(std::make_unique<Images>());
  all.push_back(std::make_unique<Fonts>());
  all.push_back(std::make_unique<Text>());
  return Domains(std::move(all));
}

}  // namespace accrue
