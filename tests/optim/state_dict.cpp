// The state that one window passes on to the next continues with the same bits in another Window.

#include "optim/state_dict.h"

#include <algorithm>
#include <cstddef>

#include "accumulate/window.h"
#include "kernels/cross_entropy.h"
#include "layers/models.h"
#include "tests/support/batch.h"
#include "tests/support/catch.h"

namespace accrue::test::state_dict {
namespace {

constexpr int64_t N = 6, classes = 3;
using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(Parameters&)>;

struct Learner {
  std::unique_ptr<Layer> model;
  Parameters parameters;
  std::unique_ptr<Optimizer> optimizer;
  Window window;

  Learner(ModelKind kind, const MakeOptimizer& make, Strategy strategy, uint64_t seed)
      : model(make_model(default_model(kind))),
        parameters(place(*model, DType::f32, test_device(), seed, gradient_storage(strategy))),
        optimizer(make(parameters)),
        window(*optimizer,
               ScheduleOptions{.kind = ScheduleOptions::Kind::plateau, .base = 0.01, .patience = 0},
               {.effective_batch_size = N, .strategy = strategy, .ema_decay = 0.99}) {}

  void step(int64_t number) {
    const Batch batch =
        random_batch({N, 1, 28, 28}, classes, 7 + static_cast<uint64_t>(number), DType::f32);
    window.backward(cross_entropy((*model)(batch.x), batch.labels), N);
    window.step();
    window.schedule().observe(double(number % 3));
  }

  void take(Learner& other) {
    const StateDict from = other.window.state_dict(), to = window.state_dict();
    REQUIRE(to.tensors.size() == from.tensors.size());
    REQUIRE(to.numbers.size() == from.numbers.size());
    for (size_t i = 0; i < to.tensors.size(); ++i)
      to.tensors[i].second.copy_from(from.tensors[i].second);
    for (size_t i = 0; i < to.numbers.size(); ++i)
      std::visit(
          [&](auto* number) { *number = *std::get<decltype(number)>(from.numbers[i].second); },
          to.numbers[i].second);
    parameters.values().copy_from(other.parameters.values());
    parameters.buffers().copy_from(other.parameters.buffers());
    window.restored();
  }
};

bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = a.to(Device::cpu), y = b.to(Device::cpu);
  const auto* of_x = static_cast<const std::byte*>(x.view().data);
  const auto* of_y = static_cast<const std::byte*>(y.view().data);
  return std::equal(of_x, of_x + x.bytes(), of_y, of_y + y.bytes());
}

}  // namespace

TEST_CASE("a window's state goes on elsewhere with the same bits", "[checkpoint]") {
  const MakeOptimizer with_adam = [](Parameters& p) { return adam(p); };
  const MakeOptimizer with_sgd = [](Parameters& p) { return sgd(p, {.momentum = 0.9}); };
  for (const ModelKind kind : {ModelKind::mlp_small, ModelKind::cnn_bn})
    for (const auto& [make, strategy] : {std::pair{with_adam, Strategy::fused},
                                         {with_sgd, Strategy::separate},
                                         {with_adam, Strategy::moments},
                                         {with_sgd, Strategy::step_in_backward},
                                         {with_adam, Strategy::bf16_sum}}) {
      if (on_runner() && kind == ModelKind::cnn_bn) continue;
      INFO("model " << int(kind) << ", strategy " << int(strategy));
      Learner first(kind, make, strategy, 1), second(kind, make, strategy, 2);
      for (int64_t step = 0; step < 3; ++step) first.step(step);
      second.take(first);
      REQUIRE(second.window.steps() == 3);
      REQUIRE(same_bits(first.parameters.values(), second.parameters.values()));
      for (int64_t step = 3; step < 6; ++step) {
        first.step(step);
        second.step(step);
      }
      REQUIRE(same_bits(first.parameters.values(), second.parameters.values()));
      REQUIRE(same_bits(first.parameters.buffers(), second.parameters.buffers()));
      const StateDict a = first.window.state_dict(), b = second.window.state_dict();
      for (size_t i = 0; i < a.tensors.size(); ++i) {
        INFO(a.tensors[i].first);
        REQUIRE(same_bits(a.tensors[i].second, b.tensors[i].second));
      }
      REQUIRE(first.window.lr() == second.window.lr());
      REQUIRE(first.window.lr() < 0.01);
      // Abandoning a window restores the buffers that were loaded.
      const Tensor before = second.parameters.buffers().to(Device::cpu);
      second.window.abandon();
      REQUIRE(same_bits(second.parameters.buffers(), before));
    }
}

TEST_CASE("a window's state is asked for between windows", "[checkpoint]") {
  const MakeOptimizer with_sgd = [](Parameters& p) { return sgd(p); };
  Learner learner(ModelKind::mlp_small, with_sgd, Strategy::fused, 1);
  const Tensor images = Tensor::full({2, 1, 28, 28}, 1, DType::f32, test_device());
  const Tensor labels = Tensor::from(std::vector<int32_t>{0, 1}, {2}, test_device());
  learner.window.backward(cross_entropy((*learner.model)(images), labels), 2);
  REQUIRE_ERROR(learner.window.state_dict(), "after 1 micro-batches of one, with 0 steps");
  learner.window.enqueue_step();
  REQUIRE_ERROR(learner.window.state_dict(), "with 1 steps not reported");
  learner.window.reports(Window::Wait::yes);
  // The window's state, the optimizer's count and the average of the weights.
  REQUIRE(learner.window.state_dict().tensors.size() == 3);
}

}  // namespace accrue::test::state_dict
