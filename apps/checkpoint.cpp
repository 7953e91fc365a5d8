#include "apps/checkpoint.h"

#include <nlohmann/json.hpp>

#include "apps/checkpoint_options.h"
#include "apps/environment.h"
#include "train/weights.h"

namespace accrue::app {
namespace {

Metadata rounding_of(Training& training) {
  return rounding_options(training.batches(), training.parameters().values().device());
}

// Which elements of a flat state tensor belong to which parameter.
std::string arena_map(const Parameters& parameters) {
  nlohmann::ordered_json map;
  for (const auto& entry : parameters.entries())
    map[entry.name] = {entry.range().begin, entry.range().end};
  return map.dump();
}

// Sets every number to its counter. Throws Error, with none set, unless they are the same by name
// and type.
void set_numbers(const StateDict& state, const std::map<std::string, Count>& counters) {
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
  check(problems.empty(), "its counters are not those of this program:{}", problems);
  for (const auto& [name, number] : numbers)
    std::visit([&](auto* to) { *to = std::get<std::decay_t<decltype(*to)>>(counters.at(name)); },
               number);
}

}  // namespace

Checkpoints::Checkpoints(const TrainOptions& options, const Dataset& train, Training& training,
                         StateDict loop)
    : training_(training),
      loop_(std::move(loop)),
      every_(options.checkpoint_every),
      keep_(options.keep),
      resumes_(options.resume) {
  if (options.checkpoint_dir.empty()) return;
  directory_.emplace(options.checkpoint_dir);
  decisive_ =
      decisive_options(options, training.batches(), train, training.window().schedule().describe());
  origin_ = {{"written by", fmt::format("accrue {}", ACCRUE_VERSION)}, {"command", command_line()}};
  check(resumes_ || directory_->steps().empty(),
        "'{}' holds checkpoints of an earlier run: --resume goes on from them; expected another "
        "directory, or an empty one, to begin a new run",
        options.checkpoint_dir);
}

StateDict Checkpoints::state() const {
  StateDict all = training_.window().state_dict();
  all.tensors.insert(all.tensors.end(), loop_.tensors.begin(), loop_.tensors.end());
  all.numbers.insert(all.numbers.end(), loop_.numbers.begin(), loop_.numbers.end());
  return all;
}

CheckpointRecord Checkpoints::record(const StateDict& state) const {
  CheckpointRecord result{
      .decisive = decisive_, .rounding = rounding_of(training_), .origin = origin_};
  for (const auto& [name, number] : state.numbers)
    std::visit([&, &name = name](const auto* value) { result.counters[name] = *value; }, number);
  return result;
}

bool Checkpoints::due() const {
  return directory_ && training_.window().steps() / every_ > saved_ / every_;
}

void Checkpoints::save() {
  const int64_t steps = training_.window().steps();
  if (!directory_ || steps == saved_) return;
  const StateDict all = state();
  const NamedTensors weights = on_cpu(named_tensors(training_.parameters()));
  const NamedTensors tensors = on_cpu(all.tensors);
  for (const NamedTensors* part : {&weights, &tensors}) {
    const std::string bad = first_not_finite(*part);
    check(bad.empty(),
          "no checkpoint of step {} was written, because {}; those before it remain: lower --lr, "
          "or set --clip-norm",
          steps, bad);
  }
  directory_->add(steps, keep_, [&](const std::filesystem::path& directory) {
    write_checkpoint(directory, record(all), weights, tensors,
                     {{"arena", arena_map(training_.parameters())}});
  });
  saved_ = steps;
}

bool Checkpoints::resume() {
  if (!directory_ || !resumes_) return false;
  const auto found = directory_->latest([](const std::string& reason) {
    fmt::print(stderr, "warning: {}; looking at the checkpoint before it\n", reason);
  });
  if (!found) {
    fmt::print("no checkpoint in {}: starting from the beginning\n", directory_->path().string());
    return false;
  }
  check_same_run(*found);
  try {
    restore(*found);
  } catch (const Error& error) {
    fail("cannot resume from '{}': {}", found->directory.string(), error.what());
  }
  saved_ = training_.window().steps();
  fmt::print("resumed from {}\n", found->directory.string());
  return true;
}

void Checkpoints::check_same_run(const CheckpointDirectory::Found& checkpoint) const {
  const std::string other = differences(checkpoint.record.decisive, decisive_);
  check(other.empty(),
        "'{}' is of another run, so this one cannot go on from it:{}\nuse the same options, or "
        "another --checkpoint-dir",
        checkpoint.directory.string(), other);
  const std::string rounded = differences(checkpoint.record.rounding, rounding_of(training_));
  if (!rounded.empty())
    fmt::print(
        "the result will equal that of a run that never stopped within rounding, not bit "
        "for bit (BatchNorm and drop-micro-batch, which depend on the micro-batch, aside):{}\n",
        rounded);
}

void Checkpoints::restore(const CheckpointDirectory::Found& checkpoint) {
  const StateDict all = state();
  set_numbers(all, checkpoint.record.counters);
  read_safetensors_into(checkpoint.directory / checkpoint_state, all.tensors);
  read_safetensors_into(checkpoint.directory / checkpoint_weights,
                        named_tensors(training_.parameters()));
  training_.window().restored();
}

}  // namespace accrue::app
