#include "text/tokenizer_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace accrue {

using nlohmann::json;

json byte_level_bpe(json vocabulary, json merges, json added_tokens) {
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", std::move(added_tokens)},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level_step(true)},
          {"post_processor", nullptr},
          {"decoder", byte_level_step(true)},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", std::move(vocabulary)},
            {"merges", std::move(merges)}}}};
}

json added_token(int64_t number, std::string_view content, bool is_special) {
  return {{"id", number},    {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", is_special}};
}

json byte_level_step(bool splits_as_gpt2) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", splits_as_gpt2}};
}

namespace {

json merges_in(std::string_view text) {
  json merges = json::array();
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.starts_with("#version") && !(line.empty() && rest.empty())) merges.push_back(line);
  }
  return merges;
}

}  // namespace

json json_of_gpt2(json vocabulary, std::string_view merges, const json& config) {
  constexpr const char* end_of_text = "<|endoftext|>";
  json added = json::array();
  if (vocabulary.is_object() && vocabulary.contains(end_of_text)) {
    added.push_back(added_token(0, end_of_text, true));
    added.back()["id"] = vocabulary[end_of_text];
  }
  json whole = byte_level_bpe(std::move(vocabulary), merges_in(merges), std::move(added));
  whole["pre_tokenizer"]["add_prefix_space"] =
      config.value("add_prefix_space", json(false)) == true;
  return whole;
}

}  // namespace accrue
