#include "text/samples.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "text/domain.h"
#include "text/language_model.h"
#include "text/sampling.h"
#include "text/tokenizer.h"

namespace accrue {
namespace {

constexpr int64_t most_prompt_tokens = 16, most_new_tokens = 64;

// The first tokens of the first row: at most those from one document, and at most half of a short
// row, so that there is room for more.
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

// The text as one line: line breaks and other control characters are escaped.
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

class TextSamples : public Observer {
 public:
  TextSamples(const Request& request, Trainer& trainer, RunLog& log, const Dataset& held_out,
              std::function<void(const WrittenSample&)> show)
      : sample_every_(request.sample_every), trainer_(trainer), log_(log), show_(std::move(show)) {
    if (!sample_every_) return;
    const Text& text = request.domains.get<Text>();
    tokenizer_ = text.tokenizer_of(request.data_name());
    const std::string& asked = text.sample_prompt;
    prompt_ = asked.empty() ? beginning_of(held_out) : encode_with_beginning(*tokenizer_, asked);
    const LanguageModel& model = LanguageModel::of(trainer.training().model());
    const int64_t room =
        model.context() == 0 ? most_new_tokens : model.context() - std::ssize(prompt_);
    check(room > 0, "--sample-prompt has {} tokens, but the model has {} positions: expected fewer",
          prompt_.size(), model.context());
    tokens_ = std::min(most_new_tokens, room);
  }

  // Reports errors instead of throwing them. A training that goes wrong reports that itself, and an
  // observer must not end it.
  void on_window(const Player&) override {
    if (!sample_every_) return;
    const int64_t window = trainer_.windows() + 1;
    if (window % *sample_every_ != 0) return;
    std::string text;
    try {
      text = written();
    } catch (const Error& error) {
      return show_({.window = window, .error = error.what()});
    }
    show_({.window = window, .line = as_one_line(text)});
    log_.sample(window, "sample", text);
  }

 private:
  std::string written() const {
    std::vector<int32_t> tokens = prompt_;
    continue_text(LanguageModel::of(trainer_.training().model()), prompt_, tokens_,
                  {.vocabulary = tokenizer_->size()}, trainer_.training().device(),
                  [&](int32_t token) {
                    if (token == tokenizer_->end_of_text()) return false;
                    tokens.push_back(token);
                    return true;
                  });
    return tokenizer_->decode(tokens);
  }

  const std::optional<int64_t> sample_every_;
  Trainer& trainer_;
  RunLog& log_;
  const std::function<void(const WrittenSample&)> show_;
  TokenizerPtr tokenizer_;
  std::vector<int32_t> prompt_;
  int64_t tokens_ = 0;
};

}  // namespace

std::unique_ptr<Observer> watch_writing(const Request& request, Trainer& trainer, RunLog& log,
                                        const Dataset& held_out, const Notices& notices,
                                        std::function<void(const WrittenSample&)> show) {
  const Text& text = request.domains.get<Text>();
  if (text.lora.rank && text.base.empty() && request.init.empty() && trainer.windows() == 0)
    notices.warn(
        "--lora {} trains adapters alone, and what they are added to is random: expected --init or "
        "--base",
        *text.lora.rank);
  return std::make_unique<TextSamples>(request, trainer, log, held_out, std::move(show));
}

}  // namespace accrue
