// A generator and a discriminator over the same windows, compared with PyTorch's big batch:
// scripts/golden_game.py wrote the golden file in float64.

#include "train/game.h"

#include <cmath>
#include <limits>
#include <map>

#include "data/safetensors.h"
#include "kernels/arithmetic.h"
#include "kernels/losses.h"
#include "layers/models.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/paths.h"
#include "tests/support/thread_ranks.h"

namespace accrue::test {
namespace {

constexpr int64_t samples_of_a_window = 64, windows_played = 6;
using Sizes = std::vector<int64_t>;

using Golden = std::map<std::string, Tensor>;

Golden read_golden() {
  const auto tensors = read_safetensors(source_folder + "/tests/golden/game.safetensors");
  return {tensors.begin(), tensors.end()};
}

Tensor in_f64(const Tensor& tensor) {
  return Tensor::from(to_doubles(tensor), tensor.shape(), test_device());
}

// Mistakes that people make.
enum class Bug { none, half_of_one_loss, zeroed_each_micro_batch };

// A player's network. It starts from the golden file's weights.
struct Network {
  std::unique_ptr<Sequential> model;
  Parameters parameters;
  std::unique_ptr<Optimizer> optimizer;
  Window window;

  Network(const Golden& golden, const std::string& name, std::span<const int64_t> sizes, double lr,
          Ranks* ranks)
      : model(make_mlp(sizes)),
        parameters(place(*model, DType::f64, test_device(), 0)),
        optimizer(adam(parameters, {.eps = 1e-3})),
        window(*optimizer, ScheduleOptions{.base = lr},
               {.effective_batch_size = samples_of_a_window, .ranks = ranks}) {
    for (const auto& entry : parameters.entries())
      entry.tensor.copy_from(in_f64(golden.at("init." + name + "." + entry.name)));
  }

  // All values in order, without the gaps between parameters.
  std::vector<double> weights() const {
    std::vector<double> all;
    for (const auto& entry : parameters.entries())
      for (const double value : to_doubles(entry.tensor)) all.push_back(value);
    return all;
  }
};

// Rank r of R has the r-th, (r + R)-th, ... micro-batch.
std::vector<MicroBatch> cut(const Samples& whole, const Sizes& sizes,
                            const Ranks* ranks = nullptr) {
  const size_t r = ranks ? size_t(ranks->rank()) : 0, R = ranks ? size_t(ranks->count()) : 1;
  std::vector<MicroBatch> parts;
  int64_t begin = 0;
  for (size_t i = 0; i < sizes.size(); begin += sizes[i++])
    if (i % R == r) parts.push_back({whole.slice(begin, begin + sizes[i])});
  return parts;
}

// When the players step: the generator in every `every`-th window, `times` times.
struct Rules {
  Order order = Order::alternating;
  int64_t every = 1, times = 1;
  std::string name() const {
    return fmt::format("{}.{}.{}", order == Order::alternating ? "alternating" : "simultaneous",
                       every, times);
  }
};

struct Pair {
  static constexpr std::array<int64_t, 3> d_sizes{5, 8, 1}, g_sizes{6, 8, 5};
  Golden golden = read_golden();
  Samples samples{{{"inputs", in_f64(golden.at("input"))}, {"real", in_f64(golden.at("real"))}}};
  Ranks* ranks;
  Network d{golden, "D", d_sizes, 1e-2, ranks}, g{golden, "G", g_sizes, 4e-3, ranks};
  Bug bug;
  double poison = 0;  // a factor of the generator's loss; 0: none
  Game game;

  explicit Pair(Rules rules, Bug planted = Bug::none, Ranks* sharing = nullptr)
      : ranks(sharing),
        bug(planted),
        game({{"D", d.window, [this](const Samples& s, const Pass&) { return d_loss(s); }},
              {"G", g.window, [this](const Samples& s, const Pass&) { return g_loss(s); },
               rules.every, rules.times}},
             rules.order) {}

