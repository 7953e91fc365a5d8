// Choosing by name which parameters do not decay.

#include <algorithm>
#include <cmath>
#include <map>

#include "images/digits.h"
#include "layers/models.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "train/trainer.h"

namespace accrue::test {
namespace {

// For each parameter, the share that it lost to decay in one step.
std::map<std::string, double> decayed(const std::vector<std::string>& without) {
  constexpr double lr = 0.5, weight_decay = 0.25;
  const auto values_with = [&](double decay) {
    TrainingOptions options;
    options.model = model_factory({.kind = ModelKind::mlp_small, .width = 0.0625});
    options.batches = {.micro = 4, .effective = 8};
    options.steps = 1;
    options.optimizer = OptimizerKind::sgd;
    options.schedule.base = lr;
    options.weight_decay = decay;
    options.no_decay = without;
    const Dataset data = make_digits(Split::train, {.train_size = 8}).to(test_device());
    Trainer trainer(options, data, test_device());
    Observer nobody;
    const auto of_entries = [&] {
      std::map<std::string, std::vector<double>> values;
      for (const auto& entry : trainer.training().parameters().entries())
        values[entry.name] = to_doubles(entry.tensor);
      return values;
    };
    const auto before = of_entries();
    trainer.run(nobody);
    return std::pair(before, of_entries());
  };
  const auto [initial, plain] = values_with(0);
  const auto after = values_with(weight_decay).second;
  std::map<std::string, double> shares;
  for (const auto& [name, w] : initial) {
    double lost = 0, all = 0;
    for (size_t i = 0; i < w.size(); ++i) {
      lost += std::abs(after.at(name)[i] - plain.at(name)[i]);
      all += std::abs(w[i]);
    }
    shares[name] = lost / all / (lr * weight_decay);
  }
  return shares;
}

}  // namespace

TEST_CASE("parameters that are named do not decay", "[trainer]") {
  using Names = std::vector<std::string>;
  const auto keep = [](const Names& without, const Names& expected) {
    for (const auto& [name, share] : decayed(without)) {
      INFO(name << " without " << without.front());
      const bool keeps = std::ranges::find(expected, name) != expected.end();
      // The tolerance is for rounding of float32 weights; a step takes an eighth of them.
      if (keeps) REQUIRE(share == 0);
      else REQUIRE(share == Approx(1).epsilon(1e-5));
    }
  };
  keep({"none"}, {});
  keep({"vectors"}, {"0.bias", "2.bias"});
  keep({"0"}, {"0.weight", "0.bias"});
  keep({"weight", "2.bias"}, {"0.weight", "2.weight", "2.bias"});
  REQUIRE_ERROR(decayed({"weigh"}), "no parameters that could decay are called 'weigh'");
}

}  // namespace accrue::test
