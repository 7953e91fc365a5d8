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

// A chat to be answered, and the name of its origin for error messages.
struct Chat {
  nlohmann::json record;  // with `messages`, or with ShareGPT's `conversations`
  std::string where{};

  // A chat that contains only the system's message, or nothing if that is empty.
  static Chat begun_by(const std::string& system);
  // Adds a message of the user to `messages`. Throws Error unless it is UTF-8.
  void ask(const std::string& message, std::string where_asked);
  // Adds an answer. Bytes that are not UTF-8 become U+FFFD; an answer that was cut off may end in
  // half a character.
  void add_answer(const std::string& answer);
  // The record as one line of JSON.
  std::string line() const;
};

// The chats of a file of JSON. The file has one chat with messages or a list of chats, over any
// number of lines, or one chat per line. Throws Error for anything else.
std::vector<Chat> chats_in(const std::string& file);

struct ChatAnswers {
  int64_t tokens = 200;                // of an answer, at most
  std::optional<Sampling> sampling{};  // none: as the makers of the model advise
  uint64_t seed = Sampling{}.seed;     // of the makers' sampling
};

// Answers chats in the format of the model's own chat template, or else in ChatML. Tells which
// format it uses, and warns of requests of the chat or of the model's makers that it does not
// support.
class ChatWriter {
 public:
  // The model must live as long as this.
  ChatWriter(WritingModel& model, const ChatAnswers& answers, Notices notices);
  ChatWriter(const ChatWriter&) = delete;
  ChatWriter& operator=(const ChatWriter&) = delete;

  // Adds an answer to a chat and passes its parts to `take` as they are generated. Returns the
  // number of tokens if the answer was cut off, and 0 if it is complete. Throws Error if the
  // template refuses the messages, or if the model has no room for them.
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
