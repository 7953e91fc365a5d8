#include "apps/text/write.h"

#include "apps/cli/messages.h"
#include "apps/text/chat.h"
#include "apps/text/writing_model.h"

namespace accrue::app {

Settings settings_of(WriteOptions& asked, Request& options) {
  constexpr Decides no_result = Decides::no_result;
  const Settings all = settings_of(options);
  Settings s;
  s.group("Options")
      .add(options.init,
           trained_weights("A language model's, as train saves them; adapters know their base"))
      .add(asked.prompt,
           {"prompt", no_result, "The beginning of the text", "TEXT", "the end of another text"})
      .add_flag(asked.chat, true,
                {.name = "chat",
                 .decides = no_result,
                 .help = "Answer messages, a line of standard input each, as the model's own "
                         "template of chats writes them",
                 .excludes = "prompt"})
      .add(asked.system, {.name = "system",
                          .decides = no_result,
                          .help = "The system message of that chat",
                          .takes = "TEXT",
                          .unset = "the template's",
                          .needs = "chat"})
      .add(asked.messages, {.name = "messages",
                            .decides = no_result,
                            .help = "Answer these: JSON with messages, or lines of it, which come "
                                    "back with an answer each",
                            .takes = reads("FILE"),
                            .excludes = "chat"})
      .add(asked.tokenizer,
           {"tokenizer", no_result,
            "What the model learned by: bytes, a tokenizer.json or a directory with a tokenizer",
            reads("FILE|DIR"), "what the weights say, or bytes"})
      .add(asked.tokens, {.name = "tokens",
                          .decides = no_result,
                          .help = "At most so many, beyond the prompt",
                          .range = above_zero})
      .add(asked.sampling.temperature,
           {.name = "temperature",
            .decides = no_result,
            .help = "Above 1 for more surprises, below for fewer; 0: the likeliest token each time",
            .range = zero_or_more})
      .add(asked.sampling.top_k, {.name = "top-k",
                                  .decides = no_result,
                                  .help = "Draw from the so many likeliest tokens; 0: from all",
                                  .range = zero_or_more})
      .add(asked.sampling.top_p,
           {.name = "top-p",
            .decides = no_result,
            .help = "Draw from the fewest likeliest tokens whose probabilities come to this",
            .range = {0, 1}})
      .add(asked.sampling.repetition_penalty,
           {.name = "repetition-penalty",
            .decides = no_result,
            .help = "Above 1 for fewer tokens that are there already",
            .range = above_zero})
      .add(asked.sampling.seed, {"seed", no_result, "Another one writes another text"});
  return s.append(all.only({"model", "base", "base-bits", "precision"}))
      .append(all.in({"Machine"}).where(acts_on_answers));
}

namespace {

void go_on_from_prompt(WritingModel& model, const WriteOptions& asked) {
  const Tokenizer& tokenizer = *model.tokenizer().tokenizer;
  std::vector<int32_t> prompt = encode_with_beginning(tokenizer, asked.prompt);
  if (prompt.empty()) prompt = {tokenizer.end_of_text()};
  model.check_room(
      std::ssize(prompt) + asked.tokens,
      fmt::format("{} and --tokens {}", counted(std::ssize(prompt), "token"), asked.tokens));
  say("{}", asked.prompt);
  try {
    model.go_on(prompt, asked.tokens, asked.sampling, {}, [](const std::string& text) {
      say("{}", text);
      return true;
    });
  } catch (...) {  // what went wrong begins a line
    say("\n");
    throw;
  }
  say("\n");
}

}  // namespace

void write_text(const Request& options, const WriteOptions& asked) {
  check_sampling(asked.sampling);
  check(asked.messages.empty() || asked.prompt.empty(),
        "--messages {} are answered without a --prompt: expected one of the two", asked.messages);
  WritingModel model(options, asked.tokenizer);
  if (!asked.messages.empty()) answer_messages(model, options, asked);
  else if (asked.chat) answer_lines(model, options, asked);
  else go_on_from_prompt(model, asked);
}

}  // namespace accrue::app
