#pragma once

#include <string>

#include "apps/cli/options.h"
#include "text/sampling.h"

namespace accrue::app {

// `accrue text write`: a text that goes on from a prompt.
struct WriteOptions {
  std::string prompt;
  std::string tokenizer;  // empty: the model's
  int64_t tokens = 200;
  Sampling sampling;
};
Settings settings_of(WriteOptions& asked, Options& options);
void write_text(const Options& options, const WriteOptions& asked);

}  // namespace accrue::app
