#pragma once

#include <string>

#include "job/request.h"
#include "text/sampling.h"

namespace accrue::app {

// `accrue text write`: a text that goes on from a prompt, or answers in a chat.
struct WriteOptions {
  std::string prompt;
  std::string tokenizer;  // empty: the model's
  bool chat = false;      // with who writes lines on standard input
  std::string system;     // the first message of that
  std::string messages;   // a file of chats that are to be answered
  int64_t tokens = 200;
  Sampling sampling;
};
Settings settings_of(WriteOptions& asked, Request& options);
void write_text(const Request& options, const WriteOptions& asked);

}  // namespace accrue::app
