#pragma once

#include <set>
#include <string>

#include "job/notices.h"
#include "job/paths.h"
#include "job/request.h"

namespace accrue {

// Throws Error for a setting that was given by name without one that it needs or beside one that it
// excludes, or that has no effect beside the others. A flag that was given as "no" asks for
// nothing.
void check_given(const std::set<std::string>& given, const Settings& settings);

// Takes into a request what the weights that it begins with say. `settings` are those that a door
// has, which refer to the request, and `passed_over` those of them with which it does nothing.
// Throws Error for weights of another network, for what check_given() refuses, for what has no
// effect on this machine or in so few processes, and if something would be written over what is
// read or over another output; `paths` are what is read and written beside the settings' own.
void resolve(Request& request, const Settings& settings, const std::set<std::string>& passed_over,
             int64_t processes, Paths paths, const Notices& notices);

}  // namespace accrue
