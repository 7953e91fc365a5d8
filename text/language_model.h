#pragma once

#include <memory>
#include <vector>

#include "kernels/causal_attention.h"
#include "layers/layers.h"

namespace accrue {

struct LoraOptions;

// Rows of tokens, i32 [N, T] each: the tokens, and the position of each within its document. A
// token attends to itself and to the earlier tokens of its document.
struct TokenRows {
  Tensor tokens, positions;
};

namespace detail {

// The keys and values of a row's tokens in every layer. They let a row be computed in pieces: a
// piece reads the keys and values of earlier pieces, whose other activations may be discarded.
class KeyValueCache {
 public:
  // For one row of this many tokens.
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

// A network that predicts the next token from the tokens before it.
class LanguageModel : public Layer {
 public:
  // Casts the network to this type; null if it has another type. Functions that accept networks of
  // any type, such as objectives, call it.
  static const LanguageModel* in(const Layer& network);
  // The same, but throws Error if the network has another type.
  static const LanguageModel& of(const Layer& network);

  // The input of the head: the normalized states after the last block, [N, T, E]. With a cache,
  // `rows` is a piece of one row that begins at token pass.begin. The piece reads the earlier
  // tokens' keys and values from the cache and adds its own.
  virtual Tensor states(const TokenRows& rows, const Pass& pass,
                        const detail::KeyValueCachePtr& cache = nullptr) const = 0;
  // The weight [V, E] that turns states into logits.
  virtual const Tensor& head() const = 0;
  // The maximum number of tokens of a document; 0: no limit.
  virtual int64_t context() const = 0;

  // The logits [N * T, V] of rows [N, T], each of which is one document.
  Tensor forward(Tensor tokens, const Pass& pass) const override;
};

namespace detail {

// i32 [N, T], 0, 1, ... in each row.
Tensor positions_of(const Tensor& tokens);

// y = x w^T + b like Linear, or, with Transpose::no, y = x w + b with w [in, out] as in GPT-2. The
// weight is drawn from N(0, deviation), and the bias begins with 0. An adapter (text/lora.h) may
// add to y.
class Projection : public Layer {
 public:
  Projection(int64_t in, int64_t out, double deviation, Bias bias,
             Transpose layout = Transpose::yes);
  ~Projection() override;
  // x [N, ..., in], y [N, ..., out].
  Tensor forward(Tensor x, const Pass& pass) const override;
  // gelu_tanh(y).
  Tensor gelu(Tensor x, const Pass& pass) const;
  // a + y, a [N, ..., out], which the product adds on cuda (add_linear()).
  Tensor add_to(Tensor a, Tensor x, const Pass& pass) const;
  std::string describe() const override;
  bool is_random() const override;

  // Declares lora_A.weight and lora_B.weight; call it before place(). `dropout_layer` distinguishes
  // its dropout from other dropouts of the model.
  void add_adapter(const LoraOptions& options, uint32_t dropout_layer);
  // Adds the adapter to the weight and sets lora_B to 0, which leaves y unchanged. Does nothing
  // without an adapter.
  void merge_adapter();

 private:
  struct Adapter;
  // y, added to a if it is defined.
  Tensor compute(Tensor a, Tensor x, const Pass& pass) const;

  const int64_t in_, out_;
  const Transpose layout_;
  Parameter weight_, bias_;
  std::unique_ptr<Adapter> adapter_;
};

}  // namespace detail

}  // namespace accrue
