#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "core/inside.h"
#include "text/tokenizer.h"

namespace accrue {

// Reads a byte-level byte-pair encoding (BPE) from a file tokenizer.json as Hugging Face's library
// `tokenizers` writes it, or from a directory that holds one, or GPT-2's vocab.bpe and
// encoder.json, or the same as merges.txt and vocab.json, or the tokenizer.gguf of
// read_gguf_tokenizer(), or a tokenizer.model of SentencePiece (text/sentencepiece_model.h), which
// goes before a tokenizer.json that is made of it. encode() gives the tokens that `tokenizers`
// gives without add_special_tokens: tokens such as <|endoftext|> are recognised in the text, none
// is added to it, and nothing is cut off or padded. What the post_processor's template puts before
// and after a single text are before_text() and after_text(); as in transformers 5, add_bos_token
// of a tokenizer_config.json beside a tokenizer.json changes nothing. A byte for which the
// vocabulary has no token becomes its unk_token, or nothing if it has none. Each byte that is not
// UTF-8, for which `tokenizers` has no rule, is encoded by itself. What a letter, a number or a
// space is, PCRE2 says, by its version of Unicode. Special and added tokens are also those that the
// files beside it name (text/special_tokens.h). end_of_text() is the eos_token of these, or else
// <|endoftext|>; it throws Error if there is none. Throws Error, naming the file, for one that is
// damaged, and for what tokenizer.json may ask for and is not supported: another kind of model,
// normalizers, steps that split other than by Split, Digits and ByteLevel, and what accrue's
// expressions lack (text/regex.h).
TokenizerPtr read_tokenizer(const std::filesystem::path& path);
// Makes a tokenizer of the contents of a tokenizer.json and of a tokenizer_config.json, which
// errors call `what`.
TokenizerPtr parse_tokenizer(const std::string& json, const std::string& what,
                             const std::string& config = "{}");

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
