// zi2zi under the trainer: a run gives the same bits however it is interrupted, cut and threaded,
// and takes the predicted memory. tests/fonts/zi2zi.cpp compares its windows with PyTorch's.

#include <limits>
#include <map>

#include "fonts/glyph_drawings.h"
#include "fonts/strokes.h"
#include "fonts/zi2zi_game.h"
#include "kernels/arithmetic.h"
#include "kernels/losses.h"
#include "tests/support/allocation_failure.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/files.h"
#include "tests/support/thread_scope.h"
#include "tests/support/training_state.h"
#include "train/memory_prediction.h"
#include "train/trainer.h"

namespace accrue::test {
namespace {

// Windows of 5, 5 and 3 samples in micro-batches of 3 and, halved, of 2.
constexpr int64_t glyphs = 13, glyphs_of_a_step = 5, glyphs_at_once = 3, glyphs_halved = 2;

// On the runner, each window of 32 pixels takes a second. Networks for fewer than 64 pixels have no
// dropout.
int64_t glyph_steps() { return on_runner() ? 2 : 3; }
int64_t glyph_side() { return on_runner() ? 32 : 64; }

Dataset strokes(int64_t side = glyph_side()) {
  return make_strokes(Split::train, {.train_size = glyphs, .side = side}).to(test_device());
}

Zi2ziGame small_game() {
  Zi2ziGame game;
  game.networks = {.size = glyph_side(),
                   .width = 2,
                   .embedding = 4,
                   .self_attention = true,
                   .spectral_norm = true};
  game.step.schedule.base = 1e-3;
  game.step.beta1 = 0.5;
  return game;
}

TrainingOptions glyph_options(Order order, const Zi2ziGame& game) {
  TrainingOptions options;
  options.players = zi2zi_players(game);
  options.objective = glyph_drawing();
  options.order = order;
  options.batches = {glyphs_at_once, glyphs_of_a_step};
  options.steps = glyph_steps();
  return options;
}

TrainingOptions glyph_options(Order order) { return glyph_options(order, small_game()); }

// The options with batch norms over the whole window.
TrainingOptions seeing_window(TrainingOptions options) {
  options.batch_norm = BatchNormOver::window;
  options.batch_norm_by = BatchNormBy::walk;
  options.window_passes = 200;
  return options;
}

// The state of a training, with spectral norm's u and v and the adversarial weight.
TrainingState state_of_glyphs(Training& training) {
  TrainingState state = state_of_training(training);
  REQUIRE(state.contains("discriminator.adversarial_weight"));
  REQUIRE(state.contains("discriminator.conv.0.weight_u"));
  REQUIRE(state.contains("generator.optimizer.m"));
  return state;
}

struct Silence : Observer {
  void on_halving(const Halving& halving) override { halvings.push_back(halving); }
  void on_step(const WindowReport& report) override {
    ++steps;
    skipped += report.skipped;
  }
  std::vector<Halving> halvings;
  int64_t steps = 0, skipped = 0;
};

TrainingState trained(const TrainingOptions& options, const Dataset& data) {
  Trainer trainer(options, data, test_device());
  Silence observer;
  trainer.run(observer);
  REQUIRE(observer.skipped == 0);
  return state_of_glyphs(trainer.training());
}

void play_turn(Training& training, const Game::Turn& turn, Loader& loader, int64_t window) {
  loader.start_epoch(0, window);
  for (bool ended = false; !ended;) {
    const MicroBatch* part = loader.next();
    training.micro_step(turn, *part, 0);
    ended = part->ends_window;
  }
  training.game().step(turn);
}

// A run by hand. Its micro-batches are whole before turn `change`, counted over all windows, and
// halved from there on.
TrainingState by_turns(TrainingOptions options, const Dataset& data, int64_t change) {
  options.cuda_graphs = Graphs::off;
  Training training(options, data, test_device());
  int64_t turns = 0;
  for (int64_t w = 0; w < glyph_steps(); ++w) {
    for (const Game::Turn& turn : training.game().turns()) {
      Loader loader(data, {.effective_batch_size = glyphs_of_a_step,
                           .micro_batch_size = turns++ < change ? glyphs_at_once : glyphs_halved,
                           .seed = options.seed,
                           .device = test_device()});
      play_turn(training, turn, loader, w);
    }
    training.game().end_window();
    for (const Player& player : training.game().players()) player.window.reports(Window::Wait::yes);
  }
  return state_of_glyphs(training);
}

}  // namespace

TEST_CASE("a training of zi2zi is stopped after any window and resumed with the same bits",
          "[zi2zi]") {
  Zi2ziGame twice = small_game();
  twice.generator_times = 2;
  twice.networks.norm = NormKind::batch;
  std::vector<TrainingOptions> all{glyph_options(Order::simultaneous),
                                   glyph_options(Order::alternating),
                                   glyph_options(Order::alternating, twice)};
  all.push_back(seeing_window(all.back()));
  if (on_runner()) all.resize(1);
  for (TrainingOptions& options : all) {
    CAPTURE(options.order == Order::simultaneous, options.players[1].times);
    const Dataset data = strokes();
    const TrainingState whole = trained(options, data);
    const TemporaryDirectory folder;
    options.checkpoints = {.directory = folder.path().string(), .every = 1, .resume = true};
    for (int64_t until = 1; until <= glyph_steps(); ++until) {
      Trainer trainer(options, data, test_device());
      Silence observer;
      trainer.resume(observer);
      trainer.run(observer,
                  [&] { return trainer.windows() >= until ? Stop::after_window : Stop::no; });
      REQUIRE(trainer.windows() == until);
      if (until == glyph_steps()) REQUIRE(state_of_glyphs(trainer.training()) == whole);
      else REQUIRE(state_of_glyphs(trainer.training()) != whole);
    }
  }
}

TEST_CASE("a turn of zi2zi's generator without enough memory is run again in halves",
          "[zi2zi][oom]") {
  const Dataset data = strokes();
  for (const Order order : {Order::alternating, Order::simultaneous}) {
    if (on_runner() && order == Order::simultaneous) continue;
    TrainingOptions options = glyph_options(order);
    options.on_oom = OnOom::split;
    options.cuda_graphs = Graphs::off;  // replayed work allocates nothing
    // The turn that fails, in the second window: the generator's, after the discriminator has
    // stepped, or the turn of both.
    const int64_t failing = order == Order::alternating ? 3 : 1;
    int64_t begin = 0, end = 0;  // of its allocations
    {
      const int64_t start = allocations();
      Training training(options, data, test_device());
      int64_t turns = 0;
      for (int64_t w = 0; w < 2; ++w)
        for (const Game::Turn& turn : training.game().turns()) {
          if (turns++ == failing) begin = allocations() - start;
          play_turn(training, turn, training.loader(), w);
          end = allocations() - start;
        }
    }
    REQUIRE(end - begin > 100);
    const TrainingState expected = by_turns(options, data, failing);
    if (!on_runner()) REQUIRE(expected != by_turns(options, data, failing + 1));
    const int64_t places = on_runner() ? 1 : 5;
    for (int64_t i = 0; i < places; ++i) {
      const int64_t allocation = begin + 1 + i * (end - begin) / places;
      CAPTURE(int(order), allocation, begin, end);
      const AllocationFailure failure(allocation);
      Trainer trainer(options, data, test_device());
      Silence observer;
      trainer.run(observer);
      REQUIRE(failure.happened());
      REQUIRE(observer.halvings.size() == 1);
      REQUIRE(observer.halvings[0].window == 1);
      REQUIRE(state_of_glyphs(trainer.training()) == expected);
    }
  }
}

TEST_CASE("an overflow of one of zi2zi's networks leaves no trace in either", "[zi2zi]") {
  const Dataset data = strokes();
  const TrainingState undisturbed = [&] {
    TrainingOptions options = glyph_options(Order::simultaneous);
    options.steps = 2;
    return trained(options, data);
  }();
  for (const size_t poisoned : {0, 1}) {
    if (on_runner() && poisoned == 0) continue;
    CAPTURE(poisoned);
    TrainingOptions options = glyph_options(Order::simultaneous);
    options.cuda_graphs = Graphs::off;
    bool poison = false;
    options.players[poisoned].loss = [&poison, loss = options.players[poisoned].loss](
                                         const Networks& networks, const Samples& s,
                                         const Pass& pass) {
      Loss result = loss(networks, s, pass);
      if (poison) result.value = scale(result.value, std::numeric_limits<double>::infinity());
      return result;
    };
    Training training(options, data, test_device());
    const auto play = [&](int64_t window) {
      play_turn(training, training.game().turns().front(), training.loader(), window);
      training.game().end_window();
      std::vector<bool> skipped;
      for (const Player& player : training.game().players())
        skipped.push_back(player.window.reports(Window::Wait::yes).front().skipped);
      return skipped;
    };
    REQUIRE(play(0) == std::vector{false, false});
    const TrainingState before = state_of_glyphs(training);
    poison = true;
    REQUIRE(play(1) == std::vector{true, true});
    REQUIRE(state_of_glyphs(training) == before);
    poison = false;
    // The overflow leaves no trace in the next window, either.
    REQUIRE(play(1) == std::vector{false, false});
    const TrainingState after = state_of_glyphs(training);
    REQUIRE(after == undisturbed);
    for (const auto& name : {"discriminator.adversarial_weight", "discriminator.conv.0.weight_u",
                             "discriminator.category.weight_v", "generator.encoder.0.conv.weight"})
      REQUIRE(after.at(name) != before.at(name));
  }
}

TEST_CASE("zi2zi has the same bits on any number of threads", "[zi2zi]") {
  if (on_runner()) return;  // whose kernels are given to no other
  const Dataset data = strokes();
  std::vector<TrainingState> states;
  for (const int threads : {1, 2, 3}) {
    const ThreadScope scope(threads);
    states.push_back(trained(glyph_options(Order::alternating), data));
    REQUIRE(states.back() == states.front());
  }
}

TEST_CASE("zi2zi has the same bits however much of it is recomputed", "[zi2zi]") {
  const Dataset data = strokes();
  for (const NormKind norm : {NormKind::instance, NormKind::batch})
    for (const Constancy constancy : {Constancy::port, Constancy::original}) {
      Zi2ziGame game = small_game();
      game.networks.norm = norm;
      game.losses.constancy = constancy;
      if (norm == NormKind::batch) game.networks.skip = Skip::concat;
      if (on_runner() && (norm == NormKind::batch) == (constancy == Constancy::port)) continue;
      TrainingOptions options = glyph_options(Order::alternating, game);
      const TrainingState kept = trained(options, data);
      for (const Recompute recompute : {Recompute::sqrt, Recompute::all}) {
        if (reduced() && (norm == NormKind::batch) == (recompute == Recompute::sqrt)) continue;
        options.recompute = recompute;
        REQUIRE(trained(options, data) == kept);
      }
    }
}

// The window is one micro-batch, and its activations decide the peak. Nothing is computed.
TEST_CASE("recomputing zi2zi saves more the more is recomputed", "[zi2zi][plan]") {
  Zi2ziGame game = small_game();
  game.networks.size = 64;
  game.networks.width = 8;
  TrainingOptions options = glyph_options(Order::alternating, game);
  options.batches = {glyphs_of_a_step, glyphs_of_a_step};
  const Dataset data = strokes(game.networks.size);
  const auto activations = [&](Recompute recompute) {
    options.recompute = recompute;
    return double(predict_peak(options, {data, data}, test_device())[Category::activations]);
  };
  const double none = activations(Recompute::none), all = activations(Recompute::all);
  REQUIRE(all < 0.85 * none);
  REQUIRE(activations(Recompute::sqrt) < 0.7 * all);
}

TEST_CASE("the memory of zi2zi is predicted to the byte", "[zi2zi][plan]") {
  const Dataset data = strokes(), test = strokes();
  const auto compare = [&](TrainingOptions options, const std::string& what) {
    INFO(what);
    options.steps = 2;
    Trainer trainer(options, data, test_device());
    Silence observer;
    trainer.run(observer);
    const Usage peak = ledger(test_device()).peak();
    REQUIRE(predict_peak(options, {data, test}, test_device()).bytes == peak.bytes);
  };
  int64_t number = 0;
  for (const bool attention : {true, false})
    for (const Recompute recompute : {Recompute::sqrt, Recompute::none, Recompute::all})
      for (const Precision precision : {Precision::fp16, Precision::fp32, Precision::bf16})
        for (const Strategy strategy :
             {Strategy::fused, Strategy::separate, Strategy::moments, Strategy::step_in_backward})
          for (const Order order : {Order::alternating, Order::simultaneous}) {
            const bool drops = drops_gradients(strategy);
            if (drops && order == Order::simultaneous) continue;
            if (on_runner() && number++ % (reduced() ? 54 : 40) != 0) continue;
            Zi2ziGame game = small_game();
            game.networks.self_attention = attention;
            TrainingOptions options = glyph_options(order, game);
            options.recompute = recompute;
            options.precision = precision;
            options.strategy = strategy;
            if (drops)
              for (PlayerOptions& player : options.players) player.step.loss_scale = 128;
            if (strategy == Strategy::step_in_backward)
              options.batches = {glyphs_of_a_step, glyphs_of_a_step};
            compare(
                options,
                fmt::format("attention {}, recompute {}, precision {}, strategy {}, order {}",
                            attention, int(recompute), int(precision), int(strategy), int(order)));
          }
  Zi2ziGame game = small_game();
  game.networks.norm = NormKind::batch;
  for (const Order order : {Order::simultaneous, Order::alternating})
    if (!on_runner() || order == Order::simultaneous)
      compare(seeing_window(glyph_options(order, game)), "norms over the window");
}

// Compares terms of the losses: both players' losses use the drawings that G makes in the same
// pass.
TEST_CASE("zi2zi's discriminator judges the drawings that its generator is trained on", "[zi2zi]") {
  Zi2ziGame game = small_game();
  game.networks.size = 64;
  game.networks.dropout = 0.5;
  std::map<int64_t, std::map<std::string, std::vector<double>>> drawings;  // by micro-batch size
  for (const int64_t micro : {5, 3, 1}) {
    if (on_runner() && micro == 5) continue;
    TrainingOptions options = glyph_options(Order::simultaneous, game);
    options.batches.micro = micro;
    options.steps = 1;
    options.cuda_graphs = Graphs::off;  // values are read on the way
    for (PlayerOptions& player : options.players) {
      const bool judges = player.name == "discriminator";
      player.loss = [&, judges, micro, loss = player.loss](const Networks& networks,
                                                           const Samples& s, const Pass& pass) {
        Loss result = loss(networks, s, pass);
        const NoGrad no_grad;
        const auto& D = dynamic_cast<const Zi2ziDiscriminator&>(networks["discriminator"]);
        const Tensor drawn = glyph_drawing()->answer(networks["generator"], s, pass);
        const Tensor is_real = D.judge(s["sources"], drawn, pass).is_real;
        REQUIRE(to_doubles(glyph_drawing()->answer(networks["generator"], s, Pass::eval())) !=
                to_doubles(drawn));
        const Tensor& term = result.terms[judges ? 1 : 0];
        REQUIRE(term.item() == bce_with_logits(is_real, judges ? 0.0 : 1.0).item());
        const Tensor host = on_host(pass.samples);
        const auto indices = host.span<int32_t>();
        for (int64_t i = 0; i < s.size(); ++i)
          drawings[micro][fmt::format("{} {}", indices[size_t(i)], judges ? "judged" : "trained")] =
              to_doubles(drawn.slice(i, i + 1));
        return result;
      };
    }
    trained(options, strokes(64));
    auto& all = drawings[micro];
    REQUIRE(all.size() == 2 * glyphs_of_a_step);
    for (const auto& [name, drawing] : all)
      if (name.ends_with("judged"))
        REQUIRE(all.at(name.substr(0, name.find(' ')) + " trained") == drawing);
    REQUIRE(all == drawings.begin()->second);
  }
}

TEST_CASE("zi2zi draws each glyph with the same bits, whatever is drawn beside it", "[zi2zi]") {
  Zi2ziGenerator G({.size = glyph_side(), .styles = 3, .width = 2, .self_attention = true});
  const Parameters parameters = place(G, DType::f32, test_device(), 1);
  for (const auto& entry : parameters.entries())
    if (entry.name.ends_with("gamma")) entry.tensor.fill(0.5);
  const Samples samples = gather(strokes().to(Device::cpu), 0, 5);
  const Tensor sources = samples["sources"].to(test_device());
  const Tensor styles = Tensor::from(std::vector<int32_t>{0, 1, 2, 1, 0}, {5}, test_device());
  const NoGrad no_grad;
  const auto draw = [&](int64_t begin, int64_t end, const Pass& pass) {
    return G.draw(G.encode(sources.slice(begin, end), pass), styles.slice(begin, end), pass);
  };
  const Tensor together = draw(0, 5, Pass::eval());
  for (const auto& [begin, end] : {std::pair{0, 1}, {1, 2}, {1, 4}, {3, 5}, {4, 5}})
    REQUIRE(to_doubles(draw(begin, end, Pass::eval())) == to_doubles(together.slice(begin, end)));
  REQUIRE(to_doubles(together.slice(0, 1)) != to_doubles(together.slice(1, 2)));
  // Without styles it draws the first style.
  REQUIRE(to_doubles(G(sources.slice(0, 1), Pass::eval())) == to_doubles(together.slice(0, 1)));
}

TEST_CASE("zi2zi varies each glyph by a seed, whatever is drawn beside it", "[zi2zi]") {
  if (on_runner()) return;  // 64 pixels take long, and dropout has its own tests
  for (const NormKind norm : {NormKind::instance, NormKind::batch}) {
    Zi2ziGenerator G({.size = 64, .width = 2, .norm = norm});
    const Parameters parameters = place(G, DType::f32, test_device(), 1);
    const Samples samples = gather(strokes(64).to(Device::cpu), 0, 5);
    const auto buffers = to_doubles(parameters.buffers());
    const auto draw = [&](int64_t begin, int64_t end, int64_t most, uint64_t seed) {
      Variation variation{.seed = seed};
      for (int64_t i = begin; i < end; ++i) variation.glyphs.push_back(int32_t(100 + i));
      return to_doubles(draw_glyphs(G, samples.slice(begin, end), test_device(), most, variation));
    };
    const auto all = draw(0, 5, 5, 7);
    REQUIRE(all != to_doubles(draw_glyphs(G, samples, test_device(), 5)));
    REQUIRE(all != draw(0, 5, 5, 8));
    for (const int64_t most : {1, 2, 4}) REQUIRE(draw(0, 5, most, 7) == all);
    for (const int threads : {1, 3}) {
      const ThreadScope scope(threads);
      REQUIRE(draw(0, 5, 3, 7) == all);
    }
    const auto glyph = draw(3, 4, 1, 7);
    REQUIRE(std::equal(glyph.begin(), glyph.end(), all.begin() + 3 * int64_t(glyph.size())));
    REQUIRE(to_doubles(parameters.buffers()) == buffers);
    REQUIRE_ERROR(draw_glyphs(G, samples, test_device(), 5, Variation{.seed = 1, .glyphs = {1}}),
                  "numbers for 1 of 5 glyphs");
  }
}

TEST_CASE("zi2zi's networks are as large as the port's", "[zi2zi]") {
  const Zi2ziOptions options{.styles = 40, .self_attention = true};
  Zi2ziGenerator G(options);
  Zi2ziDiscriminator D(options);
  REQUIRE(place(G, DType::f32, Device::meta, 1).count() == 66'262'918);
  REQUIRE(place(D, DType::f32, Device::meta, 1).count() == 4'359'786);
}

}  // namespace accrue::test
