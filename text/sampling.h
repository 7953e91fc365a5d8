#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "text/language_model.h"

namespace accrue {

// How the next token is drawn from its logits.
struct Sampling {
  double temperature = 1;  // logits are divided by it; 0: the largest, the first of equals
  int64_t top_k = 0;       // of the so many largest alone; 0: of all
  double top_p = 1;        // of the fewest largest whose probabilities come to this (Holtzman 2020)
  uint64_t seed = 1;
  int64_t vocabulary = 0;  // of the first so many tokens alone; 0: of all
};

// Throws Error unless temperature >= 0, top_k >= 0 and 0 < top_p <= 1.
void check_sampling(const Sampling& sampling);

// The number of the token drawn, which depends on the logits, the sampling and `step` alone. Throws
// Error for logits that are not finite.
int32_t draw_token(std::span<const float> logits, const Sampling& sampling, uint64_t step);

// Continues a prompt of at least one token by at most so many, each of which `take` is given as
// soon as it is drawn; the end comes where that returns false. Keeps keys and values of all, so a
// token costs the work of one. Throws Error where the model has no positions for them.
void continue_text(const LanguageModel& model, std::span<const int32_t> prompt, int64_t tokens,
                   const Sampling& sampling, Device device,
                   const std::function<bool(int32_t token)>& take);

}  // namespace accrue
