// A job: what it does with a request, and the requests that it refuses. The program, the library's
// users and Python all go through it.

#include "job/job.h"

#include "accrue/domains.h"
#include "data/safetensors.h"
#include "images/digits.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/files.h"

namespace accrue::test {
namespace {

Request asked(const std::map<std::string, std::string>& settings) {
  Request request(all_domains());
  request.give("device", std::string(name(test_device())));
  for (const auto& [setting, text] : settings) request.give(setting, text);
  return request;
}

// The calls that a run makes to its observers, in order; each window once.
class Told : public RunObserver {
 public:
  void on_begin() override { all.emplace_back("begin"); }
  void on_step(const WindowReport&) override { all.emplace_back("step"); }
  void on_end() override { all.emplace_back("end"); }
  void on_test_score(const Score&, const std::optional<Score>&) override {
    all.emplace_back("score");
  }
  void on_peaks(const std::vector<PeakOfRun>& peaks, const ResidentBytes&) override {
    all.push_back("peaks of " + peaks.at(0).run);
  }
  std::vector<std::string> all;
};

}  // namespace

TEST_CASE("a job trains, and another one begins with what it has saved", "[job]") {
  const TemporaryDirectory folder;
  const std::string weights = folder.path() / "w.safetensors";
  std::vector<std::string> words;
  const Notices notices([&](Notices::Kind, std::string_view text) { words.emplace_back(text); });
  const Job job(
      asked({{"model", "mlp-small"}, {"data", "digits"}, {"steps", "2"}, {"save", weights}}),
      notices);
  TrainingRun run = job.train();
  Told told;
  run.run({&told});
  REQUIRE(told.all ==
          std::vector<std::string>{"begin", "step", "step", "end", "score", "peaks of this run"});
  REQUIRE(words == std::vector<std::string>{"saved " + weights});

  const Job saved(asked({{"init", weights}}));
  REQUIRE(saved.request().model_name == "mlp-small");
  const Scores scores = saved.score(ScoredSplit::test);
  REQUIRE(!scores.training);
  REQUIRE(scores.test->loss == run.score_on_test()->loss);
  const Dataset digits = make_digits(accrue::Split::test, {.test_size = 20});
  REQUIRE(saved.predict(digits).shape() == Shape{20, 10});
  // Weights of other programs do not say which samples they are for.
  const std::string plain = folder.path() / "plain.safetensors";
  write_safetensors(plain, read_safetensors(weights));
  REQUIRE(Job(asked({{"model", "mlp-small"}, {"init", plain}})).predict(digits).shape() ==
          Shape{20, 10});
}

TEST_CASE("a job plans for the memory limit of its request", "[job]") {
  const PlannedTraining planned =
      Job(asked({{"model", "mlp-small"}, {"data", "digits"}, {"memory-limit", "64MiB"}})).plan();
  REQUIRE(planned.plan.memory == 64 << 20);
  REQUIRE(planned.plan.recommended()->peak.total() <= planned.plan.memory);
  REQUIRE(!planned.yours);
}

TEST_CASE("a job refuses what makes no sense together", "[job]") {
  const TemporaryDirectory folder;
  const std::string data = folder.write("data/text.txt", "abc").string();
  REQUIRE_ERROR(Job(asked({{"log-histograms", "5"}})), "--log-histograms requires --log-dir");
  REQUIRE_ERROR(Job(asked({{"momentum", "0.5"}})),
                "--momentum has no effect with --optimizer adam");
  REQUIRE_ERROR(Job(asked({{"rank-timeout", "9"}})), "no effect in one process");
  REQUIRE_ERROR(Job(asked({{"data", data}, {"save", data}})), "would replace --data");
  REQUIRE_ERROR(asked({{"micro-batch", "0"}}), "micro-batch is 0");
}

TEST_CASE("a job refuses what only a program can do for it", "[job]") {
  REQUIRE_ERROR(Job(asked({{"json", "-"}})), "--json -: a job has no standard output");
  REQUIRE_ERROR(Job(asked({{"sample-every", "2"}})), "expected no --sample-every");
}

}  // namespace accrue::test
