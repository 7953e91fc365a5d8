#include "text/chat_writer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "core/error.h"
#include "data/byte_stream.h"
#include "data/strict_json.h"
#include "text/chats.h"

namespace accrue {
namespace {

using nlohmann::json;

// Collects text that comes in pieces and ends at a mark. No part of the mark is passed on.
class UpTo {
 public:
  explicit UpTo(std::string mark) : mark_(std::move(mark)) {}

  // Returns the text that is certain to lie before the mark.
  std::string add(const std::string& piece) {
    held_ += piece;
    if (mark_.empty()) return std::exchange(held_, "");
    const size_t at = held_.find(mark_);
    if (at != held_.npos) {
      is_over_ = true;
      return held_.substr(0, at);
    }
    size_t kept = std::min(held_.size(), mark_.size() - 1);
    while (!held_.ends_with(mark_.substr(0, kept))) --kept;
    const std::string known = held_.substr(0, held_.size() - kept);
    held_.erase(0, known.size());
    return known;
  }
  bool is_over() const { return is_over_; }
  std::string rest() const { return is_over_ ? "" : held_; }

 private:
  std::string mark_, held_;
  bool is_over_ = false;
};

// Replaces bytes that are not UTF-8 with U+FFFD.
std::string as_utf8(const std::string& text) {
  return json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace));
}

std::string described(const Sampling& sampling) {
  std::vector<std::string> parts;
  if (sampling.temperature == 0) parts.emplace_back("the likeliest token each time");
  else {
    parts.push_back(fmt::format("temperature {}", sampling.temperature));
    if (sampling.top_k > 0) parts.push_back(fmt::format("top k {}", sampling.top_k));
    if (sampling.top_p < 1) parts.push_back(fmt::format("top p {}", sampling.top_p));
  }
  if (sampling.repetition_penalty != 1)
    parts.push_back(fmt::format("repetition penalty {}", sampling.repetition_penalty));
  return fmt::format("{}", fmt::join(parts, ", "));
}

// A bare list of messages becomes a chat with these messages.
json as_record(const json& value, const std::string& where) {
  if (value.is_array()) return {{"messages", value}};
  check(value.is_object() && (value.contains("messages") || value.contains("conversations")),
        "{} is {}: expected an object with messages, or a list of them", where, shown(value));
  return value;
}

}  // namespace

Chat Chat::begun_by(const std::string& system) {
  Chat chat;
  chat.record["messages"] = json::array();
  if (!system.empty()) chat.record["messages"].push_back({{"role", "system"}, {"content", system}});
  return chat;
}

void Chat::ask(const std::string& message, std::string where_asked) {
  where = std::move(where_asked);
  check(as_utf8(message) == message, "{} is not UTF-8: expected text in UTF-8", where);
  record["messages"].push_back({{"role", "user"}, {"content", message}});
}

void Chat::add_answer(const std::string& answer) {
  if (record.contains("messages"))
    record["messages"].push_back({{"role", "assistant"}, {"content", as_utf8(answer)}});
  else record["conversations"].push_back({{"from", "gpt"}, {"value", as_utf8(answer)}});
}

std::string Chat::line() const {
  return record.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::vector<Chat> chats_in(const std::string& file) {
  constexpr int most_levels = 32;
  constexpr int64_t most_elements = int64_t{1} << 20;
  const std::vector<std::byte> bytes = file_content(file);
  const std::string all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string where = fmt::format("'{}'", file), text = trimmed(all);
  check(!text.empty(), "{} is empty: expected JSON with messages", where);
  if (json::accept(text)) {
    const json whole = parse_strict_json(text, most_levels, where, most_elements);
    return {{as_record(whole, where), where}};
  }
  std::vector<Chat> chats;
  int64_t number = 0;
  for (size_t begin = 0; begin < all.size(); ++number) {
    const size_t end = std::min(all.find('\n', begin), all.size());
    const std::string line = trimmed(all.substr(begin, end - begin));
    const std::string here = fmt::format("{}, line {}", where, number + 1);
    begin = end + 1;
    if (line.empty()) continue;
    chats.push_back(
        {as_record(parse_strict_json(line, most_levels, here, most_elements), here), here});
  }
  return chats;
}

ChatWriter::ChatWriter(WritingModel& model, const ChatAnswers& answers, Notices notices)
    : model_(model),
      notices_(std::move(notices)),
      tokens_(answers.tokens),
      template_(ChatTemplate::in(model.tokenizer().files, model.tokenizer_name())),
      writing_{template_ ? ChatForm::own : ChatForm::chatml, template_ ? &*template_ : nullptr,
               template_ ? "" : missing_mark(ChatForm::chatml, model.tokenizer())} {
  if (!template_)
    notices_.say("the tokenizer '{}' has no chat template: messages are written as ChatML",
                 model.tokenizer_name());
  const Generation& said = model.generation();
  sampling_ = answers.sampling.value_or(said.sampling);
  if (answers.sampling) return;
  sampling_.seed = answers.seed;
  notices_.say("tokens are drawn as by generate() with the model's files: {}",
               described(sampling_));
  if (!said.unheeded.empty())
    notices_.warn("generation_config.json asks for {}, which accrue does not support",
                  fmt::join(said.unheeded, ", "));
}

int64_t ChatWriter::answer(Chat& chat, const std::function<void(const std::string&)>& take) {
  const ChatPrompt prompt = prompt_of_chat(chat.record, writing_, chat.where);
  if (!prompt.unheeded.empty())
    notices_.warn("{}: the text of the chat does not depend on {}", chat.where,
                  fmt::join(prompt.unheeded, ", "));
  const std::vector<int32_t> tokens = model_.tokenizer().tokenizer->encode(prompt.text);
  // If the model has few positions left, the answer is shorter.
  const int64_t left = model_.positions() - std::ssize(tokens);
  const int64_t most = model_.positions() > 0 && left > 0 ? std::min(tokens_, left) : tokens_;
  model_.check_room(std::ssize(tokens) + most,
                    fmt::format("the {} of a chat and {} more", std::ssize(tokens), most));
  const auto [ends, mark] = end_of(prompt);
  UpTo text(mark);
  std::string whole;
  const auto give = [&](const std::string& part) {
    whole += part;
    take(part);
  };
  const bool is_whole =
      model_.go_on(tokens, most, sampling_, ends, [&, &mark = mark](const std::string& piece) {
        give(text.add(piece));
        return mark.empty() || !text.is_over();
      });
  give(text.rest());
  chat.add_answer(whole);
  return is_whole ? 0 : most;
}

// The text that follows an answer, up to white space: as a token if it is a single one, otherwise
// as text.
std::pair<std::set<int32_t>, std::string> ChatWriter::end_of(const ChatPrompt& prompt) const {
  const std::string after = trimmed(prompt.end);
  const std::string mark = after.substr(0, after.find_first_of(" \t\r\n"));
  if (mark.empty()) return {};
  const auto tokens = model_.tokenizer().tokenizer->encode(mark, TextPlace::goes_on);
  if (tokens.size() == 1) return {{tokens.front()}, ""};
  return {{}, mark};
}

}  // namespace accrue
