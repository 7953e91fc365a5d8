#include "apps/text/write.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <optional>
#include <vector>

#include "apps/cli/messages.h"
#include "text/chat_writer.h"

namespace accrue::app {

Settings settings_of(WriteOptions& asked, Request& options) {
  constexpr Decides no_result = Decides::no_result;
  const Settings all = settings_of(options);
  Settings s;
  s.group("Options")
      .add(options.init,
           trained_weights(
               "A language model's weights, as train saves them; adapters know their base"))
      .add(asked.prompt,
           {"prompt", no_result, "The beginning of the text", "TEXT", "the end of another text"})
      .add_flag(asked.chat, true,
                {.name = "chat",
                 .decides = no_result,
                 .help = "Answer messages, one per line of standard input, by the model's own "
                         "chat template",
                 .excludes = "prompt"})
      .add(asked.system, {.name = "system",
                          .decides = no_result,
                          .help = "The system message of the chat",
                          .takes = "TEXT",
                          .unset = "the template's",
                          .needs = "chat"})
      .add(asked.messages, {.name = "messages",
                            .decides = no_result,
                            .help = "Answer the chats in this file: JSON with messages, or JSON "
                                    "lines, which are printed with an answer each",
                            .takes = reads("FILE"),
                            .excludes = "chat"})
      .add(asked.tokenizer,
           {"tokenizer", no_result,
            "The model's tokenizer: bytes, a tokenizer.json or a directory with a tokenizer",
            reads("FILE|DIR"), "the weights' tokenizer, or bytes"})
      .add(asked.tokens, {.name = "tokens",
                          .decides = no_result,
                          .help = "At most this number of tokens after the prompt",
                          .range = above_zero})
      .add(asked.sampling.temperature,
           {.name = "temperature",
            .decides = no_result,
            .help = "Above 1: more surprises, below: fewer; 0: the likeliest token each time",
            .range = zero_or_more})
      .add(asked.sampling.top_k, {.name = "top-k",
                                  .decides = no_result,
                                  .help = "Draw from this many likeliest tokens; 0: from all",
                                  .range = zero_or_more})
      .add(asked.sampling.top_p,
           {.name = "top-p",
            .decides = no_result,
            .help = "Draw from the fewest likeliest tokens whose probabilities add up to this",
            .range = {0, 1}})
      .add(asked.sampling.repetition_penalty, {.name = "repetition-penalty",
                                               .decides = no_result,
                                               .help = "Above 1: repeat earlier tokens less often",
                                               .range = above_zero})
      .add(asked.sampling.seed, {"seed", no_result, "Another seed gives another text"});
  return s.append(all.only({"model", "base", "base-bits", "precision"}))
      .append(all.in({"Machine"}).where(acts_on_answers));
}

namespace {

// Prints notices to standard error, because standard output holds the text that is written.
const Notices& beside_text() {
  static const Notices notices([](Notices::Kind kind, std::string_view text) {
    say_error("{}{}\n", kind == Notices::Kind::warning ? "warning: " : "", text);
  });
  return notices;
}

void go_on_from_prompt(WritingModel& model, const WriteOptions& asked) {
  bool has_begun = false;
  try {
    model.write(asked.prompt, asked.tokens, asked.sampling, [&](const std::string& text) {
      has_begun = true;
      say("{}", text);
    });
  } catch (...) {  // the error message begins a new line
    if (has_begun) say("\n");
    throw;
  }
  say("\n");
}

ChatWriter chat_writer(WritingModel& model, const Request& options, const WriteOptions& asked) {
  const bool is_asked =
      std::ranges::any_of(std::array{"temperature", "top-k", "top-p", "repetition-penalty"},
                          [&](const char* name) { return options.given.contains(name); });
  return {model,
          {.tokens = asked.tokens,
           .sampling = is_asked ? std::optional(asked.sampling) : std::nullopt,
           .seed = asked.sampling.seed},
          beside_text()};
}

void say_if_cut(int64_t tokens) {
  if (tokens > 0) say_error("(cut after {} tokens: --tokens sets the limit)\n", tokens);
}

// Chats with the user, whose messages are lines on standard input.
void answer_lines(ChatWriter writer, const std::string& system) {
  Chat chat = Chat::begun_by(system);
  const bool is_terminal = ::isatty(STDIN_FILENO) == 1;
  if (is_terminal) say("One message per line; Ctrl-D ends the chat.\n");
  const auto next = [&](std::string& line) {
    if (is_terminal) say("> ");
    return bool(std::getline(std::cin, line));
  };
  int64_t number = 0;
  for (std::string line; next(line);) {
    ++number;
    if (line.find_first_not_of(" \t\r\n\v\f") == line.npos) continue;
    chat.ask(line, fmt::format("line {} of standard input", number));
    const int64_t cut_at = writer.answer(chat, [](const std::string& part) { say("{}", part); });
    say("\n");
    say_if_cut(cut_at);
  }
  if (is_terminal) say("\n");
}

void answer_chats(ChatWriter writer, std::vector<Chat> chats) {
  const bool is_alone = chats.size() == 1;
  for (Chat& chat : chats) {
    const int64_t cut_at = writer.answer(chat, [&](const std::string& part) {
      if (is_alone) say("{}", part);
    });
    say("{}\n", is_alone ? "" : chat.line());
    say_if_cut(cut_at);
  }
}

}  // namespace

void write_text(const Request& options, const WriteOptions& asked) {
  check_sampling(asked.sampling);
  check(asked.messages.empty() || asked.prompt.empty(),
        "--messages {} excludes --prompt: expected one of the two", asked.messages);
  WritingModel model(options, asked.tokenizer, beside_text());
  if (!asked.messages.empty()) {
    std::vector<Chat> chats = chats_in(asked.messages);
    answer_chats(chat_writer(model, options, asked), std::move(chats));
  } else if (asked.chat) {
    answer_lines(chat_writer(model, options, asked), asked.system);
  } else {
    go_on_from_prompt(model, asked);
  }
}

}  // namespace accrue::app
