#include "text/documents.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/error.h"
#include "data/strict_json.h"
#include "data/words.h"
#include "text/chats.h"

namespace accrue {
namespace {

using nlohmann::json;

// The fields by which sentence-transformers says how closely two texts belong together.
const std::set<std::string>& names_of_labels() {
  static const std::set<std::string> names{"label", "labels", "score", "scores"};
  return names;
}

TextDocument document_of_sample(const json& object, const std::string& where) {
  for (const std::string& name : names_of_labels()) {
    const json label = object.value(name, json());
    check(label.is_null() || label == json(1) || label == json(true),
          "{}: {} is {} beside anchor and positive, which are learned as texts that belong "
          "together: expected 1 or none; a text that does not belong is a `negative` beside the "
          "two, and grades are not learned",
          where, name, shown(label));
  }
  TextDocument document{.has_end_of_text = false, .is_sample = true};
  for (const char* name : {"anchor", "positive", "negative"}) {
    if (name == std::string("negative") && !object.contains(name)) continue;
    document.parts.push_back({text_in(object, name, where)});
    check(!document.parts.back().text.empty(), "{}: {} is empty, expected text", where, name);
  }
  return document;
}

// The prompt in the words of Stanford's Alpaca, which ends with the beginning of the answer.
TextDocument document_of_alpaca(const json& object, const std::string& where) {
  const bool has_input = object.contains("input") && !object["input"].is_null();
  const std::string more = has_input ? text_in(object, "input", where) : "";
  std::string prompt = "Below is an instruction that describes a task";
  if (!more.empty()) prompt += ", paired with an input that provides further context";
  prompt += ". Write a response that appropriately completes the request.\n\n### Instruction:\n" +
            text_in(object, "instruction", where);
  if (!more.empty()) prompt += "\n\n### Input:\n" + more;
  return {
      .parts = {{prompt + "\n\n### Response:", false}, {text_in(object, "output", where), true}}};
}

bool is_list(const json& value) { return value.is_array(); }

// The position where two texts begin to differ, moved before a preceding space and out of a UTF-8
// character.
size_t end_of_common(const std::string& a, const std::string& b) {
  auto end = static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
  while (end > 0 && end < a.size() && (static_cast<unsigned char>(a[end]) & 0xc0) == 0x80) --end;
  if (end > 0 && a[end - 1] == ' ') --end;
  return end;
}

// Two answers to a prompt. The prompt is given, or is the common beginning of the answers.
struct Preference {
  json prompt, chosen, rejected;
};

Preference preference_in(const json& object, const std::string& where) {
  Preference found{object.value("prompt", json()), object["chosen"], object["rejected"]};
  auto& [prompt, chosen, rejected] = found;
  for (const auto& [name, value] : {std::pair{"chosen", &chosen}, {"rejected", &rejected}})
    check(value->is_string() || (value->is_array() && !value->empty()) || value->is_object(),
          "{}: {} is {}, expected text or a list of messages", where, name, shown(*value));
  for (json* const value : {&chosen, &rejected})
    if (value->is_object()) *value = json::array({*value});
  check(chosen.is_string() == rejected.is_string(),
        "{}: one of chosen and rejected is text and the other a list of messages: expected both "
        "alike",
        where);
  if (prompt.is_array() || (prompt.is_string() && chosen.is_string())) {
    check(!prompt.empty() && prompt != "", "{}: prompt is empty, expected text or messages", where);
    return found;
  }
  check(prompt.is_null() || prompt.is_string(),
        "{}: prompt is {}, expected text or a list of messages", where, shown(prompt));
  const std::string said = prompt.is_string() ? prompt.get<std::string>() : "";
  if (is_list(chosen)) {
    const auto ends = std::ranges::mismatch(chosen, rejected);
    prompt = json(json::array_t(chosen.begin(), ends.in1));
    chosen = json(json::array_t(ends.in1, chosen.end()));
    rejected = json(json::array_t(ends.in2, rejected.end()));
    const bool has_said = std::ranges::any_of(prompt, [&](const json& message) {
      return message.is_object() &&
             (message.value("content", json()) == said || message.value("value", json()) == said);
    });
    check(said.empty() || has_said,
          "{}: chosen and rejected do not begin with a message that is the prompt: expected it, or "
          "a prompt that is a list of messages",
          where);
  } else {
    const auto a = chosen.get<std::string>(), b = rejected.get<std::string>();
    const size_t end = end_of_common(a, b);
    prompt = a.substr(0, end);
    chosen = a.substr(end);
    rejected = b.substr(end);
  }
  check(!prompt.empty() && prompt != "" && !chosen.empty() && !rejected.empty() && chosen != "" &&
            rejected != "",
        "{}: chosen and rejected {}: expected a prompt beside them, or the same beginning in both",
        where, prompt.empty() || prompt == "" ? "begin differently" : "are each other's beginning");
  return found;
}

TextDocument document_of_preference(const json& object, ChatForm form, const std::string& where,
                                    std::map<std::string, int64_t>& unused) {
  const Preference found = preference_in(object, where);
  TextDocument document;
  for (const json& answer : {found.chosen, found.rejected}) {
    if (is_list(found.prompt)) {
      document.answers.push_back(
          document_of_answer(object, found.prompt, answer, form, where, unused));
      continue;
    }
    TextDocument text{
        .parts = {{found.prompt.get<std::string>(), false}, {answer.get<std::string>(), true}},
        .is_one_text = true,
        .is_answer = true};
    for (TextDocument::Part& part : text.parts) part.written.push_back({0, part.text.size()});
    document.answers.push_back(std::move(text));
  }
  document.is_chat = is_list(found.prompt);
  return document;
}

// Renames fields to the names used here. A field that already has such a name is counted in
// `unused`. Returns true if a field was renamed.
template <class Json>
bool take_names(Json& object, const FieldNames& names, std::map<std::string, int64_t>& unused) {
  bool has_some = false;
  for (const auto& [name, there] : names) {
    if (name == there || !object.contains(there)) continue;
    if (object.contains(name)) ++unused[name];
    Json value = object[there];
    object[name] = std::move(value);
    object.erase(there);
    has_some = true;
  }
  return has_some;
}

}  // namespace

const std::map<std::string, ChatForm>& detail::chat_form_names() {
  static const std::map<std::string, ChatForm> names{
      {"template", ChatForm::own}, {"chatml", ChatForm::chatml}, {"llama3", ChatForm::llama3}};
  return names;
}

FieldNames detail::field_names(const std::vector<std::string>& words) {
  static const std::set<std::string> known{"text",          "prompt",      "completion", "messages",
                                           "conversations", "instruction", "input",      "output",
                                           "anchor",        "positive",    "negative",   "tools"};
  FieldNames names;
  for (const std::string& word : words) {
    const size_t is = word.find('=');
    check(is != word.npos && known.contains(word.substr(0, is)) && is + 1 < word.size(),
          "the field '{}': expected NAME=NAME_IN_THE_FILE, such as text=content, of {}", word,
          fmt::join(known, ", "));
    names[word.substr(0, is)] = word.substr(is + 1);
  }
  return names;
}

TextDocument detail::document_of_json(const std::string& line, ChatForm form,
                                      const std::string& where,
                                      std::map<std::string, int64_t>& unused,
                                      const FieldNames& names_there) {
  constexpr int most_levels = 32;
  constexpr int64_t most_elements = int64_t{1} << 20;
  check(
      !trimmed(line).starts_with('[') || trimmed(line).ends_with(']'),
      "{} begins a list: expected an object in each line, which `python3 -c \"import json, sys; "
      "[print(json.dumps(each)) for each in json.load(sys.stdin)]\" <LIST.json >LINES.jsonl` makes "
      "of a list",
      where);
  json object = parse_strict_json(line, most_levels, where, most_elements);
  constexpr const char* expected =
      "expected an object with text, with prompt and completion, with messages (or conversations), "
      "with instruction and output, with prompt, chosen and rejected, or with anchor and positive";
  check(object.is_object(), "{} is {}: {}", where, shown(object), expected);
  const bool is_renamed = take_names(object, names_there, unused);
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) names.push_back(name);
  // `needs` are the fields that a record must have, and `may` the fields that it may have.
  struct Kind {
    std::vector<std::string> needs, may{};
    std::function<TextDocument()> read;
  };
  const auto chat = [&] {
    if (!is_renamed) return document_of_chat(object, line, form, where, unused);
    auto ordered = nlohmann::ordered_json::parse(line);  // keeps the order of the keys
    std::map<std::string, int64_t> counted_already;
    take_names(ordered, names_there, counted_already);
    return document_of_chat(object, ordered.dump(), form, where, unused);
  };
  std::vector<std::string> of_template;
  if (form == ChatForm::own) of_template = {"tools", "documents", "chat_template_kwargs"};
  std::vector<std::string> of_sample(names_of_labels().begin(), names_of_labels().end());
  of_sample.emplace_back("negative");
  std::vector<std::string> of_preference = of_template;
  of_preference.emplace_back("prompt");
  const std::vector<Kind> kinds{
      {.needs = {"text"},
       .read = [&]() -> TextDocument { return {.parts = {{text_in(object, "text", where)}}}; }},
      {.needs = {"messages"}, .may = of_template, .read = chat},
      {.needs = {"conversations"}, .may = of_template, .read = chat},
      {.needs = {"prompt", "completion"},
       .read = [&]() -> TextDocument {
         const json label = object.value("label", json());
         check(label != false && label != 0,
               "{}: label is {} beside prompt and completion, which would be learned: expected no "
               "such line, or a chosen and a rejected answer in one",
               where, shown(label));
         return {.parts = {{text_in(object, "prompt", where), false},
                           {text_in(object, "completion", where), true}}};
       }},
      {.needs = {"instruction", "output"},
       .may = {"input"},
       .read = [&] { return document_of_alpaca(object, where); }},
      {.needs = {"chosen", "rejected"},
       .may = of_preference,
       .read = [&] { return document_of_preference(object, form, where, unused); }},
      {.needs = {"anchor", "positive"}, .may = of_sample, .read = [&] {
         return document_of_sample(object, where);
       }}};
  const auto has_all = [&](const Kind& kind) {
    return std::ranges::all_of(kind.needs, [&](const auto& name) { return object.contains(name); });
  };
  check(std::ranges::count_if(kinds, has_all) == 1, "{} has {}: {}", where,
        names.empty() ? "nothing" : some_of(names), expected);
  const Kind& kind = *std::ranges::find_if(kinds, has_all);
  for (const std::string& name : names)
    if (std::ranges::count(kind.needs, name) + std::ranges::count(kind.may, name) == 0)
      ++unused[name];
  return kind.read();
}

std::string detail::shown(const json& value) {
  constexpr size_t most = 60;
  const std::string text = value.dump(-1, ' ', true);
  return text.size() <= most ? text : text.substr(0, most) + "...";
}

std::string detail::text_in(const json& object, const char* name, const std::string& where) {
  const json value = object.value(name, json());
  check(value.is_string(), "{}: {} is {}, expected text", where, name, shown(value));
  return value.get<std::string>();
}

std::string detail::trimmed(const std::string& text) {
  constexpr const char* space = " \t\r\n\v\f";
  const size_t begin = text.find_first_not_of(space);
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(space) + 1 - begin);
}

}  // namespace accrue
