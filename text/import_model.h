#pragma once

#include <string>

#include "core/inside.h"
#include "job/notices.h"
#include "job/request.h"

namespace accrue {

// A model of transformers', in their directory or a GGUF file, or adapters of PEFT's beside weights
// of theirs here (`base`), as weights of accrue.
struct ImportOptions {
  std::string from, base, out = "weights.safetensors";
};
// Writes them, with the tokenizer beside them if there is one that can be read, and tells what they
// are. `domains` are new ones, whose settings the weights say. Throws Error as
// read_pretrained_config() and its kind do.
void import_text_model(const ImportOptions& asked, Domains domains, const Notices& notices);

// Writes the weights of a request that have adapters as ordinary ones. Throws Error if they have
// none.
void merge_text_model(const Request& request, const std::string& out, const Notices& notices);

// The weights of a model whose adapters, if it has any, have been added to them: beside a base, to
// its numbers in float32.
NamedTensors merged_weights(const Request& request);
// The request for such a model, without adapters and base.
Request merged_request(const Request& request);

}  // namespace accrue
