#include "text/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/random.h"
#include "kernels/linear.h"

namespace accrue {

void check_sampling(const Sampling& s) {
  check(s.temperature >= 0 && std::isfinite(s.temperature) && s.top_k >= 0 && 0 < s.top_p &&
            s.top_p <= 1,
        "a temperature of {}, top k of {} and top p of {}: expected at least 0, at least 0, and "
        "above 0 up to 1",
        s.temperature, s.top_k, s.top_p);
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

void continue_text(const LanguageModel& model, std::span<const int32_t> prompt, int64_t tokens,
                   const Sampling& sampling, Device device,
                   const std::function<bool(int32_t token)>& take) {
  check_sampling(sampling);
  const int64_t length = std::ssize(prompt) + tokens;
  check(!prompt.empty(), "there is nothing to continue: expected a prompt of at least one token");
  check(model.context() == 0 || length <= model.context(),
        "a prompt of {} tokens and {} more: the model has {} positions; expected fewer",
        prompt.size(), tokens, model.context());
  const NoGrad no_grad;
  const auto cache = std::make_shared<KeyValueCache>(length);
  Pass pass = Pass::eval();
  std::vector<int32_t> next(prompt.begin(), prompt.end());
  for (int64_t i = 0; i < tokens; ++i) {
    const auto t = std::ssize(next);
    std::vector<int32_t> positions(next.size());
    std::iota(positions.begin(), positions.end(), static_cast<int32_t>(pass.begin));
    const Tensor x = model.states(
        {Tensor::from(next, {1, t}, device), Tensor::from(positions, {1, t}, device)}, pass, cache);
    pass.begin += t;
    const Tensor last = x.reshape({t, x.size(2)}).slice(t - 1, t);
    const Tensor logits = as_f32(linear(last, model.head(), {}).to(Device::cpu));
    const auto all = logits.span<float>();
    const auto known = sampling.vocabulary > 0 ? size_t(sampling.vocabulary) : all.size();
    next = {draw_token(all.first(std::min(known, all.size())), sampling, uint64_t(i))};
    if (!take(next.front())) return;
  }
}

}  // namespace accrue
