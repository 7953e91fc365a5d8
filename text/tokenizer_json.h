#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace accrue {

// The tokenizer.json of a byte-level BPE, as Hugging Face's `tokenizers` writes them: without a
// normalizer, and with GPT-2's words.
nlohmann::json byte_level_bpe(nlohmann::json vocabulary, nlohmann::json merges,
                              nlohmann::json added_tokens);

// The same of GPT-2's own files, which say nothing of how a text is split: the vocabulary of
// vocab.json or encoder.json and the lines of merges.txt or vocab.bpe, with the
// tokenizer_config.json beside them.
nlohmann::json json_of_gpt2(nlohmann::json vocabulary, std::string_view merges,
                            const nlohmann::json& config);

// One of its added tokens, and the step that spells bytes as letters, at first splitting a text
// into GPT-2's words if asked to.
nlohmann::json added_token(int64_t number, std::string_view content, bool is_special);
nlohmann::json byte_level_step(bool splits_as_gpt2);

}  // namespace accrue
