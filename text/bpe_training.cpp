#include "text/bpe_training.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <queue>
#include <utility>
#include <vector>

#include "core/error.h"
#include "text/tokenizer_file.h"
#include "text/utf8.h"
#include "text/word_splitter.h"

namespace accrue {
namespace {

constexpr int64_t bytes_and_end = 257;
constexpr const char* end_token = "<|endoftext|>";

class Learner {
 public:
  explicit Learner(const WordCounts& words);

  void learn(size_t most_tokens);

  // The spellings of the tokens, by number.
  const std::vector<std::string>& tokens() const { return tokens_; }
  const std::vector<std::pair<int32_t, int32_t>>& merges() const { return merges_; }

 private:
  struct Word {
    std::vector<int32_t> tokens;
    int64_t count;
  };
  struct Pair {
    int64_t count = 0;
    std::vector<uint32_t> words;  // words that contain the pair, and some that no longer do
  };
  // A pair that may be merged next. The count may be outdated.
  struct Candidate {
    int64_t count;
    uint64_t pair;

    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  static uint64_t pair_of(int32_t left, int32_t right) {
    return uint64_t{uint32_t(left)} << 32 | uint32_t(right);
  }
  int32_t token_spelled(const std::string& spelling);
  void add(int32_t left, int32_t right, uint32_t word);
  void take_away(int32_t left, int32_t right, uint32_t word);
  void merge(uint64_t pair);
  void merge_in(uint32_t word, int32_t left, int32_t right, int32_t merged);

  std::vector<std::string> tokens_;
  std::unordered_map<std::string, int32_t> numbers_;
  std::vector<std::pair<int32_t, int32_t>> merges_;
  std::vector<Word> words_;
  std::unordered_map<uint64_t, Pair> pairs_;
  std::priority_queue<Candidate> candidates_;
  std::vector<uint64_t> grown_;  // pairs whose count the current merge increased
};

Learner::Learner(const WordCounts& words) {
  // Bytes have the order of the characters that spell them, as in GPT-2's vocabulary.
  for (int byte = 0; byte < 256; ++byte)
    tokens_.push_back(spelling_of(std::string(1, static_cast<char>(byte))));
  std::ranges::sort(tokens_);
  std::array<int32_t, 256> of_bytes;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    of_bytes[static_cast<unsigned char>(bytes_spelled(tokens_[i])->front())] =
        static_cast<int32_t>(i);
    numbers_[tokens_[i]] = static_cast<int32_t>(i);
  }
  for (const auto& [text, count] : words.counts()) {
    std::vector<int32_t> tokens;
    for (const char byte : text) tokens.push_back(of_bytes[static_cast<unsigned char>(byte)]);
    const auto word = static_cast<uint32_t>(words_.size());
    words_.push_back({std::move(tokens), count});
    const auto& added = words_.back().tokens;
    for (size_t i = 0; i + 1 < added.size(); ++i) add(added[i], added[i + 1], word);
  }
  grown_.clear();
  for (const auto& [pair, found] : pairs_) candidates_.push({found.count, pair});
}

void Learner::add(int32_t left, int32_t right, uint32_t word) {
  const uint64_t pair = pair_of(left, right);
  Pair& found = pairs_[pair];
  found.count += words_[word].count;
  if (found.words.empty() || found.words.back() != word) found.words.push_back(word);
  grown_.push_back(pair);
}

void Learner::take_away(int32_t left, int32_t right, uint32_t word) {
  // The pair that is being merged has been removed already.
  const auto found = pairs_.find(pair_of(left, right));
  if (found != pairs_.end()) found->second.count -= words_[word].count;
}

int32_t Learner::token_spelled(const std::string& spelling) {
  const auto [number, is_new] =
      numbers_.try_emplace(spelling, static_cast<int32_t>(tokens_.size()));
  if (is_new) tokens_.push_back(spelling);
  return number->second;
}

void Learner::learn(size_t most_tokens) {
  while (tokens_.size() < most_tokens && !candidates_.empty()) {
    const Candidate top = candidates_.top();
    candidates_.pop();
    const auto found = pairs_.find(top.pair);
    if (found == pairs_.end()) continue;
    if (found->second.count == top.count) merge(top.pair);
    else if (found->second.count > 0) candidates_.push({found->second.count, top.pair});
  }
}

void Learner::merge(uint64_t pair) {
  const auto left = static_cast<int32_t>(pair >> 32),
             right = static_cast<int32_t>(pair & UINT32_MAX);
  // If another pair has produced this spelling before, the token is the same.
  const int32_t merged = token_spelled(tokens_[size_t(left)] + tokens_[size_t(right)]);
  merges_.emplace_back(left, right);
  const std::vector<uint32_t> words = std::move(pairs_.extract(pair).mapped().words);
  grown_.clear();
  for (const uint32_t word : words) merge_in(word, left, right, merged);
  std::ranges::sort(grown_);
  grown_.erase(std::unique(grown_.begin(), grown_.end()), grown_.end());
  for (const uint64_t each : grown_)
    if (const int64_t count = pairs_[each].count; count > 0) candidates_.push({count, each});
}

void Learner::merge_in(uint32_t word, int32_t left, int32_t right, int32_t merged) {
  auto& tokens = words_[word].tokens;
  size_t kept = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] != left || i + 1 == tokens.size() || tokens[i + 1] != right) {
      tokens[kept++] = tokens[i];
      continue;
    }
    if (kept > 0) {
      take_away(tokens[kept - 1], left, word);
      add(tokens[kept - 1], merged, word);
    }
    if (i + 2 < tokens.size()) {
      take_away(right, tokens[i + 2], word);
      add(merged, tokens[i + 2], word);
    }
    tokens[kept++] = merged;
    ++i;
  }
  tokens.resize(kept);
}

}  // namespace

namespace {

const WordSplitter& gpt2_splitter() {
  static const WordSplitter splitter = [] {
    std::vector<WordSplitter::Step> steps;
    steps.push_back({.pattern = Regex(gpt2_pattern)});
    return WordSplitter(std::move(steps));
  }();
  return splitter;
}

}  // namespace

void WordCounts::add(std::string_view text) {
  Matcher matcher;
  gpt2_splitter().split(text, TextPlace::begins, matcher,
                        [&](std::string_view word) { ++counts_[std::string(word)]; });
}

size_t WordCounts::add_beginning(std::string_view text) {
  Matcher matcher;
  return gpt2_splitter().split_beginning(
      text, TextPlace::begins, matcher,
      [&](std::string_view word) { ++counts_[std::string(word)]; });
}

std::string detail::train_bpe(const WordCounts& words, int64_t vocabulary_size) {
  check(vocabulary_size >= bytes_and_end && vocabulary_size < INT32_MAX,
        "a vocabulary of {} tokens: expected at least {}, for each byte and for the end of a text",
        vocabulary_size, bytes_and_end);
  using nlohmann::json;
  Learner learner(words);
  learner.learn(static_cast<size_t>(vocabulary_size) - 1);
  json vocabulary = json::object(), merges = json::array();
  for (const std::string& token : learner.tokens()) vocabulary[token] = vocabulary.size();
  for (const auto& [left, right] : learner.merges())
    merges.push_back(learner.tokens()[size_t(left)] + " " + learner.tokens()[size_t(right)]);
  const size_t end = vocabulary.size();
  vocabulary[end_token] = end;
  return byte_level_bpe(std::move(vocabulary), std::move(merges),
                        json::array({added_token(static_cast<int64_t>(end), end_token, true)}))
      .dump(1);
}

}  // namespace accrue
