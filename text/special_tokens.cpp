#include "text/special_tokens.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "data/strict_json.h"

namespace accrue {
namespace {

using nlohmann::json;

// The order in which transformers adds them.
constexpr std::array usual_names{"bos_token", "eos_token", "unk_token", "sep_token",
                                 "pad_token", "cls_token", "mask_token"};

bool has_decoder(const FilesBesideTokenizer& beside) {
  return beside.config.contains("added_tokens_decoder");
}

// The spelling of a token, which is a text or an object; empty for other values.
std::string spelling_of(const json& token) {
  const json content = token.is_object() ? token.value("content", json()) : token;
  return content.is_string() ? content.get<std::string>() : "";
}

// A token in the format of tokenizer.json, without a number.
json as_added(const json& token, bool is_special, bool is_normalized) {
  json added{{"content", spelling_of(token)},
             {"single_word", false},
             {"lstrip", false},
             {"rstrip", false},
             {"normalized", is_normalized}};
  if (token.is_object())
    for (const char* const flag : {"single_word", "lstrip", "rstrip", "normalized"})
      if (token.contains(flag)) added[flag] = token[flag];
  added["special"] = is_special;
  return added;
}

// The special tokens that have names, as texts or objects.
json named_tokens(const FilesBesideTokenizer& beside) {
  json named = json::object();
  const auto take = [&](const json& from) {
    for (const auto& [name, token] : from.items())
      if (name.ends_with("_token") && !spelling_of(token).empty()) named[name] = token;
  };
  take(beside.config);
  const json extra = beside.config.value("extra_special_tokens", json());
  if (extra.is_object()) take(extra);
  if (!has_decoder(beside)) take(beside.special_map);
  return named;
}

// The special tokens without names, in order.
std::vector<json> nameless_tokens(const FilesBesideTokenizer& beside) {
  std::vector<json> tokens;
  const auto take = [&](const json& from, const char* name) {
    const json list = from.value(name, json());
    for (const json& token : list.is_array() ? list : json::array())
      if (!spelling_of(token).empty()) tokens.push_back(token);
  };
  take(beside.config, "extra_special_tokens");
  if (tokens.empty()) take(beside.config, "additional_special_tokens");
  if (has_decoder(beside)) return tokens;
  const bool is_first = tokens.empty();
  take(beside.special_map, "extra_special_tokens");
  if (is_first && tokens.empty()) take(beside.special_map, "additional_special_tokens");
  return tokens;
}

// Adds tokens to a tokenizer.json in the same way as `tokenizers`.
class AddedList {
 public:
  AddedList(json& tokenizer, const std::string& name)
      : list_(tokenizer["added_tokens"]), name_(name) {
    const json& model = tokenizer.at("model");
    if (model.contains("vocab") && model["vocab"].is_object()) vocabulary_ = &model["vocab"];
    next_ = vocabulary_ ? std::ssize(*vocabulary_) : 0;
    for (const json& token : list_)
      if (const json id = token.is_object() ? token.value("id", json()) : json();
          id.is_number_unsigned() && id < INT32_MAX)
        next_ = std::max(next_, id.get<int64_t>() + 1);
  }

  bool has(const std::string& spelling) const { return find(spelling) != list_.end(); }
  bool is_new(const std::string& spelling) const {
    return !has(spelling) && !(vocabulary_ && vocabulary_->contains(spelling));
  }

  // Adds a token, or changes the flags of an existing one. `said` is the number in the files, if
  // any.
  void put(json token, std::optional<int64_t> said = {}) {
    const std::string spelling = token["content"];
    const auto there = find(spelling);
    json id = there != list_.end() ? there->value("id", json()) : json();
    if (there == list_.end() && vocabulary_ && vocabulary_->contains(spelling))
      id = (*vocabulary_)[spelling];
    if (id.is_null()) id = static_cast<uint64_t>(next_++);
    check(!said || id == json(static_cast<uint64_t>(*said)),
          "'{}': a file beside it says that the token '{}' is {}, but it becomes {}: expected it "
          "among the added_tokens of the tokenizer.json",
          name_, spelling, said.value_or(0), id.dump());
    token["id"] = id;
    // As in `tokenizers`, a special token remains special.
    if (there != list_.end() && there->value("special", json(false)) == true)
      token["special"] = true;
    if (there != list_.end()) *there = std::move(token);
    else list_.push_back(std::move(token));
  }

 private:
  json::iterator find(const std::string& spelling) const {
    return std::ranges::find_if(list_, [&](const json& token) {
      return token.is_object() && spelling_of(token) == spelling;
    });
  }

