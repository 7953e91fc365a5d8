#include "text/llama.h"

#include "core/inside.h"
#include "kernels/causal_attention.h"
#include "kernels/embedding.h"
#include "kernels/swiglu.h"

namespace accrue {
namespace {

constexpr double llama_deviation = 0.02;

// Computes the options that are left open, and checks all.
LlamaOptions completed(LlamaOptions o) {
  if (o.head_size == 0) o.head_size = o.heads > 0 ? o.width / o.heads : 0;
  check(
      o.vocabulary > 0 && o.width > 0 && o.hidden > 0 && o.layers > 0 && o.heads > 0 &&
          o.groups > 0 && o.heads % o.groups == 0 && o.head_size > 0 && o.head_size % 2 == 0,
      "Llama of {} tokens, {} layers of width {} and {}, {} heads of {} in {} groups: expected at "
      "least 1 of each, heads of an even size, and a multiple of the groups of them",
      o.vocabulary, o.layers, o.width, o.hidden, o.heads, o.head_size, o.groups);
  return o;
}

Bias bias_of(const LlamaOptions& o) { return o.has_bias ? Bias::learned : Bias::none; }

std::vector<double> frequencies_of(const LlamaOptions& o) {
  auto frequencies = rotary_frequencies(o.head_size, o.rotary.base);
  if (o.rotary.llama3) frequencies = scale_as_llama3(std::move(frequencies), *o.rotary.llama3);
  return scale_linearly(std::move(frequencies), o.rotary.linear_factor);
}

}  // namespace

class Llama::Block : public Module {
 public:
  explicit Block(const LlamaOptions& o)
      : heads_{o.heads, o.groups, o.head_size},
        rotary_{o.head_size, frequencies_of(o), RotaryLayout::halves},
        input_layernorm_(o.width, o.norm_eps),
        post_attention_layernorm_(o.width, o.norm_eps),
        q_proj_(o.width, o.heads * o.head_size, llama_deviation, bias_of(o)),
        k_proj_(o.width, o.groups * o.head_size, llama_deviation, bias_of(o)),
        v_proj_(o.width, o.groups * o.head_size, llama_deviation, bias_of(o)),
        o_proj_(o.heads * o.head_size, o.width, llama_deviation, Bias::none),
        gate_proj_(o.width, o.hidden, llama_deviation, Bias::none),
        up_proj_(o.width, o.hidden, llama_deviation, Bias::none),
        down_proj_(o.hidden, o.width, llama_deviation, Bias::none) {
    declare("self_attn.q_proj", q_proj_);
    declare("self_attn.k_proj", k_proj_);
    declare("self_attn.v_proj", v_proj_);
    declare("self_attn.o_proj", o_proj_);
    declare("mlp.gate_proj", gate_proj_);
    declare("mlp.up_proj", up_proj_);
    declare("mlp.down_proj", down_proj_);
    declare("input_layernorm", input_layernorm_);
    declare("post_attention_layernorm", post_attention_layernorm_);
  }

  // x [N, T, E]. `number` is the layer of this block in the cache. `ends_segment` marks the last
  // block of a segment.
  Tensor run_on(Tensor x, const Tensor& positions, const Pass& pass, const KeyValueCachePtr& cache,
                size_t number, bool ends_segment) const {
    const Shape shape = x.shape();
    return run(shape, pass, [&] {
      Tensor y = attend(input_layernorm_(x, pass), positions, pass, cache, number);
      x = o_proj_.add_to(std::move(x), std::move(y), pass);
      const Tensor h = post_attention_layernorm_(x, pass);
      Tensor g = swiglu(gate_proj_(h, pass), up_proj_(h, pass));
      const SegmentEnd end(ends_segment);
      return down_proj_.add_to(std::move(x), std::move(g), pass);
    });
  }
  std::string describe() const override {
    return fmt::format("block of {} heads in {} groups", heads_.queries, heads_.groups);
  }

 private:
  Tensor attend(const Tensor& h, const Tensor& positions, const Pass& pass,
                const KeyValueCachePtr& cache, size_t number) const {
    const Tensor q = rotary(q_proj_(h, pass), rotary_, positions);
    const Tensor k = rotary(k_proj_(h, pass), rotary_, positions), v = v_proj_(h, pass);
    if (cache)
      return causal_attention(q, k, v, heads_, positions, {cache->layer(number), pass.begin});
    return causal_attention(q, k, v, heads_, positions);
  }

  const AttentionHeads heads_;
  const Rotary rotary_;
  RmsNorm input_layernorm_, post_attention_layernorm_;
  Projection q_proj_, k_proj_, v_proj_, o_proj_, gate_proj_, up_proj_, down_proj_;
};

Llama::Llama(const LlamaOptions& options)
    : options_(completed(options)),
      embedding_{{options.vocabulary, options.width}, Init::normal(llama_deviation), {}},
      head_{{options.vocabulary, options.width}, Init::normal(llama_deviation), {}},
      norm_(options.width, options.norm_eps) {
  declare("model.embed_tokens.weight", embedding_);
  for (int64_t i = 0; i < options_.layers; ++i) {
    blocks_.push_back(std::make_unique<Block>(options_));
    declare(fmt::format("model.layers.{}", i), *blocks_.back());
  }
  declare("model.norm", norm_);
  if (!options_.is_tied) declare("lm_head.weight", head_);
}

Llama::~Llama() = default;

Tensor Llama::states(const TokenRows& rows, const Pass& pass, const KeyValueCachePtr& cache) const {
  const int64_t N = rows.tokens.size(0), T = rows.tokens.size(1);
  Tensor x = embedding(embedding_.tensor, rows.tokens.reshape({N * T}), embedding_.compute);
  x = run_blocks(x.reshape({N, T, options_.width}), pass, blocks_.size(),
                 [=, this, positions = rows.positions](Tensor y, const Pass& inner, size_t block,
                                                       bool ends_segment) {
                   return blocks_[block]->run_on(std::move(y), positions, inner, cache, block,
                                                 ends_segment);
                 });
  return norm_(std::move(x), pass);
}

std::string Llama::describe() const {
  return fmt::format("Llama: {} tokens, {} layers of width {} and {}, {} heads of {} in {} groups",
                     options_.vocabulary, options_.layers, options_.width, options_.hidden,
                     options_.heads, options_.head_size, options_.groups);
}

}  // namespace accrue
