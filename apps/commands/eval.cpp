#include "apps/commands/eval.h"

#include <nlohmann/json.hpp>

#include "apps/cli/messages.h"
#include "apps/cli/output.h"
#include "apps/commands/train.h"
#include "train/json.h"

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
            .help = "The part of the data to score; for texts the test part, unless set",
            .acts_in = ActsIn::samples})
      .add(options.json, {"json", no_result, "Write the scores", writes("FILE", Path::text)});
  return s;
}

std::string eval(const Request& options, const StopRequest& stop) {
  check_output(options.json);
  const Job job({options}, spoken(), services_for(options));
  const bool is_asked = options.given.contains("split");
  const auto [training, test] =
      job.score(is_asked ? std::optional(options.split) : std::nullopt, stop);
  nlohmann::ordered_json json;
  if (training) json["training"] = to_json(*training);
  if (test) json["test"] = to_json(*test);
  std::string text = json.dump(2) + "\n";
  if (!options.json.empty()) write_output(options.json, text);
  return text;
}

}  // namespace accrue::app
