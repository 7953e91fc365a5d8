#pragma once

#include <string_view>

namespace accrue {

// Where a tensor lives. `meta` has neither storage nor arithmetic: the same model code runs on it
// and its memory ledger predicts the peak of a run that has not happened.
enum class Device { cpu, meta };

constexpr std::string_view name(Device device) { return device == Device::cpu ? "cpu" : "meta"; }

}  // namespace accrue
