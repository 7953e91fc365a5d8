#pragma once

#include <string>

#include "job/notices.h"
#include "job/request.h"

namespace accrue {

enum class GgufTypes { f32, f16, bf16, q8_0, q4_0, of_base };
struct ExportOptions {
  std::string tokenizer;            // empty: the model's
  std::string out;                  // a new directory, or FILE.gguf
  bool adapter = false;             // the adapters alone
  std::string base;                 // of which they say that they are
  GgufTypes type = GgufTypes::f16;  // of matrices in a GGUF file
};
// Writes the language model of a request's weights, or its adapters, as a directory for
// transformers, or for PEFT, or as a file for llama.cpp, and tells what it is. Throws Error for
// what these cannot have.
void export_text_model(const Request& request, const ExportOptions& asked, const Notices& notices);

}  // namespace accrue
