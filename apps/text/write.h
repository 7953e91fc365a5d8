#pragma once

#include <string>

#include "job/request.h"
#include "text/sampling.h"

namespace accrue::app {

// `accrue text write`: continues a prompt, or answers in a chat.
struct WriteOptions {
  std::string prompt;
  std::string tokenizer;  // empty: the model's
  bool chat = false;      // the user's messages are lines on standard input
  std::string system;     // the system message of the chat
  std::string messages;   // a file of chats to answer
  int64_t tokens = 200;
  Sampling sampling;
};
Settings settings_of(WriteOptions& asked, Request& options);
void write_text(const Request& options, const WriteOptions& asked);

}  // namespace accrue::app
