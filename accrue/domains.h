#pragma once

// The domains that come with accrue, that is, the kinds of data that a job can be about.

#include "fonts/domain.h"
#include "images/domain.h"
#include "networks/domain.h"
#include "tables/domain.h"
#include "text/domain.h"

namespace accrue {

// All domains, with the usual values of their settings. If two domains claim the same data, the
// later one takes it.
inline detail::Domains all_domains() {
  using namespace detail;
  std::vector<std::unique_ptr<Domain>> all;
  all.push_back(std::make_unique<Images>());
  all.push_back(std::make_unique<Fonts>());
  all.push_back(std::make_unique<Text>());
  all.push_back(std::make_unique<Tables>());
  all.push_back(std::make_unique<NetworkFiles>());
  return Domains(std::move(all));
}

}  // namespace accrue
