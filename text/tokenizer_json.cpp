#include "text/tokenizer_json.h"

#include <nlohmann/json.hpp>

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

}  // namespace accrue
