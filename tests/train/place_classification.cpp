// Classes at places of samples: the same as classes of as many samples, and a mean over all labels
// that are judged, however the samples are cut.

#include <cmath>
#include <cstring>

#include "core/random.h"
#include "kernels/judged.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "train/weighted_objectives.h"

namespace accrue::test {
namespace place_classification_test {
namespace {

constexpr int64_t N = 4, T = 3, C = 5;
const std::vector<int32_t> of_places{0, not_judged, 4, not_judged, not_judged, not_judged,
                                     3, 3,          1, not_judged, 2,          0};

Field labels_in(const Shape& shape) {
  return {.name = "labels",
          .values = Tensor::from(of_places, shape, Device::cpu),
          .encoding = Encoding::index,
          .classes = C,
          .has_not_judged = true};
}

Samples samples_of(const Field& field) { return {{{field.name, field.values.to(test_device())}}}; }

Tensor logits_in(const Shape& shape) {
  const Tensor x = Tensor::empty(shape, DType::f64, Device::cpu);
  RandomStream random(3);
  for (double& v : x.span<double>()) v = random.normal();
  return x.to(test_device());
}

double number(const Tensor& x) { return x.to(Device::cpu).item(); }

}  // namespace

TEST_CASE("classes at places are a mean over all that are judged", "[window]") {
  const Field places = labels_in({N, T}), rows = labels_in({N * T});
  const Samples samples = samples_of(places);
  const Tensor logits = logits_in({N, T, C});
  for (const CrossEntropyOptions& options :
       {CrossEntropyOptions{}, CrossEntropyOptions{{1, 2, 0.5, 3, 1}, 0.25}}) {
    const ObjectivePtr objective = classification(places, {options}),
                       by_rows = classification(rows, {options});
    const double expected = number(by_rows->loss(logits.reshape({N * T, C}), samples_of(rows)));
    REQUIRE(number(objective->loss(logits, samples)) == Approx(expected).epsilon(1e-14));
    // A sample whose labels all count has the weight 1.
    REQUIRE(number(objective->weight(samples)) ==
            Approx(number(by_rows->weight(samples_of(rows))) / double(T)));
    for (const int64_t n : {1, 2, 4}) {
      double sum = 0, all = 0;
      const Tensor sums = Tensor::full({objective->sums()}, 0, DType::f64, test_device());
      for (int64_t begin = 0; begin < N; begin += n) {
        const Samples part = samples.slice(begin, begin + n);
        const Tensor x = logits.slice(begin, begin + n);
        const double weight = number(objective->weight(part));
        sum += weight * number(objective->loss(x, part));
        all += weight;
        objective->add_score(sums, x, part);
      }
      REQUIRE(sum / all == Approx(expected).epsilon(1e-14));
      const Dataset data{.name = "", .source = "", .fields = {places}};
      const Score score = objective->score(sums.to(Device::cpu).span<double>(), data);
      REQUIRE(score.loss == Approx(expected).epsilon(1e-14));
      REQUIRE(score["accuracy"] == Approx(100 * score["correct"] / 7));
    }
  }
}

TEST_CASE("classes at places are balanced, also where labels are read on demand", "[data]") {
  const Field places = labels_in({N, T});
  Field on_demand = places;
  on_demand.values = Tensor::without_elements({N, T}, DType::i32, Device::cpu);
  on_demand.read = [](std::span<std::byte> row, int64_t sample) {
    REQUIRE(row.size() == T * sizeof(int32_t));
    std::memcpy(row.data(), of_places.data() + sample * T, row.size());
  };
  const std::vector<double> weights{7 / (5 * 2.0), 7 / 5.0, 7 / 5.0, 7 / (5 * 2.0), 7 / 5.0};
  REQUIRE(balanced_class_weights(places) == weights);
  REQUIRE(balanced_class_weights(on_demand) == weights);
}

TEST_CASE("classes at places refuse what does not fit", "[data]") {
  const Field places = labels_in({N, T});
  REQUIRE_ERROR(classification(places, {.weights = "weights"}),
                "the labels are [4, 3]: expected none");
  const ObjectivePtr objective = classification(places, {});
  REQUIRE_ERROR(objective->loss(logits_in({N, C, T}), samples_of(places)),
                "expected the answers [4, 3, C], which transpose(1, 2) makes of them");
  REQUIRE_ERROR(objective->loss(logits_in({N, C}), samples_of(places)),
                "labels.argmax(axis=1) is one class for each sample");
  REQUIRE(std::isnan(objective->score(std::vector<double>(4), {}).loss));
}

}  // namespace place_classification_test
}  // namespace accrue::test