  Samples window(int64_t w) const {
    return samples.slice(w * samples_of_a_window, (w + 1) * samples_of_a_window);
  }
  // Plays one window in micro-batches of these sizes.
  void play(int64_t w, const Sizes& sizes) {
    const auto parts = cut(window(w), sizes, ranks);
    game.play(window_of(parts));
  }

  // The mean loss if the images should be judged as real (1) or fake (0).
  Tensor verdict(const Tensor& images, double is_real) const {
    const Tensor logits = (*d.model)(images);
    return bce_with_logits(
        logits, Tensor::full(logits.shape(), is_real, DType::f64, test_device(), Category::data));
  }
  Tensor d_loss(const Samples& s) const {
    if (bug == Bug::zeroed_each_micro_batch) d.parameters.zero_grad();
    return add(verdict(s["real"], 1), verdict((*g.model)(s["inputs"]), 0));
  }
  Tensor g_loss(const Samples& s) const {
    const Tensor fake = (*g.model)(s["inputs"]);
    const Tensor loss = add(verdict(fake, 1), scale(mse_loss(fake, s["real"]), 2));
    if (poison != 0) return scale(loss, poison);
    return bug == Bug::half_of_one_loss ? scale(loss, 0.5) : loss;
  }
};

// The largest difference from the golden values, relative to the largest golden value.
double difference(const std::vector<double>& actual, const std::vector<double>& expected) {
  REQUIRE(actual.size() == expected.size());
  double largest = 0, far = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    far = std::max(far, std::abs(actual[i] - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return far / largest;
}

// The results of a player: a loss and a norm for each of its steps, the gradients, and the final
// weights.
struct Trace {
  std::vector<double> loss, norm, gradient, weights;
  bool whole = true;  // every window had all samples
};
using Traces = std::map<std::string, Trace>;

Traces play_all(Rules rules, const Sizes& sizes, Bug bug, Ranks* ranks = nullptr) {
  Pair pair(rules, bug, ranks);
  Traces traces;
  for (int64_t w = 0; w < windows_played; ++w) {
    pair.play(w, sizes);
    for (Network* player : {&pair.d, &pair.g}) {
      Trace& of = traces[player == &pair.d ? "D" : "G"];
      const auto reports = player->window.reports(Window::Wait::yes);
      for (const StepReport& report : reports) {
        of.whole = of.whole && report.samples == samples_of_a_window;
        of.loss.push_back(report.loss);
        of.norm.push_back(report.grad_norm);
      }
      of.weights = player->weights();
      if (reports.empty()) continue;
      for (const Window::Gradient& gradient : player->window.last_gradients())
        for (const double sum : to_doubles(gradient.sum))
          of.gradient.push_back(sum * gradient.scale);
    }
  }
  return traces;
}

// The largest difference of both players' losses, norms, gradients and weights from the golden
// values for the rules `expected`, over all windows.
double difference_to_pytorch(const Traces& traces, Rules rules, Rules expected) {
  const Golden golden = read_golden();
  double largest = 0;
  for (const auto& [name, of] : traces) {
    REQUIRE(of.whole);
    const std::string prefix = expected.name() + "." + name + ".";
    const auto compare = [&, &name = name](const std::string& key,
                                           const std::vector<double>& values) {
      CAPTURE(name, key);
      largest = std::max(largest, difference(values, to_doubles(golden.at(prefix + key))));
    };
    compare("loss", of.loss);
    compare("norm", of.norm);
    compare("final", of.weights);
    if (rules.times == 1) compare("gradient", of.gradient);  // a window's last one is known
  }
  return largest;
}
double difference_to_pytorch(Rules rules, const Sizes& sizes, Bug bug, Rules expected) {
  return difference_to_pytorch(play_all(rules, sizes, bug), rules, expected);
}

const std::vector<Sizes> all_sizes{{64}, Sizes(2, 32), {24, 24, 16}, Sizes(64, 1)};

}  // namespace

TEST_CASE("both networks of a game take PyTorch's steps, however a window is cut", "[game]") {
  for (const Rules rules : {Rules{}, Rules{.every = 3}, Rules{.times = 2},
                            Rules{Order::simultaneous}, Rules{Order::simultaneous, 3}})
    for (const Sizes& sizes : all_sizes) {
      if (on_runner() && sizes.size() == 64 && rules.order == Order::simultaneous) continue;
      // For each rule, takes the cut with unequal parts. Takes each other cut once, except the
      // finest.
      const bool first = rules.name() == Rules{}.name();
      if (on_runner() && reduced() && sizes.size() != 3 && (!first || sizes.size() == 64)) continue;
      CAPTURE(rules.name(), sizes.size());
      REQUIRE(difference_to_pytorch(rules, sizes, Bug::none, rules) < 1e-12);
    }
}

// Threads stand in for the processes.
TEST_CASE("ranks that share a game's windows take PyTorch's steps", "[game]") {
  if (test_device() != Device::cpu) return;  // several ranks need the cpu
  for (const Rules rules : {Rules{}, Rules{.times = 2}, Rules{Order::simultaneous, 3}})
    for (const Sizes& sizes : {Sizes{64}, Sizes{24, 24, 16}, Sizes(8, 8)})
      for (const int R : {2, 3}) {
        CAPTURE(rules.name(), sizes.size(), R);
        std::vector<Traces> all(static_cast<size_t>(R));
        run_ranks(R, [&](Ranks& ranks) {
          all[size_t(ranks.rank())] = play_all(rules, sizes, Bug::none, &ranks);
        });
        for (const Traces& traces : all)
          for (const char* player : {"D", "G"})
            REQUIRE(traces.at(player).weights == all[0].at(player).weights);
        REQUIRE(difference_to_pytorch(all[0], rules, rules) < 1e-12);
      }
}

TEST_CASE("the bugs of hand-written games are noticed", "[game]") {
  if (on_runner() && reduced()) return;  // nothing of it depends on the device
  const Sizes sizes{24, 24, 16};
  const Rules alternating{}, simultaneous{Order::simultaneous};
  for (const Rules rules : {alternating, simultaneous})
    for (const Bug bug : {Bug::half_of_one_loss, Bug::zeroed_each_micro_batch})
      REQUIRE(difference_to_pytorch(rules, sizes, bug, rules) > 1e-3);
  // A wrong order: with `alternating` the discriminator has stepped before the generator computes
  // its loss.
  REQUIRE(difference_to_pytorch(alternating, sizes, Bug::none, simultaneous) > 1e-3);
}

TEST_CASE("simultaneous players step together or not at all", "[game]") {
  for (const double poison : {std::numeric_limits<double>::quiet_NaN(), 1e300}) {
    const Sizes sizes{32, 32};
    Pair pair({Order::simultaneous}), alternating({Order::alternating});
    for (Pair* each : {&pair, &alternating}) {
      each->play(0, sizes);
      const auto d_before = each->d.weights(), g_before = each->g.weights();
      each->poison = poison;
      each->play(1, sizes);
      each->poison = 0;
      const auto d = each->d.window.reports(Window::Wait::yes),
                 g = each->g.window.reports(Window::Wait::yes);
      REQUIRE(g.at(1).skipped);
      REQUIRE(each->g.weights() == g_before);
      // If players alternate, D has stepped before G's step is skipped.
      REQUIRE(d.at(1).skipped == (each == &pair));
      REQUIRE((each->d.weights() == d_before) == (each == &pair));
      REQUIRE(d.at(1).step == (each == &pair ? 1 : 2));
      REQUIRE(g.at(1).step == 1);
    }
    // The skipped window leaves no trace in what follows.
    pair.play(1, sizes);
    Pair undisturbed({Order::simultaneous});
    for (const int64_t w : {0, 1}) undisturbed.play(w, sizes);
    REQUIRE(pair.d.weights() == undisturbed.d.weights());
    REQUIRE(pair.g.weights() == undisturbed.g.weights());
  }
}

TEST_CASE("a game goes on elsewhere with the same bits", "[game]") {
  const auto play = [](Pair& pair, int64_t from, int64_t to) {
    for (int64_t w = from; w < to; ++w) pair.play(w, {24, 24, 16});
    for (Network* player : {&pair.d, &pair.g}) player->window.reports(Window::Wait::yes);
  };
  const Rules rules{.every = 3};
  Pair whole(rules), first(rules), second(rules);
  play(whole, 0, windows_played);
  play(first, 0, 4);
  const StateDict from = first.game.state_dict(), to = second.game.state_dict();
  for (size_t i = 0; i < from.tensors.size(); ++i) {
    REQUIRE(from.tensors[i].first == to.tensors[i].first);
    to.tensors[i].second.copy_from(from.tensors[i].second);
  }
  for (size_t i = 0; i < from.numbers.size(); ++i)
    std::visit([&](auto* into) { *into = **std::get_if<decltype(into)>(&from.numbers[i].second); },
               to.numbers[i].second);
  second.d.parameters.values().copy_from(first.d.parameters.values());
  second.g.parameters.values().copy_from(first.g.parameters.values());
  second.game.restored();
  play(second, 4, windows_played);
  REQUIRE(second.game.windows() == windows_played);
  REQUIRE(second.d.weights() == whole.d.weights());
  REQUIRE(second.g.weights() == whole.g.weights());
}

TEST_CASE("a window of a game that fails is played again", "[game]") {
  Pair pair({Order::simultaneous}), undisturbed({Order::simultaneous});
  const auto parts = cut(pair.window(0), {32});
  const auto micro_batches = [&](int64_t i) {
    check(i == 0, "no more samples");
    return &parts.front();
  };
  REQUIRE_THROWS_WITH(pair.game.play(micro_batches), "no more samples");
  pair.game.abandon();
  for (Pair* each : {&pair, &undisturbed}) each->play(0, {64});
  REQUIRE(pair.game.windows() == 1);
  REQUIRE(pair.g.weights() == undisturbed.g.weights());
}

TEST_CASE("frozen parameters stay frozen through a game", "[game]") {
  Pair pair({Order::alternating});
  pair.g.parameters.freeze("0.");
  const auto before = to_doubles(pair.g.parameters.entries()[0].tensor);
  pair.play(0, {64});
  REQUIRE(pair.g.parameters.entries()[0].frozen());
  REQUIRE_FALSE(pair.g.parameters.entries()[2].frozen());
  REQUIRE_FALSE(pair.d.parameters.entries()[0].frozen());
  REQUIRE(to_doubles(pair.g.parameters.entries()[0].tensor) == before);
}

TEST_CASE("a game is checked", "[game]") {
  Pair pair({Order::alternating});
  const auto loss = [&](const Samples& s, const Pass&) { return pair.d_loss(s); };
  Window &d = pair.d.window, &g = pair.g.window;
  REQUIRE_THROWS_WITH(Game({}), "a game without players: expected one or more");
  REQUIRE_THROWS_WITH(Game({{"D", d, loss}, {"D", g, loss}}),
                      "two players are called 'D': expected names that differ");
  REQUIRE_THROWS_WITH(
      Game({{"D", d, loss}, {"G", d, loss}}),
      "player 'G' has parameters that another player has, too: expected each player's own");
  REQUIRE_THROWS_WITH(Game({{"D", d, loss, 0}}),
                      "player 'D' plays every 0 windows: expected 1 or more");
  REQUIRE_THROWS_WITH(Game({{"D", d, loss, 1, 0}}),
                      "player 'D' goes 0 times through a window: expected 1 or more");
  REQUIRE_THROWS_WITH(
      Game({{"D", d, loss}, {"G", g, loss, 1, 2}}, Order::simultaneous),
      "player 'G' goes 2 times through a window, but simultaneous players step once, together: "
      "expected 1, or alternating players");
  const auto model = make_mlp(Pair::d_sizes);
  Parameters folded = place(*model, DType::f64, test_device(), 1, GradientStorage::on_demand);
  const auto folding = adam(folded);
  Window moments(*folding, ScheduleOptions{}, {.strategy = Strategy::moments});
  REQUIRE_THROWS_WITH(Game({{"D", moments, loss}}, Order::simultaneous),
                      ContainsSubstring("a strategy that cannot take a window back"));
}

}  // namespace accrue::test
