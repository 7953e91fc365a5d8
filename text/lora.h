#pragma once

#include <optional>
#include <string>
#include <vector>

#include "layers/module.h"

namespace accrue {

// LoRA (Hu et al., "LoRA: Low-rank adaptation of large language models", 2021): adapters of a model
// that is otherwise fixed. A projection with an adapter computes
//   y = x w^T + b + scale * (drop(x) A^T) B^T,   A [rank, in], B [out, rank]
// with A drawn from U(-1/sqrt(in), 1/sqrt(in)) and B 0, as PEFT begins, and parameters with PEFT's
// names: lora_A.weight, lora_B.weight. Backward needs x, which several projections may share, and
// the product with A, which has rank columns.
struct LoraOptions {
  std::optional<int64_t> rank{};    // none: no adapters
  std::optional<double> alpha{};    // none: 2 * rank
  std::optional<double> dropout{};  // of an adapter's x; none: 0
  std::optional<bool> rank_stabilized{};
  // The projections that have adapters: "q_proj", or the end of a name between dots,
  // "attn.c_proj", or all. Empty: q_proj and v_proj, or c_attn of GPT-2, as PEFT chooses.
  std::vector<std::string> targets{};

  double chosen_alpha() const { return alpha.value_or(2 * double(*rank)); }
  // alpha / rank, or rank-stabilized (Kalajdzievski, 2023) alpha / sqrt(rank).
  double scale() const;
};

namespace detail {

// The targets for this model by names or their ends, without all.
std::vector<std::string> lora_targets(Module& model, const LoraOptions& options);

}  // namespace detail

// Gives the projections that are targets adapters, and fixes all other parameters. For a model that
// is not placed yet. Throws Error for options out of range, and for a target that names nothing.
void add_lora(Module& model, const LoraOptions& options);
// Adds the adapters of a placed model to its weights. What it computes stays the same.
void merge_lora(Module& model);

}  // namespace accrue
