#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "text/sentencepiece.h"
#include "text/special_tokens.h"

namespace accrue {

// Parses the contents of a tokenizer.model of SentencePiece (sentencepiece_model.proto), with the
// settings of the files beside it: eos_token, add_bos_token (true by default, as for Llamas) and
// add_eos_token. Special tokens that are not pieces are added. Errors call the file `name`. Throws
// Error if it is not such a file, or if the model has another type than BPE, normalizes texts, or
// removes spaces. Also throws Error for pieces that end in their space, and for tokens of the files
// beside it that take spaces, or are neither pieces nor special.
SentencePieces read_sentencepiece_model(std::string_view bytes, const FilesBesideTokenizer& beside,
                                        const std::string& name);

// True if transformers made this tokenizer.json from a tokenizer.model: it has pieces for bytes,
// and no byte-level words.
bool is_of_sentencepiece(const nlohmann::json& tokenizer);

}  // namespace accrue
