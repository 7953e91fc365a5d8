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
  std::string base;                 // the base that the adapters name
  GgufTypes type = GgufTypes::f16;  // of matrices in a GGUF file
};
// Writes the language model of a request, or only its adapters: as a directory for transformers or
// PEFT, or as a GGUF file for llama.cpp. Reports what was written. Throws Error if the format
// cannot represent the model.
void export_text_model(const Request& request, const ExportOptions& asked, const Notices& notices);

}  // namespace accrue
