#pragma once

#include <string>
#include <vector>

#include "apps/commands/commands_of_networks.h"
#include "python/call.h"
#include "python/docstrings.h"

namespace accrue::python {

// A function's signature, as nanobind's sig() takes it, and its docstring, with all settings of its
// command. Both live as long as the process.
struct FunctionDoc {
  const char *signature, *doc;
};

// An argument that a function declares itself. Those that follow the name "*" are keywords.
struct OwnArgument {
  std::string name, annotation{}, value{}, text{};
  std::string type{};  // as the docstring shows it; empty: as the annotation
};

// A function before its command's settings are added. `doc` has no arguments.
struct FunctionText {
  std::string name;
  std::vector<OwnArgument> arguments;
  std::string returned;  // the annotation of its result
  Docstring doc;
};

// Makes them of the commands' settings as they are before anybody has given one.
class FunctionDocs {
 public:
  FunctionDocs() = default;
  FunctionDocs(const FunctionDocs&) = delete;
  FunctionDocs& operator=(const FunctionDocs&) = delete;

  FunctionDoc of(const Door& door, FunctionText function) const;

 private:
  app::AskedOfNetworks asked_;
  const std::vector<app::Command> commands_ = app::commands_of_networks(asked_);
};

}  // namespace accrue::python
