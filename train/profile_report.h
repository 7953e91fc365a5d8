#pragma once

#include <string>
#include <vector>

#include "core/inside.h"
#include "core/profile.h"

namespace accrue {

// A row of a profile's table: a kernel of an op in a phase, or the time that a phase spends between
// kernels, without op, calls and work.
struct ProfileRow {
  std::string phase, op, kernel;
  int64_t calls = 0;
  double us = 0, share = 0;  // of the total
  double flops = 0, bytes = 0;
  double flops_per_s() const { return us > 0 ? flops / us * 1e6 : 0; }
  double bytes_per_s() const { return us > 0 ? bytes / us * 1e6 : 0; }
};

// The rows, longest first. Their times add up to the profile's total.
std::vector<ProfileRow> rows_of(const Profile& profile);

// The rows as text in lines of 80 columns. With 117 columns or more, also shows the number of
// calls, and rates in percent of the machine's, unless the machine's are 0.
std::string profile_table(const Profile& profile, const MachineRates& rates, size_t columns);
}  // namespace accrue