  json& list_;
  const std::string& name_;
  const json* vocabulary_ = nullptr;
  int64_t next_ = 0;
};

// The tokens of added_tokens_decoder, or else of added_tokens.json, by number.
std::map<int64_t, json> numbered_tokens(const FilesBesideTokenizer& beside, const std::string& name,
                                        const json& named, const std::vector<json>& nameless) {
  std::map<int64_t, json> tokens;
  if (has_decoder(beside)) {
    const json& decoder = beside.config["added_tokens_decoder"];
    check(decoder.is_object(), "'{}': added_tokens_decoder is no object", name);
    for (const auto& [number, token] : decoder.items()) {
      int64_t id = -1;
      const char* const end = number.data() + number.size();
      const auto [stop, error] = std::from_chars(number.data(), end, id);
      check(error == std::errc() && stop == end && id >= 0 && !spelling_of(token).empty(),
            "'{}': added_tokens_decoder has '{}': {}, expected a number and a token", name, number,
            token.dump());
      const json special = token.is_object() ? token.value("special", json(false)) : json(false);
      tokens[id] = as_added(token, special == true, special != true);
    }
    return tokens;
  }
  const auto is_special = [&](const std::string& spelling) {
    const auto is_it = [&](const json& token) { return spelling_of(token) == spelling; };
    return std::ranges::any_of(named, is_it) || std::ranges::any_of(nameless, is_it);
  };
  for (const auto& [spelling, id] : beside.added.items()) {
    check(id.is_number_unsigned() && !spelling.empty(),
          "'{}': added_tokens.json has '{}': {}, expected a token and its number", name, spelling,
          id.dump());
    tokens[id.get<int64_t>()] = as_added(spelling, is_special(spelling), !is_special(spelling));
  }
  return tokens;
}

}  // namespace

FilesBesideTokenizer files_beside_tokenizer(const std::map<std::string, std::string>& files,
                                            const std::string& name) {
  constexpr int most_levels = 32;
  constexpr int64_t most_elements = int64_t{1} << 20;
  const auto object = [&](const char* file) {
    const auto found = files.find(file);
    if (found == files.end()) return json::object();
    json value = parse_strict_json(found->second, most_levels,
                                   fmt::format("{} of '{}'", file, name), most_elements);
    check(value.is_object(), "{} of '{}' is no object", file, name);
    return value;
  };
  return {object("tokenizer_config.json"), object("special_tokens_map.json"),
          object("added_tokens.json")};
}

json special_token_names(const FilesBesideTokenizer& beside) {
  json names = named_tokens(beside);
  for (json& token : names) token = spelling_of(token);
  return names;
}

void add_special_tokens(json& tokenizer, const FilesBesideTokenizer& beside,
                        const std::string& name) {
  check(beside.config.value("split_special_tokens", json(false)) != true,
        "'{}' is to split special tokens (split_special_tokens of tokenizer_config.json), which "
        "would leave chats without marks: expected false; texts may be kept from making them "
        "(text-may-contain-control no)",
        name);
  if (!tokenizer.is_object() || !tokenizer.contains("model") || !tokenizer["model"].is_object() ||
      !tokenizer.value("added_tokens", json::array()).is_array())
    return;  // its reader will refuse it
  if (!tokenizer.contains("added_tokens")) tokenizer["added_tokens"] = json::array();
  json named = named_tokens(beside);
  const std::vector<json> nameless = nameless_tokens(beside);
  AddedList list(tokenizer, name);
  for (const auto& [id, token] : numbered_tokens(beside, name, named, nameless)) {
    // An entry of tokenizer.json takes precedence over added_tokens.json.
    if (has_decoder(beside) || !list.has(token["content"])) list.put(token, id);
  }
  const auto put_special = [&](const json& token) {
    if (!list.has(spelling_of(token))) list.put(as_added(token, true, false));
  };
  for (const char* const usual : usual_names) {
    if (!named.contains(usual)) continue;
    put_special(named[usual]);
    named.erase(usual);
  }
  std::vector<std::string> without_order;
  for (const json& token : named)
    if (list.is_new(spelling_of(token))) without_order.push_back(spelling_of(token));
  check(without_order.size() <= 1,
        "'{}': files beside it name '{}' and '{}', which have no numbers: expected them among the "
        "added_tokens of the tokenizer.json",
        name, without_order.empty() ? "" : without_order[0],
        without_order.size() < 2 ? "" : without_order[1]);
  for (const json& token : named) put_special(token);
  for (const json& token : nameless) put_special(token);
}

}  // namespace accrue
