#pragma once

#include <string>

#include "python/call.h"

namespace accrue::python {

// A function's signature, as nanobind's sig() takes it, and its docstring, with all settings of its
// command. Both live as long as the process.
struct FunctionDoc {
  const char *signature, *doc;
};
// `definition` is the signature up to the settings; `settings` belong to the door's command.
FunctionDoc about(const Door& door, const Settings& settings, const std::string& definition,
                  const std::string& returned, const std::string& text);

}  // namespace accrue::python
