#pragma once

#include <string>

#include "job/request.h"

namespace accrue::app {

// `accrue text import`: a model of transformers', or adapters of PEFT's beside weights of theirs
// here, as weights of this program.
struct ImportOptions {
  std::string from, base, out = "weights.safetensors";
};
Settings settings_of(ImportOptions& asked);
void import_text_model(const ImportOptions& asked);

// `accrue text export`: the other way round, or for llama.cpp.
enum class GgufTypes { f32, f16, bf16, q8_0, q4_0, of_base };
struct ExportOptions {
  std::string tokenizer;            // empty: the model's
  std::string out;                  // a directory, or a file of this name's end
  bool adapter = false;             // the adapters alone
  std::string base;                 // of which they say that they are
  GgufTypes type = GgufTypes::f16;  // of matrices in a GGUF file
};
Settings settings_of(ExportOptions& asked, Request& options);
void export_text_model(const Request& options, const ExportOptions& asked);

// `accrue text merge`: weights with adapters as ordinary ones.
Settings settings_of_merge(Request& options, std::string& out);
void merge_text_model(const Request& options, const std::string& out);

}  // namespace accrue::app
