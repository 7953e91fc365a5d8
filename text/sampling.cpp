#include "text/sampling.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>

#include "core/error.h"
#include "core/inside.h"
#include "core/random.h"
#include "data/strict_json.h"
#include "kernels/linear.h"
#include "text/config_file.h"

namespace accrue {

void check_sampling(const Sampling& s) {
  check(s.temperature >= 0 && std::isfinite(s.temperature) && s.top_k >= 0 && 0 < s.top_p &&
            s.top_p <= 1 && 0 < s.repetition_penalty && std::isfinite(s.repetition_penalty),
        "a temperature of {}, top k of {}, top p of {} and repetition penalty of {}: expected at "
        "least 0, at least 0, above 0 up to 1, and above 0",
        s.temperature, s.top_k, s.top_p, s.repetition_penalty);
}

int32_t draw_token(std::span<const float> logits, const Sampling& sampling, uint64_t step) {
  check(std::ranges::all_of(logits, [](float x) { return std::isfinite(x); }),
        "a logit is not finite: expected weights that have been trained");
  const auto largest = std::ranges::max_element(logits);
  if (sampling.temperature == 0) return static_cast<int32_t>(largest - logits.begin());
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater(), [&](int32_t v) { return logits[size_t(v)]; });
  if (sampling.top_k > 0) order.resize(std::min(order.size(), size_t(sampling.top_k)));
  std::vector<double> shares;
  double sum = 0;
  for (const int32_t v : order) {
    shares.push_back(std::exp(double(logits[size_t(v)] - *largest) / sampling.temperature));
    sum += shares.back();
  }
  double kept = 0;
  size_t n = 0;
  while (n < shares.size() && kept < sampling.top_p * sum) kept += shares[n++];
  double left = double(RandomStream(sampling.seed, step).uniform()) * kept;
  for (size_t i = 0; i < n; ++i)
    if ((left -= shares[i]) < 0) return order[i];
  return order[n - 1];
}

void detail::penalize(std::span<float> logits, std::span<const int32_t> text,
                      double repetition_penalty) {
  if (repetition_penalty == 1) return;
  const auto penalty = static_cast<float>(repetition_penalty);
  for (const int32_t token : std::set<int32_t>(text.begin(), text.end()))
    if (size_t(token) < logits.size())
      logits[size_t(token)] *= logits[size_t(token)] < 0 ? penalty : 1 / penalty;
}

std::vector<float> TextWriter::read(std::span<const int32_t> tokens, const Sampling& sampling) {
  const auto t = std::ssize(tokens);
  Pass pass = Pass::eval();
  pass.begin = std::ssize(read_);
  std::vector<int32_t> positions(tokens.size());
  std::iota(positions.begin(), positions.end(), static_cast<int32_t>(pass.begin));
  read_.insert(read_.end(), tokens.begin(), tokens.end());
  const std::vector<int32_t> last_tokens(tokens.begin(), tokens.end());
  const Tensor x = model_.states(
      {Tensor::from(last_tokens, {1, t}, device_), Tensor::from(positions, {1, t}, device_)}, pass,
      cache_);
  const Tensor last = x.reshape({t, x.size(2)}).slice(t - 1, t);
  const Tensor all = as_f32(linear(last, model_.head(), {}).to(Device::cpu));
  const auto known = sampling.vocabulary > 0 ? sampling.vocabulary : all.numel();
  const auto some = all.span<float>().first(size_t(std::min(known, all.numel())));
  std::vector<float> logits(some.begin(), some.end());
  penalize(logits, read_, sampling.repetition_penalty);
  return logits;
}

bool TextWriter::go_on(std::span<const int32_t> prompt, int64_t tokens, const Sampling& sampling,
                       const std::function<bool(int32_t token)>& take) {
  check_sampling(sampling);
  const int64_t length = std::ssize(prompt) + tokens;
  check(!prompt.empty(), "there is nothing to continue: expected a prompt of at least one token");
  check(model_.context() == 0 || length <= model_.context(),
        "a prompt of {} tokens and {} more: the model has {} positions; expected fewer",
        prompt.size(), tokens, model_.context());
  const NoGrad no_grad;
  if (length > room_) {  // double it, so that tokens are seldom read again
    read_.clear();
    room_ = std::max(length, 2 * room_);
    cache_ = std::make_shared<KeyValueCache>(room_);
  }
  // The last token is always read, because its logits are needed.
  const auto before = prompt.first(prompt.size() - 1);
  kept_ = std::ranges::mismatch(read_, before).in2 - before.begin();
  read_.resize(size_t(kept_));
  std::vector<int32_t> next(prompt.begin() + kept_, prompt.end());
  for (int64_t i = 0; i < tokens; ++i) {
    next = {draw_token(read(next, sampling), sampling, drawn_++)};
    if (!take(next.front())) return true;
  }
  return false;
}

void continue_text(const LanguageModel& model, std::span<const int32_t> prompt, int64_t tokens,
                   const Sampling& sampling, Device device,
                   const std::function<bool(int32_t token)>& take) {
  TextWriter(model, device).go_on(prompt, tokens, sampling, take);
}

namespace {

using nlohmann::json;

constexpr int64_t top_k_of_generate = 50;

std::optional<ConfigFile> file_in(const Metadata& files, const char* name) {
  constexpr int most_levels = 16;
  constexpr int64_t most_elements = 1 << 16;
  const auto found = files.find(name);
  if (found == files.end()) return {};
  return std::optional<ConfigFile>(
      std::in_place, name, parse_strict_json(found->second, most_levels, name, most_elements),
      generation_keys());
}

// Reads one token or a list.
std::vector<int32_t> ends_of(const ConfigFile& config) {
  json ends = config["eos_token_id"];
  if (ends.is_null()) return {};
  if (!ends.is_array()) ends = json::array({ends});
  std::vector<int32_t> all;
  for (const json& end : ends) {
    check(end.is_number_integer() && end >= 0 && end <= INT32_MAX,
          "{}: eos_token_id is {}, expected the number of a token, or several", config.where(),
          config["eos_token_id"].dump());
    all.push_back(end.get<int32_t>());
  }
  return all;
}

}  // namespace

Generation generation_in(const Metadata& files) {
  Generation result;
  const auto said = file_in(files, "generation_config.json"), model = file_in(files, "config.json");
  if (!said) {
    if (model) result.ends = ends_of(*model);
    return result;
  }
  result.ends = ends_of(*said);
  result.unheeded = said->asks_for();
  Sampling& sampling = result.sampling;
  sampling.repetition_penalty = said->number("repetition_penalty", 1);
  if (!said->flag("do_sample", false)) return result;
  sampling.temperature = said->number("temperature", 1);
  sampling.top_p = said->number("top_p", 1);
  const json& top_k = (*said)["top_k"];
  sampling.top_k = top_k.is_null() ? top_k_of_generate : top_k == 0 ? 0 : said->count("top_k");
  check_sampling(sampling);
  return result;
}

}  // namespace accrue
