#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "apps/program.h"

namespace accrue::python {

using AllOptions = std::map<std::string, std::vector<app::OptionHelp>>;

// A function's signature, as nanobind's sig() takes it, and its docstring, with all options of one
// of the program's commands. They live as long as the process.
struct About {
  const char *signature, *doc;
};
// `definition` is the signature up to the options; those in `own` are arguments of it already.
About about(const AllOptions& options, const std::string& command, const std::string& definition,
            const std::string& returned, const std::string& text,
            std::initializer_list<const char*> own);

}  // namespace accrue::python
