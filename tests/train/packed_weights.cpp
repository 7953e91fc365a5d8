// Packed weights, the form in which products use them, are kept for all micro-batches of a window.

#include <thread>
#include <vector>

#include "core/profile.h"
#include "images/digits.h"
#include "layers/layers.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "train/memory_prediction.h"
#include "train/training.h"

namespace accrue::test {
namespace {

// The last convolution has so many weights for 7x7 pixels that keeping their packed form pays for
// micro-batches of 1.
std::unique_ptr<Layer> wide_net() {
  auto net = std::make_unique<Sequential>();
  net->add<Conv2d>(1, 16, 4, Conv2dShape{.stride = 4});
  net->add<Conv2d>(16, 144, 3, Conv2dShape{.padding = 1});
  net->add<Relu>();
  net->add<Conv2d>(144, 144, 3, Conv2dShape{.padding = 1});
  net->add<Relu>();
  net->add<GlobalAvgPool2d>();
  net->add<Flatten>();
  net->add<Linear>(144, 10);
  return net;
}

constexpr int64_t windows = 3, micro_batches = 4;

TrainingOptions options_with(Pack pack) {
  TrainingOptions options;
  options.model = wide_net;
  options.batches = {.micro = 1, .effective = micro_batches};
  options.pack = pack;
  options.ema = 0.5;
  return options;
}

struct PackedRun {
  std::vector<double> weights, answer, averages_answer;
  int64_t packings = 0;
  size_t peak = 0;
};

PackedRun train(Pack pack, const Dataset& data) {
  ledger(Device::cpu).reset_peak();
  Training training(options_with(pack), data, Device::cpu);
  Profile profile(Device::cpu, 0);
  training.loader().start_epoch(0);
  while (const MicroBatch* micro_batch = training.loader().next()) {
    training.micro_step(*micro_batch, 0);
    if (micro_batch->ends_window) training.window().step();
  }
  profile.stop();
  PackedRun result;
  result.peak = ledger(Device::cpu).peak().total();
  result.weights = to_doubles(training.parameters().values());
  for (const Profile::Row& row : profile.rows())
    if (row.kernel == "pack_weights") result.packings += row.calls;
  const auto answer = [&] {
    return to_doubles(
        training.model()(Tensor::full({1, 1, 28, 28}, 0.5, DType::f32, Device::cpu), Pass::eval()));
  };
  result.answer = answer();
  training.window().exchange_averages();
  result.averages_answer = answer();
  return result;
}

}  // namespace

TEST_CASE("packed weights are made once a window, and change no bit", "[packed]") {
  const Dataset data = make_digits(Split::train, {.train_size = windows * micro_batches});
  const PackedRun off = train(Pack::off, data);
  REQUIRE(off.averages_answer != off.answer);
  // Two convolutions, forward and backward.
  REQUIRE(off.packings == 2 * 2 * windows * micro_batches);
  for (const auto& [pack, packings] :
       {std::pair(Pack::on, 2 * 2 * windows),
        std::pair(Pack::where_it_pays, 2 * windows * micro_batches + 2 * windows)}) {
    CAPTURE(int(pack));
    const PackedRun kept = train(pack, data);
    REQUIRE(kept.packings == packings);
    REQUIRE(kept.weights == off.weights);
    REQUIRE(kept.answer == off.answer);
    REQUIRE(kept.averages_answer == off.averages_answer);
    REQUIRE(kept.peak > off.peak);
  }
}

TEST_CASE("packed weights are part of a predicted peak", "[packed]") {
  const Dataset data = make_digits(Split::train, {.train_size = windows * micro_batches});
  for (const Pack pack : {Pack::off, Pack::where_it_pays, Pack::on}) {
    CAPTURE(int(pack));
    const Dataset planned = data.to(Device::meta);
    const size_t predicted = planned_peak(options_with(pack), planned, Device::cpu).total();
    REQUIRE(train(pack, data).peak == predicted);
  }
}

TEST_CASE("threads predict with one model whose weights are packed", "[threads]") {
  const auto model = wide_net();
  const Parameters parameters = place(*model, DType::f32, Device::cpu, 1);
  std::vector<Tensor> images;
  for (int i = 0; i < 8; ++i)
    images.push_back(Tensor::full({1, 1, 28, 28}, 0.1 * i, DType::f32, Device::cpu));
  const auto answer = [&](size_t i) {
    const NoGrad no_grad;
    return to_doubles((*model)(images[i], Pass::eval()));
  };
  std::vector<std::vector<double>> expected, found(images.size());
  for (size_t i = 0; i < images.size(); ++i) expected.push_back(answer(i));
  for (int round = 0; round < 20; ++round) {
    parameters.keep_packed(Pack::on);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < images.size(); ++i)
      threads.emplace_back([&, i] { found[i] = answer(i); });
    for (std::thread& thread : threads) thread.join();
    REQUIRE(found == expected);
  }
}

}  // namespace accrue::test
