// The README's ten lines of C++, compiled and run, and held equal to what the README says.

#include <fstream>
#include <sstream>

#include "tests/catch.h"

// README: the example begins
#include "data/loader.h"
#include "kernels/cross_entropy.h"
#include "layers/models.h"
#include "optim/window.h"

using namespace accrue;

double train_one_epoch() {
  const Datasets digits = find_dataset("digits");
  Loader loader(digits.train, {.effective_batch_size = 256, .micro_batch_size = 32});
  const auto model = make_model({.kind = ModelKind::mlp});
  Parameters parameters = place(*model, DType::f32, Device::cpu, /*seed=*/1);
  const auto optimizer = adam(parameters);
  Window window(*optimizer, ScheduleOptions{.base = 1e-3}, {.effective_batch_size = 256});

  double loss = 0;
  loader.start_epoch(0);
  while (const MicroBatch* micro = loader.next()) {
    const Tensor logits = (*model)(micro->images);
    window.backward(cross_entropy(logits, micro->labels), micro->labels.numel());
    if (micro->ends_window) loss = window.step().loss;
  }
  return loss;
}
// README: the example ends

namespace accrue::test {
namespace {

std::string read(const std::string& path) {
  std::ifstream file(std::string(ACCRUE_SOURCE_DIR) + "/" + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t from = text.find(begin) + begin.size();
  return text.substr(from, text.find(end, from) - from);
}

}  // namespace

TEST_CASE("the README's example learns", "[readme]") { REQUIRE(train_one_epoch() < 1.5); }

TEST_CASE("the README's example is this one", "[readme]") {
  const std::string source = read("tests/readme.cpp");
  const std::string marker = "// README: the example ";
  REQUIRE(between(read("README.md"), "```cpp\n", "```") ==
          between(source, marker + "begins\n", marker + "ends"));
}

}  // namespace accrue::test
