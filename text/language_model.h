#pragma once

#include <vector>

#include "layers/layers.h"

namespace accrue {

// Rows of tokens, i32 [N, T] each: the tokens, and the position of each within its document. A
// token sees the tokens of its document before it, and itself.
struct TokenRows {
  Tensor tokens, positions;
};

// The keys and values of the tokens that a model has read, so that the next one costs the work of
// one token.
class KeyValueCache {
 public:
  // For one row of at most so many tokens.
  explicit KeyValueCache(int64_t most_tokens) : most_tokens_(most_tokens) {}

  // Appends k and v [1, t, ...] of the next tokens to a layer's. Returns all of them so far.
  std::pair<Tensor, Tensor> append(size_t layer, const Tensor& k, const Tensor& v);
  // The number of tokens that are in all layers.
  int64_t tokens() const { return tokens_; }
  void advance(int64_t tokens) { tokens_ += tokens; }

 private:
  std::vector<std::pair<Tensor, Tensor>> layers_;  // [most_tokens, ...] each
  int64_t most_tokens_, tokens_ = 0;
};

// A network that tells the next token from those before.
class LanguageModel : public Module {
 public:
  // What the head reads: the normalised states after the last block, [N, T, E]. With a cache the
  // rows go on from the tokens in it, and are added to it.
  virtual Tensor states(const TokenRows& rows, const Pass& pass,
                        KeyValueCache* cache = nullptr) const = 0;
  // The weight [V, E] by which states become logits.
  virtual const Tensor& head() const = 0;
  // The most tokens that a document may have; 0: any number.
  virtual int64_t context() const = 0;

  // The logits [N * T, V] of rows [N, T] that are a document each.
  Tensor forward(Tensor tokens, const Pass& pass) const override;
};

// i32 [N, T], 0, 1, ... in each row.
Tensor positions_of(const Tensor& tokens);

// y = x w^T + b as Linear, or with Transpose::no y = x w + b, w [in, out], as GPT-2 has its
// weights. Drawn from N(0, deviation); a bias begins with 0.
class Projection : public Module {
 public:
  Projection(int64_t in, int64_t out, double deviation, Bias bias,
             Transpose layout = Transpose::yes);
  // x [..., in], y [..., out].
  Tensor forward(Tensor x, const Pass&) const override;
  std::string describe() const override;

 private:
  const int64_t in_, out_;
  const Transpose layout_;
  Parameter weight_, bias_;
};

}  // namespace accrue
