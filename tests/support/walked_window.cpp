#include "tests/support/walked_window.h"

#include <memory>

#include "tests/support/device.h"
#include "train/window_loss.h"

namespace accrue::test {

Player player_of(LossWay way, const Layer& model, const Objective& objective, Window& window,
                 size_t parts, Ranks* ranks, const MakeWalk& each) {
  auto answer = [&model, &objective, way, parts, answered = size_t{0}](const Samples& samples,
                                                                       Pass pass) mutable {
    if (way == LossWay::other_masks) pass.seed += answered++ / parts;
    return objective.answer(model, samples, pass);
  };
  const auto of_answers = [&objective](const Tensor& answers) {
    return objective.window_loss(answers);
  };
  Player player{.name = "", .window = window};
  if (way == LossWay::at_once) {
    player.loss = [=](const Samples& samples, const Pass& pass) mutable {
      return of_answers(answer(samples, pass));
    };
  } else {
    const auto loss = std::make_shared<WindowLoss>(answer, of_answers,
                                                   way == LossWay::each_rank ? nullptr : ranks);
    player.loss = [loss](const Samples& samples, const Pass& pass) {
      return loss->loss(samples, pass);
    };
    player.walk = [loss, each] { return loss->walk(each); };
  }
  // For a micro-batch of half the window this is half the weight that WindowLoss asks for, and so
  // on.
  if (way == LossWay::unweighted)
    player.weight = [](const Samples& samples) {
      return Tensor::full({}, double(samples.size() * samples.size()) / golden_window_size,
                          DType::f64, test_device());
    };
  return player;
}

WindowOutcome take_steps(const Player& player, const std::vector<MicroBatch>& parts, int steps) {
  Game game({player});
  WindowOutcome outcome;
  for (int step = 0; step < steps; ++step) {
    game.play(window_of(parts), {.seed = 5, .epoch = step});
    outcome.add_step(player.window);
  }
  outcome.set_weights(player.window.parameters());
  return outcome;
}

}  // namespace accrue::test
