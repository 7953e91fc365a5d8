#include "train/player_options.h"

#include <algorithm>

#include "core/inside.h"

namespace accrue {

const Layer& Networks::operator[](std::string_view name) const {
  const auto found = std::ranges::find(all_, name, [](const auto& named) { return named.first; });
  if (found != all_.end()) return *found->second;
  std::string known;
  for (const auto& [other, network] : all_) known += fmt::format(" '{}'", other);
  fail("there is no network '{}': expected one of{}", name, known);
}

}  // namespace accrue
