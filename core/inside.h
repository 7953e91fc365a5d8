#pragma once

// The insides of accrue by their plain names, for its own sources. What accrue.h reaches and a user
// need not know is declared in accrue::detail. No public header includes this one
// (scripts/check_includes.py), so another project has to say detail for it.
namespace accrue {

namespace detail {}
using namespace detail;

}  // namespace accrue
