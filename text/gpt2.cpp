#include "text/gpt2.h"

#include <cmath>

#include "core/inside.h"
#include "kernels/arithmetic.h"
#include "kernels/causal_attention.h"
#include "kernels/embedding.h"

namespace accrue {
namespace {

constexpr double gpt2_deviation = 0.02;

}  // namespace

class Gpt2::Block : public Module {
 public:
  Block(const Gpt2Options& o, uint32_t number)
      : heads_{o.heads, o.heads, o.width / o.heads},
        ln_1_(o.width, gpt2_norm_eps),
        ln_2_(o.width, gpt2_norm_eps),
        c_attn_(o.width, 3 * o.width, gpt2_deviation, Bias::learned, Transpose::no),
        attn_c_proj_(o.width, o.width, deviation_of_last(o), Bias::learned, Transpose::no),
        c_fc_(o.width, 4 * o.width, gpt2_deviation, Bias::learned, Transpose::no),
        mlp_c_proj_(4 * o.width, o.width, deviation_of_last(o), Bias::learned, Transpose::no),
        attn_drop_(o.dropout, 2 * number + 1),
        mlp_drop_(o.dropout, 2 * number + 2) {
    declare("ln_1", ln_1_);
    declare("attn.c_attn", c_attn_);
    declare("attn.c_proj", attn_c_proj_);
    declare("ln_2", ln_2_);
    declare("mlp.c_fc", c_fc_);
    declare("mlp.c_proj", mlp_c_proj_);
  }

  // x [N, T, E]. `number` is the layer of this block in the cache. `ends_segment` marks the last
  // block of a segment.
  Tensor run_on(Tensor x, const Tensor& positions, const Pass& pass, const KeyValueCachePtr& cache,
                size_t number, bool ends_segment) const {
    const Shape shape = x.shape();
    return run(shape, pass, [&] {
      Tensor qkv = c_attn_(ln_1_(x, pass), pass);
      Tensor y = cache
                     ? causal_attention(qkv, heads_, positions, {cache->layer(number), pass.begin})
                     : causal_attention(qkv, heads_, positions);
      qkv.reset();
      x = add_term(std::move(x), attn_c_proj_, std::move(y), attn_drop_, pass);
      Tensor h = c_fc_.gelu(ln_2_(x, pass), pass);
      const SegmentEnd end(ends_segment);
      return add_term(std::move(x), mlp_c_proj_, std::move(h), mlp_drop_, pass);
    });
  }
  std::string describe() const override { return fmt::format("block of {} heads", heads_.queries); }

 private:
  // x + drop(projection(y)).
  static Tensor add_term(Tensor x, const Projection& projection, Tensor y, const Dropout& drop,
                         const Pass& pass) {
    if (!drop.is_random() || !pass.drops_out())
      return projection.add_to(std::move(x), std::move(y), pass);
    return add(std::move(x), drop(projection(std::move(y), pass), pass));
  }
  // Smaller with more layers, because the outputs of all layers are added up.
  static double deviation_of_last(const Gpt2Options& o) {
    return gpt2_deviation / std::sqrt(2 * double(o.layers));
  }

  const AttentionHeads heads_;
  LayerNorm ln_1_, ln_2_;
  Projection c_attn_, attn_c_proj_, c_fc_, mlp_c_proj_;
  Dropout attn_drop_, mlp_drop_;
};

Gpt2::Gpt2(const Gpt2Options& options)
    : options_(options),
      wte_{{options.vocabulary, options.width}, Init::normal(gpt2_deviation), {}},
      wpe_{{options.context, options.width}, Init::normal(gpt2_deviation), {}},
      head_{{options.vocabulary, options.width}, Init::normal(gpt2_deviation), {}},
      drop_(options.dropout, 0),
      ln_f_(options.width, gpt2_norm_eps) {
  const Gpt2Options& o = options_;
  check(o.vocabulary > 0 && o.context > 0 && o.layers > 0 && o.heads > 0 && o.width > 0 &&
            o.width % o.heads == 0,
        "GPT-2 of {} tokens, {} positions, {} layers and width {} in {} heads: expected at least 1 "
        "of each, and a width that is a multiple of the heads",
        o.vocabulary, o.context, o.layers, o.width, o.heads);
  declare("transformer.wte.weight", wte_);
  declare("transformer.wpe.weight", wpe_);
  for (int64_t i = 0; i < o.layers; ++i) {
    blocks_.push_back(std::make_unique<Block>(o, uint32_t(i)));
    declare(fmt::format("transformer.h.{}", i), *blocks_.back());
  }
  declare("transformer.ln_f", ln_f_);
  if (!o.is_tied) declare("lm_head.weight", head_);
}

Gpt2::~Gpt2() = default;

Tensor Gpt2::states(const TokenRows& rows, const Pass& pass, const KeyValueCachePtr& cache) const {
  const int64_t N = rows.tokens.size(0), T = rows.tokens.size(1), E = options_.width;
  const Tensor tokens = rows.tokens.reshape({N * T}), places = rows.positions.reshape({N * T});
  Tensor x = add(embedding(wte_.tensor, tokens, wte_.compute),
                 embedding(wpe_.tensor, places, wpe_.compute));
  x = drop_(x.reshape({N, T, E}), pass);
  x = run_blocks(std::move(x), pass, blocks_.size(),
                 [=, this, positions = rows.positions](Tensor y, const Pass& inner, size_t block,
                                                       bool ends_segment) {
                   return blocks_[block]->run_on(std::move(y), positions, inner, cache, block,
                                                 ends_segment);
                 });
  return ln_f_(std::move(x), pass);
}

std::string Gpt2::describe() const {
  return fmt::format("GPT-2: {} tokens, {} positions, {} layers of width {} with {} heads",
                     options_.vocabulary, options_.context, options_.layers, options_.width,
                     options_.heads);
}

}  // namespace accrue
