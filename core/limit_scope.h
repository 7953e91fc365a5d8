#pragma once

#include "core/ledger.h"

namespace accrue {

// Sets the limit of a device's ledger (nullopt: none) while alive, then restores the former limit.
class LimitScope {
 public:
  LimitScope(Device device, std::optional<size_t> bytes)
      : ledger_(ledger(device)), before_(ledger_.limit()) {
    ledger_.set_limit(bytes);
  }
  ~LimitScope() { ledger_.set_limit(before_); }
  LimitScope(const LimitScope&) = delete;
  LimitScope& operator=(const LimitScope&) = delete;

 private:
  Ledger& ledger_;
  std::optional<size_t> before_;
};

}  // namespace accrue
