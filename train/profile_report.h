#pragma once

#include <string>
#include <vector>

#include "core/inside.h"
#include "core/profile.h"

namespace accrue {

// A row of the table of a profile: a kernel of an op in a phase, or the time of a phase between
// kernels (then it has no op, no calls and no work).
struct ProfileRow {
  std::string phase, op, kernel;
  int64_t calls = 0;
  double us = 0, share = 0;  // of the whole
  double flops = 0, bytes = 0;
  double flops_per_s() const { return us > 0 ? flops / us * 1e6 : 0; }
  double bytes_per_s() const { return us > 0 ? bytes / us * 1e6 : 0; }
};

// The rows, longest first; their times add up to the profile's total.
std::vector<ProfileRow> rows_of(const Profile& profile);

// The rows as text for people, in lines of 80 columns; where there are 117, also with the number of
// calls and with rates in per cent of the machine's, unless these are 0.
std::string profile_table(const Profile& profile, const MachineRates& rates, size_t columns);
}  // namespace accrue
