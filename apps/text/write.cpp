#include "apps/text/write.h"

#include "apps/cli/load_network.h"
#include "apps/cli/messages.h"
#include "apps/text/language_model.h"
#include "text/tokenizers.h"

namespace accrue::app {

Settings settings_of(WriteOptions& asked, Options& options) {
  constexpr Decides no_result = Decides::no_result;
  const Settings all = settings_of(options);
  Settings s;
  s.group("Options")
      .add(options.init, {"weights", no_result, "A language model's, as train saves them",
                          reads("FILE.safetensors")})
      .add(asked.prompt,
           {"prompt", no_result, "The beginning of the text", "TEXT", "the end of another text"})
      .add(asked.tokenizer,
           {"tokenizer", no_result,
            "What the model learned by: bytes, a tokenizer.json or a directory with a tokenizer",
            reads("FILE|DIR"), "what the weights say, or bytes"})
      .add(asked.tokens, {.name = "tokens",
                          .decides = no_result,
                          .help = "At most so many, beyond the prompt",
                          .range = positive})
      .add(asked.sampling.temperature,
           {.name = "temperature",
            .decides = no_result,
            .help = "Above 1 for more surprises, below for fewer; 0: the likeliest token each time",
            .range = not_negative})
      .add(asked.sampling.top_k, {.name = "top-k",
                                  .decides = no_result,
                                  .help = "Draw from the so many likeliest tokens; 0: from all",
                                  .range = not_negative})
      .add(asked.sampling.top_p,
           {.name = "top-p",
            .decides = no_result,
            .help = "Draw from the fewest likeliest tokens whose probabilities come to this",
            .range = {0, 1}})
      .add(asked.sampling.seed, {"seed", no_result, "Another one writes another text"});
  return s.append(all.only({"model", "precision", "device", "threads", "memory-limit"}));
}

void write_text(const Options& options, const WriteOptions& asked) {
  const Text& text = check_language_model(options);
  check_sampling(asked.sampling);
  const Device device = apply_machine_options(options);
  check(options.class_count_of_weights.has_value(),
        "{} has no embedding of tokens: expected weights of a language model", options.init);
  const std::string place = text.chosen_tokenizer(asked.tokenizer);
  const TokenizerPtr tokenizer = tokenizer_at(place);
  text.check_tokenizer({place, tokenizer_checksum(*tokenizer), tokenizer->size()},
                       options.network.classes);
  const LoadedNetwork network = load_network(options, options.network, device);
  const auto& model = dynamic_cast<const LanguageModel&>(*network.model);
  std::vector<int32_t> prompt = encode_with_beginning(*tokenizer, asked.prompt);
  if (prompt.empty()) prompt = {tokenizer->end_of_text()};
  const auto made_for = text.context_of_weights(text.base.empty() ? nullptr : text.open_base());
  const int64_t most = std::ssize(prompt) + asked.tokens;
  if (model.context() == 0 && made_for && most > *made_for)
    say_error(
        "warning: {} and --tokens {} are {}, but {} is made for {}: what is beyond is new to it\n",
        counted(std::ssize(prompt), "token"), asked.tokens, most, options.init, *made_for);
  say("{}", asked.prompt);
  std::vector<int32_t> last{prompt.back()};  // and what follows it
  Sampling sampling = asked.sampling;
  sampling.vocabulary = tokenizer->size();
  const auto write = [&](int32_t token) {
    if (token == tokenizer->end_of_text()) return false;
    const size_t written = tokenizer->decode(last).size();
    last.push_back(token);
    say("{}", tokenizer->decode(last).substr(written));
    last.erase(last.begin());
    return true;
  };
  try {
    continue_text(model, prompt, asked.tokens, sampling, device, write);
  } catch (...) {  // what went wrong begins a line
    say("\n");
    throw;
  }
  say("\n");
}

}  // namespace accrue::app
