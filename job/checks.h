#pragma once

#include <set>
#include <string>

#include "job/notices.h"
#include "job/paths.h"
#include "job/request.h"

namespace accrue {

// Throws Error for a setting that was given by name without another that it needs, together with
// one that it excludes, or where the other settings leave it without effect. A flag that was given
// as "no" counts as not given.
void check_given(const std::set<std::string>& given, const Settings& settings);

// Completes a request with the settings that its weights' file records. `settings` are the settings
// of the caller (program, Python or another program) and refer to the request. The caller ignores
// the settings named in `passed_over`. `paths` are files that the command reads and writes in
// addition to the paths in its settings. Throws Error for weights of another network, as
// check_given() does, and for a setting that has no effect on this machine or with this number of
// processes. Throws Error, too, if an output would replace an input or another output.
void resolve(Request& request, const Settings& settings, const std::set<std::string>& passed_over,
             int64_t processes, Paths paths, const Notices& notices);

}  // namespace accrue
