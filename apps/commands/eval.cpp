#include "apps/commands/eval.h"

#include <nlohmann/json.hpp>

#include "apps/cli/messages.h"
#include "apps/cli/output.h"
#include "job/load_data.h"
#include "job/load_network.h"
#include "job/machine.h"
#include "train/json.h"
#include "train/memory_prediction.h"
#include "train/training.h"

namespace accrue::app {

Settings evaluation_settings(Request& options) {
  constexpr Decides no_result = Decides::no_result;
  Settings s;
  s.group("Options")
      .add(options.micro_batch, {.name = "micro-batch",
                                 .decides = no_result,
                                 .help = "Samples in memory at a time",
                                 .range = above_zero,
                                 .acts_in = ActsIn::answers,
                                 .asked_by = AskedBy::most_runs,
                                 .elsewhere = called_batch("the samples in memory")})
      .add(options.split, split_names(),
           {.name = "split",
            .decides = no_result,
            .help = "The part of the data to score; of texts the test, unless another is given",
            .acts_in = ActsIn::samples})
      .add(options.json, {"json", no_result, "Write the scores", writes("FILE", Path::text)});
  return s;
}

std::string eval(const Request& options, const StopRequest& stop) {
  const Device device = apply_machine_settings(options, spoken());
  check_output(options.json);
  check(!options.init.empty(), "eval needs weights: --init FILE.safetensors");
  const Datasets data = place_data(load_data(options, DataUse::scoring, spoken()), device);
  const LoadedNetwork network = load_network(options, options.sample_in(data.train), device);
  const bool is_scored_on_test = options.domains.model(options.model_name).is_scored_on_test;
  const ScoredSplit asked =
      is_scored_on_test && !options.given.contains("split") ? ScoredSplit::test : options.split;
  nlohmann::ordered_json json;
  for (const auto& [split, set] : {std::pair{"training", &data.train}, {"test", &data.test}}) {
    if (asked == (set == &data.test ? ScoredSplit::train : ScoredSplit::test)) continue;
    const Score score = with_fewer_samples(options.micro_batch, [&, &set = set](int64_t samples) {
      return evaluate(*network.model, *options.objective_on(*set), *set, samples,
                      network.parameters.compute_dtype(), device, options.ranks,
                      options.batches.piece, stop);
    });
    say("{} {}\n", split, score.describe());
    json[split] = to_json(score);
  }
  std::string text = json.dump(2) + "\n";
  if (!options.json.empty()) write_output(options.json, text);
  return text;
}

}  // namespace accrue::app
