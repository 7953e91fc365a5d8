#pragma once

#include <string>

#include "apps/cli/options.h"

namespace accrue::app {

// `accrue text import`: a model of transformers' as weights of this program.
struct ImportOptions {
  std::string from, out = "weights.safetensors";
};
Settings settings_of(ImportOptions& asked);
void import_text_model(const ImportOptions& asked);

// `accrue text export`: the other way round.
struct ExportOptions {
  std::string tokenizer = "bytes";
  std::string out;
};
Settings settings_of(ExportOptions& asked, Options& options);
void export_text_model(const Options& options, const ExportOptions& asked);

}  // namespace accrue::app
