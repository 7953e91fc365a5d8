#pragma once

#include <string>
#include <vector>

#include "apps/commands/commands_of_networks.h"
#include "python/call.h"

namespace accrue::python {

// A function's signature, as nanobind's sig() takes it, and its docstring, with all settings of its
// command. Both live as long as the process.
struct FunctionDoc {
  const char *signature, *doc;
};

// Makes them of the commands' settings as they are before anybody has given one.
class FunctionDocs {
 public:
  FunctionDocs() = default;
  FunctionDocs(const FunctionDocs&) = delete;
  FunctionDocs& operator=(const FunctionDocs&) = delete;

  // `definition` is the signature up to the settings.
  FunctionDoc of(const Door& door, const std::string& definition, const std::string& returned,
                 const std::string& text) const;

 private:
  app::AskedOfNetworks asked_;
  const std::vector<app::Command> commands_ = app::commands_of_networks(asked_);
};

}  // namespace accrue::python
