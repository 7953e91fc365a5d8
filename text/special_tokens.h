#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "core/inside.h"

namespace accrue {

// The contents of the files that lie beside a tokenizer.json; empty objects for those that do not.
struct FilesBesideTokenizer {
  nlohmann::json config = nlohmann::json::object();       // tokenizer_config.json
  nlohmann::json special_map = nlohmann::json::object();  // special_tokens_map.json
  nlohmann::json added = nlohmann::json::object();        // added_tokens.json
};

// Reads them from a tokenizer's files by their names; errors call these files those of `name`.
FilesBesideTokenizer files_beside_tokenizer(const std::map<std::string, std::string>& files,
                                            const std::string& name);

// The spellings of the special tokens that these files name, by names such as "eos_token", as
// transformers 5 reads them: special_tokens_map.json goes before tokenizer_config.json unless that
// has added_tokens_decoder.
nlohmann::json special_token_names(const FilesBesideTokenizer& beside);

// Adds to the added_tokens of a tokenizer.json those that the files beside it name, as
// PreTrainedTokenizerFast of transformers 5 does: those of added_tokens_decoder, or else of
// added_tokens.json, in the place of what tokenizer.json says of them; then special tokens by name,
// and extra_special_tokens or additional_special_tokens, which are not there yet. A token that the
// vocabulary has keeps its number, others have the next one. Throws Error, which begins with the
// quoted `name`, for tokens that these files give other numbers, for several new ones without an
// order, and for split_special_tokens.
void add_special_tokens(nlohmann::json& tokenizer, const FilesBesideTokenizer& beside,
                        const std::string& name);

}  // namespace accrue
