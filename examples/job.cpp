// Trains a convolutional network on the built-in digits, configured by the program's settings, and
// scores the saved weights.

#include <accrue/accrue.h>

using namespace accrue;

int main() {
  const Notices notices([](Notices::Kind, std::string_view text) { fmt::print("{}\n", text); });
  Request request(all_domains());
  for (const auto& [setting, value] : std::map<std::string, std::string>{
           {"model", "cnn"}, {"data", "digits"}, {"epochs", "1"}, {"save", "digits.safetensors"}})
    request.give(setting, value);
  const Job job(request, notices);
  TrainingRun run = job.train();
  run.run();
  fmt::print("trained: {}\n", run.score_on_test()->describe());

  Request saved(all_domains());
  saved.give("init", "digits.safetensors");
  const auto scores = Job(saved, notices).score();
  fmt::print("as saved: {}\n", scores.test->describe());
}
