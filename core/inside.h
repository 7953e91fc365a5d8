#pragma once

// The insides of accrue by their plain names, for its own sources. What accrue.h reaches and a user
// need not know is declared in accrue::detail. No public header reaches this one
// (scripts/count_names.py), so another project has to say detail for it.
namespace accrue {

namespace detail {}
using namespace detail;

}  // namespace accrue
