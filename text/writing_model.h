#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "job/load_network.h"
#include "job/notices.h"
#include "text/domain.h"
#include "text/sampling.h"
#include "text/tokenizers.h"

namespace accrue {

// A language model that writes text, with its tokenizer. The model comes from a request's weights
// (Request::init), its base, or both. It does not report which device was chosen.
class WritingModel {
 public:
  // Uses the model's own tokenizer if `tokenizer` is empty. Throws Error for weights of another
  // kind, and for a tokenizer that does not match the weights.
  WritingModel(const Request& request, const std::string& tokenizer, const Notices& notices);

  const TokenizerFiles& tokenizer() const { return tokenizer_; }
  const std::string& tokenizer_name() const { return place_; }
  const Generation& generation() const { return generation_; }
  // The name of the model in messages.
  const std::string& name() const { return name_; }

  // Throws Error if the model has no positions for this many tokens. Warns, but only once, if there
  // are more than it is made for. `what` describes the tokens: "3 tokens and --tokens 20".
  void check_room(int64_t tokens, const std::string& what);
  // The number of positions of the model; 0: no limit.
  int64_t positions() const { return model().context(); }

  // Continues a text from tokens as TextWriter does. Passes the text that each token adds to
  // `take`. Ends at a token of generation().ends or `ends`, at the tokenizer's end-of-text token,
  // or when `take` returns false. Returns true if it ended before `tokens` tokens.
  bool go_on(const std::vector<int32_t>& prompt, int64_t tokens, Sampling sampling,
             const std::set<int32_t>& ends, const std::function<bool(const std::string&)>& take);
  // Continues a text, which it passes to `take` first. An empty prompt means that the text begins
  // after the end of another one. Throws Error in the same cases as check_room().
  void write(const std::string& prompt, int64_t tokens, const Sampling& sampling,
             const std::function<void(const std::string&)>& take);

 private:
  const LanguageModel& model() const { return LanguageModel::of(*network_->model); }

  std::string name_, place_;
  TokenizerFiles tokenizer_;
  std::optional<LoadedNetwork> network_;
  Generation generation_;
  std::optional<int64_t> made_for_;
  std::unique_ptr<TextWriter> writer_;
  const Notices notices_;
  bool has_warned_ = false;
};

}  // namespace accrue
