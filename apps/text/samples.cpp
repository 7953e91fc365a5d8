#include "apps/text/samples.h"

#include <unistd.h>

#include <algorithm>

#include "apps/cli/messages.h"
#include "data/samples.h"
#include "text/domain.h"

namespace accrue::app {
namespace {

constexpr int64_t most_prompt_tokens = 16, most_new_tokens = 64;

// The first tokens of the first row, as far as they are of one document and leave half of a short
// row to be written.
std::vector<int32_t> beginning_of(const Dataset& data) {
  const auto row = [&](const char* name) {
    const Field& field = data.field(name);
    std::vector<int32_t> values(static_cast<size_t>(field.values.size(1)));
    field.read(std::as_writable_bytes(std::span(values)), 0);
    return values;
  };
  std::vector<int32_t> tokens = row("tokens");
  const std::vector<int32_t> positions = row("positions");
  const auto most = std::clamp<int64_t>(std::ssize(tokens) / 2, 1, most_prompt_tokens);
  int64_t n = 1;
  while (n < most && positions[size_t(n)] == n) ++n;
  tokens.resize(static_cast<size_t>(n));
  return tokens;
}

// With line breaks and other control characters as escapes, so that it is one line.
std::string as_one_line(const std::string& text) {
  std::string line;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') line += "\\n";
    else if (byte < 0x20 || byte == 0x7f) line += fmt::format("\\x{:02X}", byte);
    else line += c;
  }
  return line;
}

}  // namespace

TextSamples::TextSamples(const Request& options, Trainer& trainer, RunLog& log,
                         const Dataset& held_out)
    : sample_every_(options.sample_every), trainer_(trainer), log_(log) {
  if (!sample_every_) return;
  const Text& text = options.domains.get<Text>();
  tokenizer_ = text.tokenizer_of(options.data_name());
  const std::string& asked = text.sample_prompt;
  prompt_ = asked.empty() ? beginning_of(held_out) : encode_with_beginning(*tokenizer_, asked);
  const LanguageModel& model = LanguageModel::of(trainer.training().model());
  const int64_t room =
      model.context() == 0 ? most_new_tokens : model.context() - std::ssize(prompt_);
  check(room > 0, "--sample-prompt has {} tokens, but the model has {} positions: expected fewer",
        prompt_.size(), model.context());
  tokens_ = std::min(most_new_tokens, room);
}

std::string TextSamples::written() const {
  const LanguageModel& model = LanguageModel::of(trainer_.training().model());
  std::vector<int32_t> tokens = prompt_;
  continue_text(model, prompt_, tokens_, {.vocabulary = tokenizer_->size()},
                trainer_.training().device(), [&](int32_t token) {
                  if (token == tokenizer_->end_of_text()) return false;
                  tokens.push_back(token);
                  return true;
                });
  return tokenizer_->decode(tokens);
}

// A training that goes wrong says so itself, and is not to end by what looks on.
void TextSamples::on_window(const Player&) {
  if (!sample_every_) return;
  const int64_t window = trainer_.windows() + 1;
  if (window % *sample_every_ != 0) return;
  const std::string place =
      fmt::format("{}[Window {}] ", draws_over(STDOUT_FILENO) ? "\r\033[K" : "", window);
  std::string text;
  try {
    text = written();
  } catch (const Error& error) {
    say_error("{}warning: nothing is written on the way: {}\n", place, error.what());
    return;
  }
  say("{}{}\n", place, as_one_line(text));
  log_.sample(window, "sample", text);
}

}  // namespace accrue::app
