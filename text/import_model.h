#pragma once

#include <string>

#include "core/inside.h"
#include "job/notices.h"
#include "job/request.h"

namespace accrue {

// The source of an import: a model of transformers, as a directory or a GGUF file, or adapters of
// PEFT, whose base is a file of accrue's weights (`base`).
struct ImportOptions {
  std::string from, base, out = "weights.safetensors";
};
// Writes the weights in accrue's format, with the tokenizer beside them if accrue can read it, and
// reports what they are. `domains` must be new; the weights determine their settings. Throws Error
// in the same cases as read_pretrained_config() and the other functions that read such files.
void import_text_model(const ImportOptions& asked, Domains domains, const Notices& notices);

// Merges the adapters of a request's weights into the other weights and writes the result. Throws
// Error if there are no adapters.
void merge_text_model(const Request& request, const std::string& out, const Notices& notices);

// The weights of a model with its adapters, if any, merged into them. The weights of a base are
// widened to float32 first.
NamedTensors merged_weights(const Request& request);
// The request for the merged model, without adapters and base.
Request merged_request(const Request& request);

}  // namespace accrue
