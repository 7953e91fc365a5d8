#include "text/writing_model.h"

#include <algorithm>

#include "job/machine.h"
#include "text/base.h"
#include "train/weights.h"

namespace accrue {
namespace {

LoadedNetwork load(const Request& request, const Text& text, const BasePtr& base, Device device) {
  if (!base) return load_network(request, request.sample, device);
  // The base, with the adapters in `init` if there are any.
  const SampleSpec rows = Text::rows_of_tokens(1, base->model().vocabulary);
  auto model = make_text_model(text.network(request.model_name, request.network, rows, base),
                               text.lora, base);
  Parameters parameters = place(*model, compute_dtype(request.precision), device, request.seed,
                                GradientStorage::on_demand);
  if (!request.init.empty()) load_weights(request.init, parameters);
  return {std::move(model), std::move(parameters)};
}

// Requests the chosen device explicitly, so that nothing is reported about the choice.
Device device_for_writing(Request request, const Notices& notices) {
  request.device = wanted_device(request);
  return apply_machine_settings(request, notices);
}

}  // namespace

WritingModel::WritingModel(const Request& request, const std::string& tokenizer,
                           const Notices& notices)
    : notices_(notices) {
  const Text& text = text_of(request);
  check(!request.init.empty() || !text.base.empty(),
        "there is no model: expected --weights FILE.safetensors, or --base FILE.gguf");
  name_ = request.init.empty() ? text.base : request.init;
  const Device device = device_for_writing(request, notices);
  check(request.init.empty() || request.class_count_of_weights.has_value(),
        "{} has no embedding of tokens: expected weights of a language model", request.init);
  check(
      !text.embeds(),
      "{} has learned from pairs of texts, and nobody has trained its head: expected weights of a "
      "language model; {}",
      name_, text.where_it_answers());
  const BasePtr base = text.base.empty() ? nullptr : text.open_base();
  place_ = text.chosen_tokenizer(tokenizer);
  tokenizer_ = tokenizer_with_files(place_);
  const Tokenizer& own = *tokenizer_.tokenizer;
  text.check_tokenizer({place_, tokenizer_checksum(own), own.size()},
                       base ? base->model().vocabulary : request.sample.classes());
  network_.emplace(load(request, text, base, device));
  generation_ = generation_in(base ? base->model().files : text.files);
  generation_.ends.push_back(own.end_of_text());
  made_for_ = text.context_of_weights(base);
  writer_ = std::make_unique<TextWriter>(model(), device);
}

void WritingModel::check_room(int64_t tokens, const std::string& what) {
  check(positions() == 0 || tokens <= positions(),
        "{} are {}, but {} has an embedding for {} positions: expected fewer tokens", what, tokens,
        name_, positions());
  if (has_warned_ || !made_for_ || tokens <= *made_for_) return;
  has_warned_ = true;
  notices_.warn("{} are {}, but {} is made for {}: it has not learned from longer texts", what,
                tokens, name_, *made_for_);
}

bool WritingModel::go_on(const std::vector<int32_t>& prompt, int64_t tokens, Sampling sampling,
                         const std::set<int32_t>& ends,
                         const std::function<bool(const std::string&)>& take) {
  const Tokenizer& tokenizer = *tokenizer_.tokenizer;
  sampling.vocabulary = tokenizer.size();
  std::vector<int32_t> last{prompt.back()};  // and the tokens after it
  return writer_->go_on(prompt, tokens, sampling, [&](int32_t token) {
    if (ends.contains(token) || std::ranges::count(generation_.ends, token) > 0) return false;
    const size_t written = tokenizer.decode(last).size();
    last.push_back(token);
    const std::string text = tokenizer.decode(last).substr(written);
    last.erase(last.begin());
    return take(text);
  });
}

void WritingModel::write(const std::string& prompt, int64_t tokens, const Sampling& sampling,
                         const std::function<void(const std::string&)>& take) {
  const Tokenizer& own = *tokenizer_.tokenizer;
  std::vector<int32_t> begin = encode_with_beginning(own, prompt);
  if (begin.empty()) begin = {own.end_of_text()};
  check_room(std::ssize(begin) + tokens,
             fmt::format("{} and --tokens {}", counted(std::ssize(begin), "token"), tokens));
  take(prompt);
  go_on(begin, tokens, sampling, {}, [&](const std::string& text) {
    take(text);
    return true;
  });
}

}  // namespace accrue
