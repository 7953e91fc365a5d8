#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/inside.h"
#include "data/safetensors.h"
#include "text/language_model.h"

namespace accrue {

// How the next token is drawn from its logits.
struct Sampling {
  double temperature = 1;  // logits are divided by it; 0: the largest, the first of equals
  int64_t top_k = 0;       // of the so many largest alone; 0: of all
  double top_p = 1;        // of the fewest largest whose probabilities come to this (Holtzman 2020)
  // Logits of tokens that are there already are divided by it, or multiplied if they are negative,
  // before all else (Keskar et al., "CTRL", 2019).
  double repetition_penalty = 1;
  uint64_t seed = 1;
  int64_t vocabulary = 0;  // of the first so many tokens alone; 0: of all
};

// Throws Error unless temperature >= 0, top_k >= 0, 0 < top_p <= 1 and repetition_penalty > 0.
void check_sampling(const Sampling& sampling);

// The number of the token drawn, which depends on the logits, the sampling and `step` alone; it
// knows nothing of tokens that are there already. Throws Error for logits that are not finite.
int32_t draw_token(std::span<const float> logits, const Sampling& sampling, uint64_t step);

// Goes on from prompts, one after another. Keys and values of all tokens are kept, so that a token
// costs the work of one, and so does one at the beginning of the next prompt that stood there
// before: a chat is read once.
class TextWriter {
 public:
  // The model must live as long as this.
  TextWriter(const LanguageModel& model, Device device) : model_(model), device_(device) {}

  // Continues a prompt of at least one token by at most so many, each of which `take` is given as
  // soon as it is drawn; the end comes where that returns false. Returns true if it came there.
  // Throws Error where the model has no positions for them.
  bool go_on(std::span<const int32_t> prompt, int64_t tokens, const Sampling& sampling,
             const std::function<bool(int32_t token)>& take);
  // How many tokens of the last prompt were there before.
  int64_t kept() const { return kept_; }

 private:
  // The logits after tokens that follow those that have been read.
  std::vector<float> read(std::span<const int32_t> tokens, const Sampling& sampling);

  const LanguageModel& model_;
  const Device device_;
  std::vector<int32_t> read_;  // whose keys and values are in the cache
  KeyValueCachePtr cache_;
  int64_t room_ = 0, kept_ = 0;
  uint64_t drawn_ = 0;
};

// The same for one prompt alone.
void continue_text(const LanguageModel& model, std::span<const int32_t> prompt, int64_t tokens,
                   const Sampling& sampling, Device device,
                   const std::function<bool(int32_t token)>& take);

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
