#pragma once

#include "core/ledger.h"

namespace accrue {

// Gives a device's ledger this limit (nullopt: none) while alive, and then restores the one before.
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
