#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "core/inside.h"

namespace accrue {

// The contents of the files that lie beside a tokenizer.json; an empty object for a missing file.
struct FilesBesideTokenizer {
  nlohmann::json config = nlohmann::json::object();       // tokenizer_config.json
  nlohmann::json special_map = nlohmann::json::object();  // special_tokens_map.json
  nlohmann::json added = nlohmann::json::object();        // added_tokens.json
};

// Reads them from a tokenizer's files by their names. Errors attribute the files to `name`.
FilesBesideTokenizer files_beside_tokenizer(const std::map<std::string, std::string>& files,
                                            const std::string& name);

// The spellings of the special tokens that these files name, under names such as "eos_token", as
// transformers 5 reads them: special_tokens_map.json takes precedence over tokenizer_config.json
// unless the latter has added_tokens_decoder.
nlohmann::json special_token_names(const FilesBesideTokenizer& beside);

// Adds the tokens that the files beside a tokenizer.json name to its added_tokens, as
// PreTrainedTokenizerFast of transformers 5 does. The tokens of added_tokens_decoder, or else of
// added_tokens.json, replace the same tokens in tokenizer.json. Named special tokens and
// extra_special_tokens or additional_special_tokens are then added if they are missing. A token in
// the vocabulary keeps its number; other tokens get the next number. Throws Error, which begins
// with the quoted `name`, for tokens to which these files give other numbers, for several new
// tokens without an order, and for split_special_tokens.
void add_special_tokens(nlohmann::json& tokenizer, const FilesBesideTokenizer& beside,
                        const std::string& name);

}  // namespace accrue
