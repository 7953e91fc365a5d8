#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/safetensors.h"
#include "text/sampling.h"

namespace accrue {

// How the makers of a model would have its texts written.
struct Generation {
  // The likeliest token each time, unless do_sample is true: then as transformers' generate() draws
  // with temperature, top_k (50 if it is not said), top_p and, in both cases, repetition_penalty.
  Sampling sampling{.temperature = 0};
  std::vector<int32_t> ends{};          // eos_token_id: each ends a text
  std::vector<std::string> unheeded{};  // what else generate() would heed: "min_p 0.1"
};

// What the generation_config.json among the files of a model (PretrainedModel::files) says; without
// one the tokens that end a text are config.json's. Throws Error for a value of another kind.
Generation generation_in(const Metadata& files);

}  // namespace accrue
