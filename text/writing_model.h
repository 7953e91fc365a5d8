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

// A language model that writes: that of a request's weights (Request::init), of its base, or of
// both, with its tokenizer. Nothing is said of a device that was chosen.
class WritingModel {
 public:
  // By the model's own tokenizer if `tokenizer` is empty. Throws Error for weights of another kind,
  // and for a tokenizer that is not theirs.
  WritingModel(const Request& request, const std::string& tokenizer, const Notices& notices);

  const TokenizerFiles& tokenizer() const { return tokenizer_; }
  const std::string& tokenizer_name() const { return place_; }
  const Generation& generation() const { return generation_; }
  // What it is called in messages.
  const std::string& name() const { return name_; }

  // Throws Error where a model has no positions for so many tokens, and warns of more than it is
  // made for, once. `what` they are: "3 tokens and --tokens 20".
  void check_room(int64_t tokens, const std::string& what);
  // The positions that it has; 0: any number.
  int64_t positions() const { return model().context(); }

  // Goes on from tokens as TextWriter does, in the pieces of text that each token adds, until one
  // of generation().ends, the tokenizer's, or of `ends`, or until take() returns false. Returns
  // true if the end came before so many tokens.
  bool go_on(const std::vector<int32_t>& prompt, int64_t tokens, Sampling sampling,
             const std::set<int32_t>& ends, const std::function<bool(const std::string&)>& take);
  // The same from a text, which `take` is given first; an empty one is the end of another text.
  // Throws as check_room() does.
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
