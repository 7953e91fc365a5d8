#pragma once

#include <memory>
#include <vector>

#include "kernels/causal_attention.h"
#include "layers/layers.h"

namespace accrue {

struct LoraOptions;

// Rows of tokens, i32 [N, T] each: the tokens, and the position of each within its document. A
// token sees the tokens of its document before it, and itself.
struct TokenRows {
  Tensor tokens, positions;
};

namespace detail {

// The keys and values of a row's tokens in every layer. A piece of the row reads those of the
// pieces before it, whose other activations are then of no more use.
class KeyValueCache {
 public:
  // For one row of so many tokens.
  explicit KeyValueCache(int64_t tokens) : tokens_(tokens) {}

  const std::shared_ptr<KeysAndValues>& layer(size_t number) {
    while (layers_.size() <= number)
      layers_.push_back(std::make_shared<KeysAndValues>(KeysAndValues{tokens_}));
    return layers_[number];
  }

 private:
  std::vector<std::shared_ptr<KeysAndValues>> layers_;
  int64_t tokens_;
};
using KeyValueCachePtr = std::shared_ptr<KeyValueCache>;

}  // namespace detail

// A network that tells the next token from those before.
class LanguageModel : public Layer {
 public:
  // The network as one; null if it is of another type. All that is given networks of any type, as
  // objectives are, asks here.
  static const LanguageModel* in(const Layer& network);
  // Throws Error if it is of another type.
  static const LanguageModel& of(const Layer& network);

  // What the head reads: the normalised states after the last block, [N, T, E]. With a cache `rows`
  // is a piece of one row, its tokens from pass.begin on; those before it are in the cache, and it
  // joins them.
  virtual Tensor states(const TokenRows& rows, const Pass& pass,
                        const detail::KeyValueCachePtr& cache = nullptr) const = 0;
  // The weight [V, E] by which states become logits.
  virtual const Tensor& head() const = 0;
  // The most tokens that a document may have; 0: any number.
  virtual int64_t context() const = 0;

  // The logits [N * T, V] of rows [N, T] that are a document each.
  Tensor forward(Tensor tokens, const Pass& pass) const override;
};

namespace detail {

// i32 [N, T], 0, 1, ... in each row.
Tensor positions_of(const Tensor& tokens);

// y = x w^T + b as Linear, or with Transpose::no y = x w + b, w [in, out], as GPT-2 has its
// weights. Drawn from N(0, deviation); a bias begins with 0. An adapter (text/lora.h) adds to it.
class Projection : public Layer {
 public:
  Projection(int64_t in, int64_t out, double deviation, Bias bias,
             Transpose layout = Transpose::yes);
  ~Projection() override;
  // x [N, ..., in], y [N, ..., out].
  Tensor forward(Tensor x, const Pass& pass) const override;
  std::string describe() const override;
  bool is_random() const override;

  // Declares lora_A.weight and lora_B.weight, before place(). `dropout_layer` tells its dropout
  // from others of the model.
  void add_adapter(const LoraOptions& options, uint32_t dropout_layer);
  // Adds the adapter to the weight and makes lora_B 0: y stays. Does nothing without an adapter.
  void merge_adapter();

 private:
  struct Adapter;
  const int64_t in_, out_;
  const Transpose layout_;
  Parameter weight_, bias_;
  std::unique_ptr<Adapter> adapter_;
};

}  // namespace detail

}  // namespace accrue
