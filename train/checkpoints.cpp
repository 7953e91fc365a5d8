#include "train/checkpoints.h"

#include <nlohmann/json.hpp>

#include "accumulate/ranks.h"
#include "core/build.h"
#include "train/run_identity.h"
#include "train/stop.h"
#include "train/weights.h"
#include "train/whole_state.h"

namespace accrue {
namespace {

Metadata rounding_of(Training& training) {
  return rounding_identity(training.options(), training.objective(), training.device());
}

// A map from each parameter to its elements in a network's flat state tensors.
std::string arena_map(const Training& training) {
  nlohmann::ordered_json map;
  for (const Player& player : training.game().players())
    for (const auto& entry : player.window.parameters().entries())
      map[player.named(entry.name)] = {entry.range().begin, entry.range().end};
  return map.dump();
}

// Sets every number to its counter. Throws Error, without setting any, unless names and types are
// the same.
void set_numbers(const StateDict& state, const std::map<std::string, CounterValue>& counters) {
  std::string problems;
  std::map<std::string, std::variant<int64_t*, double*>> numbers(state.numbers.begin(),
                                                                 state.numbers.end());
  for (const auto& [name, number] : numbers) {
    const auto found = counters.find(name);
    if (found == counters.end()) problems += fmt::format("\n  {} is missing", name);
    else if (found->second.index() != number.index())
      problems += fmt::format("\n  {} is a number of another type", name);
  }
  for (const auto& [name, count] : counters)
    if (!numbers.contains(name)) problems += fmt::format("\n  {} is not known", name);
  check(problems.empty(), "its counters differ from this program's:{}", problems);
  for (const auto& [name, number] : numbers)
    std::visit([&, &name = name](
                   auto* to) { *to = std::get<std::decay_t<decltype(*to)>>(counters.at(name)); },
               number);
}

}  // namespace

Checkpoints::Checkpoints(const TrainingOptions& options, const Dataset& train, Training& training,
                         StateDict loop, const Dataset* scored)
    : training_(training),
      loop_(std::move(loop)),
      options_(options.checkpoints),
      about_weights_(options.weights_metadata()),
      ranks_(options.ranks),
      scores_decide_(options.patience || options.keep_best) {
  if (options_.directory.empty() || (ranks_ && ranks_->rank() > 0)) return;
  directory_.emplace(options_.directory);
  if (options.keep_best) best_.emplace(directory_->path() / "best");
  identity_ = run_identity(options, train, scored);
  const bool is_empty = directory_->steps().empty() && (!best_ || best_->steps().empty());
  check(options_.resume || is_empty,
        "'{}' holds checkpoints of an earlier run: expected another directory, or an empty one, to "
        "begin a new run, or to resume that one",
        options_.directory);
}

StateDict Checkpoints::state() const {
  StateDict all = training_.game().state_dict();
  all.tensors.insert(all.tensors.end(), loop_.tensors.begin(), loop_.tensors.end());
  all.numbers.insert(all.numbers.end(), loop_.numbers.begin(), loop_.numbers.end());
  return all;
}

CheckpointRecord Checkpoints::record(const StateDict& state) const {
  CheckpointRecord result{
      .decisive = identity_.values, .rounding = rounding_of(training_), .origin = options_.origin};
  result.origin["written by"] = fmt::format("accrue {}", version());
  for (const auto& [name, number] : state.numbers)
    std::visit([&, &name = name](const auto* value) { result.counters[name] = *value; }, number);
  return result;
}

bool Checkpoints::due() const {
  return !options_.directory.empty() &&
         training_.steps() / options_.every > saved_ / options_.every;
}

void Checkpoints::save() {
  const int64_t steps = training_.steps();
  if (options_.directory.empty() || steps == saved_) return;
  write(directory_, options_.keep_last);
  saved_ = steps;
}

void Checkpoints::save_best() { write(best_, 1); }

void Checkpoints::check_finite(const NamedTensors& tensors) const {
  const std::string bad = first_not_finite(tensors);
  if (!bad.empty())
    throw Divergence(fmt::format(
        "no checkpoint of step {} was written, because {}; those before it remain: lower the "
        "learning rate, or clip the gradient's norm",
        training_.steps(), bad));
}

void Checkpoints::write(std::optional<CheckpointDirectory>& directory, int64_t keep) const {
  const StateDict all = state();
  const WholeState whole(all, ranks_);
  check_finite(on_cpu(whole.own()));
  if (!directory) return whole.follow();
  const CheckpointTensors weights{on_cpu(training_.named_tensors()), about_weights_};
  NamedTensors held = on_cpu(all.tensors);
  check_finite(weights.tensors);
  check_finite(held);
  if (whole.is_sharded()) held = on_cpu(whole.tensors());
  const CheckpointTensors tensors{std::move(held),
                                  {{"arena", arena_map(training_)}},
                                  [&](const auto&... piece) { whole.fill(piece...); }};
  directory->add(training_.steps(), keep, [&](const std::filesystem::path& to) {
    write_checkpoint(to, record(all), weights, tensors);
  });
  whole.end();
}

bool Checkpoints::resume(Observer& observer) {
  const auto found = find(observer);
  if (!(ranks_ ? ranks_->any(found.has_value()) : found.has_value())) return false;
  restore(found);
  training_.game().restored();
  saved_ = training_.steps();
  if (found)
    observer.on_resume(found->directory,
                       differences(found->record.rounding, rounding_of(training_)));
  return true;
}

std::optional<CheckpointDirectory::Found> Checkpoints::find(Observer& observer) {
  if (!directory_ || !options_.resume) return std::nullopt;
  auto found = directory_->latest(
      [&](const std::string& reason) { observer.on_damaged_checkpoint(reason); });
  if (found) check_same_run(*found);
  else observer.on_no_checkpoint(directory_->path());
  const Metadata& decisive = found ? found->record.decisive : identity_.values;
  directory_->adopt(decisive);
  if (best_) best_->adopt(decisive);
  return found;
}

void Checkpoints::check_same_run(const CheckpointDirectory::Found& checkpoint) {
  Metadata here = identity_.values, then = in_words_of(identity_, checkpoint.record.decisive);
  scored_other_data_ = here[identity_of_scores] != then[identity_of_scores];
  if (!scores_decide_)
    for (Metadata* side : {&here, &then}) side->erase(identity_of_scores);
  const std::string other = differences(then, here);
  check(other.empty(),
        "'{}' is of another run, so this one cannot go on from it:{}\nuse the same settings, or "
        "another directory for checkpoints",
        checkpoint.directory.string(), other);
}

// The first rank reads the file and sends its contents to the others.
void Checkpoints::restore(const std::optional<CheckpointDirectory::Found>& found) {
  const StateDict all = state();
  const WholeState whole(all, ranks_);
  const NamedTensors weights = training_.named_tensors();
  if (found) try {
      set_numbers(all, found->record.counters);
      read_safetensors_into(found->directory / checkpoint_state, whole.tensors(),
                            [&](const auto&... piece) { whole.use(piece...); });
      read_safetensors_into(found->directory / checkpoint_weights, weights);
    } catch (const Error& error) {
      fail("cannot resume from '{}': {}", found->directory.string(), error.what());
    }
  if (!ranks_) return;
  if (found) whole.end();
  else whole.follow();
  for (const NamedTensors& part : {all.tensors, weights})
    for (const auto& [name, tensor] : part)
      if (!all.sharded.contains(name)) ranks_->broadcast(tensor, 0);
  for (const auto& [name, number] : all.numbers)
    std::visit([&](auto* value) { ranks_->broadcast(value, sizeof *value, 0); }, number);
}

}  // namespace accrue
