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
  double temperature = 1;  // logits are divided by it; 0: take the largest, the first of equals
  int64_t top_k = 0;       // draw only from this many largest logits; 0: from all
  double top_p = 1;  // draw from the fewest tokens whose probabilities sum to this (Holtzman 2020)
  // The logits of tokens that already occur in the text are divided by it, or multiplied if they
  // are negative, before everything else (Keskar et al., "CTRL", 2019).
  double repetition_penalty = 1;
  uint64_t seed = 1;
  int64_t vocabulary = 0;  // draw only from this many first tokens; 0: from all
};

// Throws Error unless temperature >= 0, top_k >= 0, 0 < top_p <= 1 and repetition_penalty > 0.
void check_sampling(const Sampling& sampling);

// Draws a token and returns its number, which depends only on the logits, the sampling and `step`.
// Does not apply the repetition penalty, because it does not know the text. Throws Error for logits
// that are not finite.
int32_t draw_token(std::span<const float> logits, const Sampling& sampling, uint64_t step);

namespace detail {

// Divides the logits of tokens that occur in a text by the repetition penalty, or multiplies them
// if they are negative.
void penalize(std::span<float> logits, std::span<const int32_t> text, double repetition_penalty);

}  // namespace detail

// Continues prompts, one after another. It keeps the keys and values of all tokens, so each new
// token costs the work of a single token. Tokens at the beginning of a prompt that are the same as
// before cost nothing, so each message of a chat is read only once.
class TextWriter {
 public:
  // The model must live as long as this.
  TextWriter(const LanguageModel& model, Device device) : model_(model), device_(device) {}

  // Continues a prompt of at least one token by at most `tokens` tokens. Passes each token to
  // `take` as soon as it is drawn, and stops if `take` returns false; returns true in that case.
  // Throws Error if the model has no positions for the tokens.
  bool go_on(std::span<const int32_t> prompt, int64_t tokens, const Sampling& sampling,
             const std::function<bool(int32_t token)>& take);
  // The number of tokens of the last prompt that were kept from before.
  int64_t kept() const { return kept_; }

 private:
  // Reads tokens after those that have been read, and returns the logits of the next token.
  std::vector<float> read(std::span<const int32_t> tokens, const Sampling& sampling);

  const LanguageModel& model_;
  const Device device_;
  std::vector<int32_t> read_;  // whose keys and values are in the cache
  KeyValueCachePtr cache_;
  int64_t room_ = 0, kept_ = 0;
  uint64_t drawn_ = 0;
};

// Continues a single prompt.
void continue_text(const LanguageModel& model, std::span<const int32_t> prompt, int64_t tokens,
                   const Sampling& sampling, Device device,
                   const std::function<bool(int32_t token)>& take);

// The sampling that the makers of a model recommend.
struct Generation {
  // The most likely token each time, unless do_sample is true. Then it is drawn as transformers'
  // generate() does, with temperature, top_k (50 by default) and top_p. In both cases
  // repetition_penalty is applied.
  Sampling sampling{.temperature = 0};
  std::vector<int32_t> ends{};          // eos_token_id: each of these tokens ends a text
  std::vector<std::string> unheeded{};  // settings that only generate() supports: "min_p 0.1"
};

// Reads the generation_config.json among the files of a model (PretrainedModel::files). Without
// one, the tokens that end a text come from config.json. Throws Error for values of the wrong type.
Generation generation_in(const Metadata& files);

}  // namespace accrue
