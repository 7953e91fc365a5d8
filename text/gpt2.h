#pragma once

#include "text/language_model.h"

namespace accrue {

namespace detail {
inline constexpr double gpt2_norm_eps = 1e-5;
}  // namespace detail

// The sizes of a GPT-2.
struct Gpt2Options {
  int64_t vocabulary = 50257;  // V
  int64_t context = 1024;      // positions that have an embedding
  int64_t width = 768;         // E, a multiple of heads
  int64_t layers = 12, heads = 12;
  double dropout = 0;
  bool is_tied = true;  // the head is the embedding
};

namespace detail {

// GPT-2 (Radford et al., "Language models are unsupervised multitask learners", 2019), as
// transformers' GPT2LMHeadModel computes it:
//   x = wte[token] + wpe[position]
//   x += c_proj(attention(c_attn(ln_1(x))));  x += c_proj(gelu_tanh(c_fc(ln_2(x))))  in each layer
//   logits = ln_f(x) wte^T, or ln_f(x) lm_head^T if the head is not tied.
// Dropout is applied to the first x and to each term added to it, but not to the attention's
// probabilities, which never exist as a whole. Parameters have transformers' names and layout: the
// weights of its Conv1D are [in, out]. Weights are drawn from N(0, 0.02); the weights of c_proj are
// then divided by sqrt(2 layers).
class Gpt2 : public LanguageModel {
 public:
  // Throws Error for options out of range.
  explicit Gpt2(const Gpt2Options& options);
  ~Gpt2() override;
  Tensor states(const TokenRows& rows, const Pass& pass,
                const KeyValueCachePtr& cache) const override;
  const Tensor& head() const override { return (options_.is_tied ? wte_ : head_).tensor; }
  int64_t context() const override { return options_.context; }
  std::string describe() const override;

 private:
  class Block;
  const Gpt2Options options_;
  Parameter wte_, wpe_, head_;
  Dropout drop_;
  std::vector<std::unique_ptr<Block>> blocks_;
  LayerNorm ln_f_;
};

}  // namespace detail

}  // namespace accrue
