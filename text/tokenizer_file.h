#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "core/inside.h"
#include "text/tokenizer.h"

namespace accrue {

// Reads a tokenizer from one of the following files, or from a directory that contains it:
//     tokenizer.json           a byte-level byte-pair encoding (BPE), as Hugging Face's library
//                              `tokenizers` writes it
//     vocab.bpe, encoder.json  GPT-2's files, also under the names merges.txt and vocab.json
//     tokenizer.gguf           see read_gguf_tokenizer()
//     tokenizer.model          of SentencePiece (text/sentencepiece_model.h); takes precedence
//                              over a tokenizer.json that is made from it
// encode() returns the same tokens as `tokenizers` without add_special_tokens: tokens such as
// <|endoftext|> are recognized in the text, none is added, and nothing is truncated or padded.
// before_text() and after_text() are the tokens that the post_processor's template adds to a single
// text. As in transformers 5, add_bos_token in a tokenizer_config.json beside a tokenizer.json has
// no effect.
// A byte without a token in the vocabulary becomes the unk_token, or nothing if there is none. Each
// byte that is not UTF-8 is encoded by itself; `tokenizers` has no rule for such bytes. PCRE2's
// version of Unicode decides which characters are letters, numbers and spaces. The files beside the
// tokenizer may name more special and added tokens (text/special_tokens.h). end_of_text() is their
// eos_token, or else <|endoftext|>; it throws Error if there is none.
// Throws Error, which names the file, if the file is damaged or asks for an unsupported feature.
// Unsupported are other kinds of models, normalizers other than NFC, steps that split other than by
// Split, Digits and ByteLevel, and regular expressions beyond text/regex.h.
TokenizerPtr read_tokenizer(const std::filesystem::path& path);
// Makes a tokenizer from the contents of a tokenizer.json and of a tokenizer_config.json. Error
// messages call them `what`.
TokenizerPtr parse_tokenizer(const std::string& json, const std::string& what,
                             const std::string& config = "{}");

// A tokenizer.json for a byte-level BPE, in the format of Hugging Face's `tokenizers`, without a
// normalizer and with GPT-2's splitting into words.
nlohmann::json byte_level_bpe(nlohmann::json vocabulary, nlohmann::json merges,
                              nlohmann::json added_tokens);

// The same from GPT-2's own files, which do not say how to split a text: the vocabulary of
// vocab.json or encoder.json, the lines of merges.txt or vocab.bpe, and the tokenizer_config.json
// beside them.
nlohmann::json json_of_gpt2(nlohmann::json vocabulary, std::string_view merges,
                            const nlohmann::json& config);

// The parts of such a tokenizer.json: an added token, and the step that spells bytes as letters,
// which splits a text into GPT-2's words first if asked to.
nlohmann::json added_token(int64_t number, std::string_view content, bool is_special);
nlohmann::json byte_level_step(bool splits_as_gpt2);

}  // namespace accrue
