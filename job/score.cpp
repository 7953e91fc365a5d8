#include "job/score.h"

#include "job/load_data.h"
#include "job/load_network.h"
#include "job/machine.h"
#include "train/memory_prediction.h"
#include "train/training.h"

namespace accrue {

Scores detail::score_of(const Request& request, std::optional<ScoredSplit> split,
                        const Notices& notices, const StopRequest& stop) {
  const Device device = apply_machine_settings(request, notices);
  check(!request.init.empty() || is_model_file(request.model_name),
        "eval needs weights: --init FILE.safetensors");
  const Datasets data = place_data(load_data(request, DataUse::scoring, notices), device);
  const LoadedNetwork network = load_network(request, request.sample_in(data.train), device);
  const bool is_scored_on_test = request.domains.model(request.model_name).is_scored_on_test;
  const ScoredSplit asked =
      split.value_or(is_scored_on_test ? ScoredSplit::test : ScoredSplit::both);
  const auto score = [&](const char* part, const Dataset& set) {
    const Score found = with_fewer_samples(request.micro_batch, [&](int64_t samples) {
      return evaluate(*network.model, *request.objective_on(set), set, samples,
                      network.parameters.compute_dtype(), device, request.ranks,
                      request.batches.piece, stop);
    });
    notices.say("{} {}", part, found.describe());
    return found;
  };
  Scores scores;
  if (asked != ScoredSplit::test) scores.training = score("training", data.train);
  if (asked != ScoredSplit::train) scores.test = score("test", data.test);
  return scores;
}

Tensor detail::answers_of(const Request& request, Dataset samples, const Notices& notices,
                          const StopRequest& stop) {
  const DomainModel about = request.domains.model(request.model_name);
  check(about.sample.input().encoding != Encoding::index,
        "{} answers to {}: expected a network that sees pixels or numbers", about.name,
        about.input());
  check(!request.init.empty() || is_model_file(about.name),
        "nothing can be predicted without weights: expected init");
  const Device device = apply_machine_settings(request, notices);
  take_in(samples, request, notices);
  for (const std::string& warning :
       request.domains.of_model(about.name).warnings(about.name, samples))
    notices.warn("{}", warning);
  const LoadedNetwork network = load_network(request, request.sample_in(samples), device);
  return all_answers(*network.model, *classification(about.input()), samples, request.micro_batch,
                     network.parameters.compute_dtype(), device, stop);
}

}  // namespace accrue
