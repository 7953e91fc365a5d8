#pragma once

#include <optional>
#include <vector>

#include "kernels/rotary.h"
#include "text/language_model.h"

namespace accrue {

namespace detail {

// The frequencies of rotations: rotary_frequencies() of `base`, scaled.
struct RotaryBase {
  double base = 10000;
  double linear_factor = 1;  // scale_linearly()
  std::optional<Llama3Scaling> llama3{};
};

}  // namespace detail

// The sizes of a Llama.
struct LlamaOptions {
  int64_t vocabulary = 32000;  // V
  int64_t context = 2048;      // the length it was made for; rotations set no limit
  int64_t width = 2048;        // E
  int64_t hidden = 5632;       // of the feed-forward layers
  int64_t layers = 22, heads = 32, groups = 4;
  int64_t head_size = 0;  // 0: width / heads
  double norm_eps = 1e-5;
  detail::RotaryBase rotary{};
  bool has_bias = false;  // of queries, keys and values, as in Qwen2
  bool is_tied = false;   // the head is the embedding
};

namespace detail {

// Llama (Touvron et al., "LLaMA: Open and efficient foundation language models", 2023), computed
// like LlamaForCausalLM of transformers:
//   x = embed_tokens[token]
//   in each layer:
//     h = input_layernorm(x)
//     x += o_proj(attention(rotated q_proj(h), rotated k_proj(h), v_proj(h)))
//     h = post_attention_layernorm(x)
//     x += down_proj(silu(gate_proj(h)) * up_proj(h))
//   logits = norm(x) lm_head^T
// Norms are RMSNorms. Several query heads share the keys and values of a group (Ainslie et al.,
// "GQA", 2023). Parameters have transformers' names and layout, and are drawn from N(0, 0.02).
class Llama : public LanguageModel {
 public:
  // Throws Error for options out of range.
  explicit Llama(const LlamaOptions& options);
  ~Llama() override;
  Tensor states(const TokenRows& rows, const Pass& pass,
                const KeyValueCachePtr& cache) const override;
  const Tensor& head() const override { return (options_.is_tied ? embedding_ : head_).tensor; }
  int64_t context() const override { return 0; }
  std::string describe() const override;

 private:
  class Block;
  const LlamaOptions options_;
  Parameter embedding_, head_;
  std::vector<std::unique_ptr<Block>> blocks_;
  RmsNorm norm_;
};

}  // namespace detail

}  // namespace accrue
