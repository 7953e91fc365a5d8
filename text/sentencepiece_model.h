#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "text/sentencepiece.h"
#include "text/special_tokens.h"

namespace accrue {

// The contents of a tokenizer.model, as SentencePiece writes them (sentencepiece_model.proto), with
// what the files beside it say: the eos_token, add_bos_token (true by itself, as for Llamas) and
// add_eos_token. Errors call it `name`. Throws Error for what is no such file, for models other
// than BPE, for those that change a text before (a normalization, spaces that are removed), for
// pieces that end in their space, and for tokens of the files beside it that take spaces, or are no
// pieces and not special; special ones are added.
SentencePieces read_sentencepiece_model(std::string_view bytes, const FilesBesideTokenizer& beside,
                                        const std::string& name);

// True if a tokenizer.json is one that transformers has made of a tokenizer.model: with pieces for
// bytes, and without byte-level words.
bool is_of_sentencepiece(const nlohmann::json& tokenizer);

}  // namespace accrue
