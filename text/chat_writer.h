#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "job/notices.h"
#include "text/chat_template.h"
#include "text/writing_model.h"

namespace accrue {

// A chat that is to be answered, and what it is called in errors.
struct Chat {
  nlohmann::json record;  // with `messages`, or with ShareGPT's `conversations`
  std::string where{};

  // One that nobody has said anything in but the system, if that is not empty.
  static Chat begun_by(const std::string& system);
  // Adds what somebody says in `messages`. Throws Error unless it is UTF-8.
  void ask(const std::string& message, std::string where_asked);
  // What is not UTF-8 gets a sign in its place, as where a token that ends a text has half a
  // character.
  void add_answer(const std::string& answer);
  // A line of JSON.
  std::string line() const;
};

// The chats of a file: JSON with messages, or a list of them, over any number of lines or one in
// each line. Throws Error for anything else.
std::vector<Chat> chats_in(const std::string& file);

struct ChatAnswers {
  int64_t tokens = 200;                // of an answer, at most
  std::optional<Sampling> sampling{};  // none: as the makers of the model say
  uint64_t seed = Sampling{}.seed;     // of theirs
};

// Answers as the model's own template of chats writes them, or else in ChatML. It tells by what,
// and warns of what a chat or the makers ask for and is not done.
class ChatWriter {
 public:
  // The model must live as long as this.
  ChatWriter(WritingModel& model, const ChatAnswers& answers, Notices notices);
  ChatWriter(const ChatWriter&) = delete;
  ChatWriter& operator=(const ChatWriter&) = delete;

  // Adds an answer to a chat, of which `take` is given the parts as they come. Returns how many
  // tokens it has if it was cut there, and 0 if it has its end. Throws Error where the template
  // refuses the messages, and where the model has no room for them.
  int64_t answer(Chat& chat, const std::function<void(const std::string&)>& take);

 private:
  std::pair<std::set<int32_t>, std::string> end_of(const ChatPrompt& prompt) const;

  WritingModel& model_;
  const Notices notices_;
  const int64_t tokens_;
  Sampling sampling_;
  const std::optional<ChatTemplate> template_;
  const ChatWriting writing_;
};

}  // namespace accrue
