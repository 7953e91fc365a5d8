#pragma once

#include <optional>
#include <string>
#include <vector>

#include "layers/module.h"

namespace accrue {

// LoRA (Hu et al., "LoRA: Low-rank adaptation of large language models", 2021): trainable adapters
// of a model whose other parameters are fixed. A projection with an adapter computes
//   y = x w^T + b + scale * (drop(x) A^T) B^T,   A [rank, in], B [out, rank]
// A is drawn from U(-1/sqrt(in), 1/sqrt(in)) and B begins with 0, as in PEFT. The parameters have
// PEFT's names, lora_A.weight and lora_B.weight. Backward needs x, which several projections may
// share, and the product with A, which has rank columns.
struct LoraOptions {
  std::optional<int64_t> rank{};    // none: no adapters
  std::optional<double> alpha{};    // none: 2 * rank
  std::optional<double> dropout{};  // of an adapter's x; none: 0
  std::optional<bool> rank_stabilized{};
  // The projections that get adapters: each word is a name such as "q_proj", the end of a name
  // between dots such as "attn.c_proj", or "all". Empty: q_proj and v_proj, or c_attn in GPT-2, as
  // PEFT chooses.
  std::vector<std::string> targets{};

  double chosen_alpha() const { return alpha.value_or(2 * double(*rank)); }
  // alpha / rank, or rank-stabilized (Kalajdzievski, 2023) alpha / sqrt(rank).
  double scale() const;
};

namespace detail {

// The targets for this model, as names or ends of names; "all" is replaced by names.
std::vector<std::string> lora_targets(Module& model, const LoraOptions& options);

}  // namespace detail

// Gives adapters to the target projections and fixes all other parameters. The model must not be
// placed yet. Throws Error for options out of range, and for a target that matches nothing.
void add_lora(Module& model, const LoraOptions& options);
// Merges the adapters of a placed model into its weights, which leaves its output unchanged.
void merge_lora(Module& model);

}  // namespace accrue
