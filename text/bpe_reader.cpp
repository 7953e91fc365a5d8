#include "text/bpe_reader.h"

#include <algorithm>
#include <optional>

#include "text/utf8.h"

namespace accrue {
namespace {

using nlohmann::json;

constexpr int32_t none = BpeDescription::none;
constexpr size_t max_steps = 32;

// True if a field is missing, null, or has this value.
bool is_unset_or(const json& in, const char* name, const json& value) {
  const auto found = in.find(name);
  return found == in.end() || found->is_null() || *found == value;
}

// The type that an object names, for an error message.
std::string type_of(const json& value) {
  const auto found = value.is_object() ? value.find("type") : value.end();
  return value.is_object() && found != value.end() && found->is_string() ? found->get<std::string>()
                                                                         : "of no type";
}

}  // namespace

const json& BpeReader::object(const json& in, const char* name) const {
  const auto found = in.find(name);
  require(found != in.end() && found->is_object(), "has no object '{}'", name);
  return *found;
}

std::string BpeReader::text(const json& in, const char* name) const {
  const auto found = in.is_object() ? in.find(name) : in.end();
  require(in.is_object() && found != in.end() && found->is_string(),
          "has no text '{}' where one was expected", name);
  return found->get<std::string>();
}

bool BpeReader::flag(const json& in, const char* name) const {
  const auto found = in.find(name);
  require(found != in.end() && found->is_boolean(), "has no '{}' that is true or false", name);
  return found->get<bool>();
}

bool BpeReader::flag(const json& in, const char* name, bool otherwise) const {
  return in.contains(name) ? flag(in, name) : otherwise;
}

int64_t BpeReader::number(const json& value, const std::string& of) const {
  require(value.is_number_unsigned() && value.get<uint64_t>() < INT32_MAX,
          "has no number for the token '{}'", of);
  return value.get<int64_t>();
}

void BpeReader::read_tokenizer(const json& tokenizer) {
  require(tokenizer.is_object(), "is not an object");
  read_normalizer(tokenizer.value("normalizer", json()));
  const std::string decoder = type_of(tokenizer.value("decoder", json()));
  require(is_unset_or(tokenizer, "decoder", nullptr) || decoder == "ByteLevel",
          "has the decoder {}: expected ByteLevel", decoder);
  const json added = tokenizer.value("added_tokens", json::array());
  require(added.is_array(), "has no list 'added_tokens'");
  max_tokens_ += static_cast<int64_t>(2 * added.size());
  read_model(object(tokenizer, "model"));
  for (const json& token : added) read_added(token);
  read_post_processor(tokenizer.value("post_processor", json()));
  read_step(object(tokenizer, "pre_tokenizer"));
  require(has_byte_level_, "has a pre_tokenizer without ByteLevel, which is not supported");
}

void BpeReader::read_normalizer(const json& normalizer) {
  if (normalizer.is_null()) return;
  const std::string type = type_of(normalizer);
  const json steps = type == "Sequence" ? normalizer.value("normalizers", json()) : json();
  if (steps.is_array()) {
    for (const json& step : steps) read_normalizer(step);  // at most as deep as a file may nest
    return;
  }
  require(type == "NFC", "has the normalizer {}, which is not supported", type);
  description_.composes = true;
}

void BpeReader::read_post_processor(const json& processor) {
  const std::string type = processor.is_null() ? "ByteLevel" : type_of(processor);
  if (type == "ByteLevel") return;  // affects only offsets
  if (type == "TemplateProcessing") return read_template(processor);
  const json steps = type == "Sequence" ? processor.value("processors", json()) : json();
  require(steps.is_array(), "has the post_processor {}, which is not supported", type);
  for (const json& step : steps) read_post_processor(step);
}

// The template of a single text: special tokens, the text and special tokens.
void BpeReader::read_template(const json& processor) {
  const json parts = processor.value("single", json());
  require(parts.is_array(), "has a post_processor without a list 'single'");
  bool is_behind = false;
  for (const json& part : parts) {
    if (part.is_object() && part.contains("Sequence")) {
      require(!is_behind && text(part["Sequence"], "id") == "A",
              "has a post_processor for a single text that is not one text A");
      is_behind = true;
      continue;
    }
    require(part.is_object() && part.contains("SpecialToken"),
            "has a post_processor with a part that is neither a text nor a special token");
    const std::string name = text(part["SpecialToken"], "id");
    const json& special = object(object(processor, "special_tokens"), name.c_str());
    const json ids = special.value("ids", json());
    require(ids.is_array(), "has a post_processor without a list 'ids' of '{}'", name);
    for (const json& id : ids) {
      const int64_t token = number(id, name);
      require(
          token < std::ssize(description_.tokens) && !description_.tokens[size_t(token)].empty(),
          "has a post_processor with the token {}, which is none", token);
      (is_behind ? description_.after_text : description_.before_text)
          .push_back(static_cast<int32_t>(token));
    }
  }
  require(is_behind, "has a post_processor for a single text that leaves the text out");
}

void BpeReader::check_end_of_texts() const {
  const std::vector<int32_t>& after = description_.after_text;
  require(after.empty() || after == std::vector{description_.end_of_text},
          "puts other tokens after a text (post_processor) than the one that ends texts here: "
          "expected its eos_token alone");
}

void BpeReader::read_model(const json& model) {
  const std::string type = model.contains("type") ? text(model, "type") : "BPE";
  require(type == "BPE", "has a model {}: expected BPE", type);
  for (const char* const name : {"continuing_subword_prefix", "end_of_word_suffix"})
    require(is_unset_or(model, name, ""), "sets {}, which is not supported", name);
  require(is_unset_or(model, "dropout", 0.), "sets dropout, which is not supported");
  require(is_unset_or(model, "byte_fallback", false), "sets byte_fallback, which is not supported");
  read_vocabulary(object(model, "vocab"));
  const auto merges = model.find("merges");
  require(merges != model.end() && merges->is_array(), "has no list 'merges'");
  for (const json& merge : *merges) {
    if (merge.is_string()) {
      add_merge(merge.get_ref<const std::string&>());
    } else {
      require(merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string(),
              "has a merge that is no pair of texts");
      add_merge(merge[0].get<std::string>(), merge[1].get<std::string>());
    }
  }
  if (!is_unset_or(model, "unk_token", nullptr)) {
    const auto unknown = vocabulary_.find(text(model, "unk_token"));
    require(unknown != vocabulary_.end(), "has an unk_token that is not in its vocabulary");
    description_.unknown = unknown->second;
  }
  description_.fuses_unknown = flag(model, "fuse_unk", false);
  if (flag(model, "ignore_merges", false))
    for (const auto& [spelling, token] : vocabulary_)
      if (bytes_spelled(spelling)) description_.whole_words.push_back(token);
}

void BpeReader::read_vocabulary(const json& vocabulary) {
  require(vocabulary.is_object() && !vocabulary.empty(), "has no vocabulary");
  max_tokens_ += static_cast<int64_t>(2 * vocabulary.size());
  for (const auto& [spelling, value] : vocabulary.items()) {
    const int64_t token = number(value, spelling);
    place(token, bytes_spelled(spelling).value_or(spelling));
    vocabulary_.emplace(spelling, static_cast<int32_t>(token));
  }
  for (size_t byte = 0; byte < description_.bytes.size(); ++byte) {
    const auto found = vocabulary_.find(spelling_of(std::string(1, static_cast<char>(byte))));
    description_.bytes[byte] = found == vocabulary_.end() ? none : found->second;
  }
}

void BpeReader::place(int64_t number, std::string bytes) {
  require(!bytes.empty(), "has a token without any text");
  require(number < max_tokens_, "has a token of number {}, which leaves out too many", number);
  auto& tokens = description_.tokens;
  if (tokens.size() <= size_t(number)) tokens.resize(size_t(number) + 1);
  require(tokens[size_t(number)].empty(), "has two tokens of number {}", number);
  tokens[size_t(number)] = std::move(bytes);
}

void BpeReader::add_merge(const std::string& left, const std::string& right) {
  const auto find = [&](const std::string& spelling) {
    const auto found = vocabulary_.find(spelling);
    require(found != vocabulary_.end(), "merges '{}' and '{}', but its vocabulary has no '{}'",
            left, right, spelling);
    return found->second;
  };
  description_.merges.push_back({find(left), find(right), find(left + right)});
}

void BpeReader::add_merge(std::string_view line) {
  const size_t blank = line.find(' ');
  require(blank != std::string_view::npos && line.find(' ', blank + 1) == std::string_view::npos,
          "has the merge '{}': expected two tokens with a blank between", line);
  add_merge(std::string(line.substr(0, blank)), std::string(line.substr(blank + 1)));
}

void BpeReader::read_added(const json& token) {
  const std::string content = text(token, "content");
  require(token.contains("id"), "has no number for the token '{}'", content);
  const int64_t id = number(token["id"], content);
  const auto known = vocabulary_.find(content);
  require(known == vocabulary_.end() || known->second == id,
          "has two numbers for the token '{}': {} and {}", content, id,
          known == vocabulary_.end() ? id : known->second);
  if (known != vocabulary_.end()) description_.tokens[size_t(id)].clear();
  place(id, content);
  require(added_.emplace(content, static_cast<int32_t>(id)).second, "adds the token '{}' twice",
          content);
  const bool is_second = flag(token, "normalized", !flag(token, "special", false));
  const bool is_composed = is_second && description_.composes;
  description_.added[is_second].push_back({.content = is_composed ? composed(content) : content,
                                           .token = static_cast<int32_t>(id),
                                           .takes_space_before = flag(token, "lstrip", false),
                                           .takes_space_after = flag(token, "rstrip", false),
                                           .is_single_word = flag(token, "single_word", false),
                                           .is_control = flag(token, "special", false)});
}

void BpeReader::read_step(const json& step) {
  require(step.is_object(), "has a pre_tokenizer that is not an object");
  const std::string type = text(step, "type");
  if (type == "Sequence") {
    const auto steps = step.find("pretokenizers");
    require(steps != step.end() && steps->is_array(), "has no list 'pretokenizers'");
    for (const json& each : *steps) read_step(each);
    return;
  }
  require(!has_byte_level_, "has a pre_tokenizer {} after ByteLevel, which is not supported", type);
  if (type == "Split") return read_split(step);
  if (type == "Digits")
    return add_step(flag(step, "individual_digits") ? "\\p{N}" : "\\p{N}+", true, true);
  require(type == "ByteLevel", "has the pre_tokenizer {}, which is not supported", type);
  has_byte_level_ = true;
  if (flag(step, "add_prefix_space")) description_.blank_before_step = description_.steps.size();
  if (flag(step, "use_regex", true)) add_step(gpt2_pattern, true, true);
}

void BpeReader::read_split(const json& split) {
  const json& pattern = object(split, "pattern");
  const std::string behavior = text(split, "behavior");
  const bool removes = behavior == "Removed", is_inverted = flag(split, "invert", false);
  require(removes || behavior == "Isolated", "has a Split with behavior {}, which is not supported",
          behavior);
  add_step(pattern.contains("String") ? regex_of_literal(text(pattern, "String"))
                                      : text(pattern, "Regex"),
           !removes || is_inverted, !removes || !is_inverted);
}

void BpeReader::add_step(std::string_view pattern, bool keeps_matches, bool keeps_gaps) {
  require(description_.steps.size() < max_steps, "has a pre_tokenizer of more than {} steps",
          max_steps);
  try {
    description_.steps.push_back({Regex(pattern), keeps_matches, keeps_gaps});
  } catch (const Error& error) {
    require(false, "has a pre_tokenizer that is not supported: {}", error.what());
  }
}

int32_t BpeReader::number_of(const std::string& token) const {
  const auto added = added_.find(token);
  if (added != added_.end()) return added->second;
  const auto found = vocabulary_.find(token);
  return found != vocabulary_.end() ? found->second : none;
}

void BpeReader::end_texts_with(const std::string& token) {
  description_.end_of_text = number_of(token);
  require(description_.end_of_text != none,
          "has no token '{}', which its tokenizer_config.json names", token);
}

}  // namespace accrue
