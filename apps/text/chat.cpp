#include "apps/text/chat.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "apps/cli/messages.h"
#include "data/byte_stream.h"
#include "data/strict_json.h"
#include "text/chat_template.h"
#include "text/chats.h"
#include "text/json_values.h"

namespace accrue::app {
namespace {

using nlohmann::json;

// Text that comes in pieces, up to a mark, of which no part is handed on.
class UpTo {
 public:
  explicit UpTo(std::string mark) : mark_(std::move(mark)) {}

  // What is known to stand before the mark.
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

// With a sign in place of what is no UTF-8, as where a token that ends a text has half a character.
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

class Chat {
 public:
  Chat(WritingModel& model, const Request& options, const WriteOptions& asked)
      : model_(model),
        tokens_(asked.tokens),
        sampling_(asked.sampling),
        template_(ChatTemplate::in(model.tokenizer().files, model.tokenizer_name())),
        writing_{template_ ? ChatForm::own : ChatForm::chatml, template_ ? &*template_ : nullptr,
                 template_ ? "" : missing_mark(ChatForm::chatml, model.tokenizer())} {
    const bool is_asked =
        std::ranges::any_of(std::array{"temperature", "top-k", "top-p", "repetition-penalty"},
                            [&](const char* name) { return options.given.contains(name); });
    if (!template_)
      say_error("the tokenizer '{}' has no chat template: messages are written as ChatML\n",
                model.tokenizer_name());
    if (is_asked) return;
    const Generation& said = model.generation();
    sampling_ = said.sampling;
    sampling_.seed = asked.sampling.seed;
    say_error("tokens are drawn as by generate() with the model's files: {}\n",
              described(sampling_));
    if (!said.unheeded.empty())
      say_error("warning: generation_config.json asks for {}, which is not done here\n",
                fmt::join(said.unheeded, ", "));
  }

  // The answer to a record's messages. `take` is handed its parts as they come.
  std::string answer(const json& record, const std::string& where,
                     const std::function<void(const std::string&)>& take) {
    const ChatPrompt prompt = prompt_of_chat(record, writing_, where);
    if (!prompt.unheeded.empty())
      say_error("warning: {}: nothing of the chat depends on {}\n", where,
                fmt::join(prompt.unheeded, ", "));
    const std::vector<int32_t> tokens = model_.tokenizer().tokenizer->encode(prompt.text);
    // One that is nearly at its last position answers as far as it can.
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
    if (!is_whole) cut_at_ = most;
    return as_utf8(whole);
  }

  // Says so if the last answer had no end.
  void say_if_cut() {
    if (cut_at_ > 0) say_error("(cut after {} tokens: --tokens says how many)\n", cut_at_);
    cut_at_ = 0;
  }

 private:
  // What follows an answer up to white space, as one token, or else as text.
  std::pair<std::set<int32_t>, std::string> end_of(const ChatPrompt& prompt) const {
    const std::string after = trimmed(prompt.end);
    const std::string mark = after.substr(0, after.find_first_of(" \t\r\n"));
    if (mark.empty()) return {};
    const auto tokens = model_.tokenizer().tokenizer->encode(mark, TextPlace::goes_on);
    if (tokens.size() == 1) return {{tokens.front()}, ""};
    return {{}, mark};
  }

  WritingModel& model_;
  const int64_t tokens_;
  Sampling sampling_;
  const std::optional<ChatTemplate> template_;
  const ChatWriting writing_;
  int64_t cut_at_ = 0;
};

// A list of messages is a chat without its name.
json as_record(const json& value, const std::string& where) {
  if (value.is_array()) return {{"messages", value}};
  check(value.is_object() && (value.contains("messages") || value.contains("conversations")),
        "{} is {}: expected an object with messages, or a list of them", where, shown(value));
  return value;
}

// One chat, over any number of lines, or one in each line.
std::vector<std::pair<json, std::string>> chats_in(const std::string& file) {
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
  std::vector<std::pair<json, std::string>> chats;
  int64_t number = 0;
  for (size_t begin = 0; begin < all.size(); ++number) {
    const size_t end = std::min(all.find('\n', begin), all.size());
    const std::string line = trimmed(all.substr(begin, end - begin));
    const std::string here = fmt::format("{}, line {}", where, number + 1);
    begin = end + 1;
    if (line.empty()) continue;
    chats.emplace_back(as_record(parse_strict_json(line, most_levels, here, most_elements), here),
                       here);
  }
  return chats;
}

}  // namespace

void answer_lines(WritingModel& model, const Request& options, const WriteOptions& asked) {
  Chat chat(model, options, asked);
  json messages = json::array();
  if (!asked.system.empty()) messages.push_back({{"role", "system"}, {"content", asked.system}});
  const bool is_terminal = ::isatty(STDIN_FILENO) == 1;
  if (is_terminal) say("A message a line; Ctrl-D ends the chat.\n");
  const auto next = [&](std::string& line) {
    if (is_terminal) say("> ");
    return bool(std::getline(std::cin, line));
  };
  int64_t number = 0;
  for (std::string line; next(line);) {
    ++number;
    if (trimmed(line).empty()) continue;
    const auto where = fmt::format("line {} of standard input", number);
    check(as_utf8(line) == line, "{} is not UTF-8: expected text in UTF-8", where);
    messages.push_back({{"role", "user"}, {"content", line}});
    const std::string answer = chat.answer({{"messages", messages}}, where,
                                           [](const std::string& part) { say("{}", part); });
    say("\n");
    chat.say_if_cut();
    messages.push_back({{"role", "assistant"}, {"content", answer}});
  }
  if (is_terminal) say("\n");
}

void answer_messages(WritingModel& model, const Request& options, const WriteOptions& asked) {
  std::vector<std::pair<json, std::string>> chats = chats_in(asked.messages);
  Chat chat(model, options, asked);
  const bool is_alone = chats.size() == 1;
  for (auto& [record, where] : chats) {
    json& messages = record[record.contains("messages") ? "messages" : "conversations"];
    const std::string answer = chat.answer(record, where, [&](const std::string& part) {
      if (is_alone) say("{}", part);
    });
    if (record.contains("messages"))
      messages.push_back({{"role", "assistant"}, {"content", answer}});
    else messages.push_back({{"from", "gpt"}, {"value", answer}});
    if (is_alone) say("\n");
    else say("{}\n", record.dump(-1, ' ', false, json::error_handler_t::replace));
    chat.say_if_cut();
  }
}

}  // namespace accrue::app
