#pragma once

#include <string>

#include "apps/cli/options.h"

namespace accrue::app {

// `accrue text import`: a model of transformers', or adapters of PEFT's beside weights of theirs
// here, as weights of this program.
struct ImportOptions {
  std::string from, base, out = "weights.safetensors";
};
Settings settings_of(ImportOptions& asked);
void import_text_model(const ImportOptions& asked);

// `accrue text export`: the other way round.
struct ExportOptions {
  std::string tokenizer = "bytes";
  std::string out;
  bool adapter = false;  // the adapters alone
  std::string base;      // of which they say that they are
};
Settings settings_of(ExportOptions& asked, Options& options);
void export_text_model(const Options& options, const ExportOptions& asked);

// `accrue text merge`: weights with adapters as ordinary ones.
Settings settings_of_merge(Options& options, std::string& out);
void merge_text_model(const Options& options, const std::string& out);

}  // namespace accrue::app
