#pragma once

// Lets accrue's own sources use the names of accrue::detail without `detail`. That namespace holds
// the declarations in public headers that users need not know. No public header includes this one
// (scripts/count_names.py checks it), so other projects must write `detail`.
namespace accrue {

namespace detail {}
using namespace detail;

}  // namespace accrue
