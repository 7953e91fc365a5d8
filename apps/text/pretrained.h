#pragma once

#include <string>

#include "text/export_model.h"
#include "text/import_model.h"

namespace accrue::app {

// The options of `accrue text import`, `export` and `merge`.
Settings settings_of(ImportOptions& asked);
Settings settings_of(ExportOptions& asked, Request& options);
Settings settings_of_merge(Request& options, std::string& out);

}  // namespace accrue::app
