#include "train/memory_prediction.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "core/ceil_div.h"
#include "core/cuda.h"
#include "core/inside.h"
#include "core/limit_scope.h"
#include "data/safetensors.h"
#include "train/score.h"
#include "train/training.h"

namespace accrue {
namespace {

bool lies_on_device(const Datasets& data, size_t memory) {
  return data.train.bytes() + data.test.bytes() <= memory / 4;
}

}  // namespace

Datasets place_data(Datasets data, Device device) {
  const size_t memory = ledger(device).limit().value_or(
      device == Device::cuda ? cuda::total_memory() : std::numeric_limits<size_t>::max());
  if (!lies_on_device(data, memory)) return data;
  return {data.train.to(device), data.test.to(device)};
}

Datasets detail::plan_data(const Datasets& data, Device device) {
  const auto planned = [&](const Dataset& set) {
    return set.to(set.device() == device ? meta_of(device) : Device::meta);
  };
  return {planned(data.train), planned(data.test)};
}

Datasets detail::plan_data(const Datasets& data, Device device, size_t memory) {
  const Device there = lies_on_device(data, memory) ? meta_of(device) : Device::meta;
  return {data.train.to(there), data.test.to(there)};
}

namespace {

// The sizes of micro-batches to try. Any number of micro-batches of one size needs the same memory,
// unless something of each one is kept. So two of them and the remainder suffice.
std::vector<int64_t> distinct_sizes(int64_t samples, const TrainingOptions& options,
                                    const Objective& objective) {
  const int64_t micro = options.batches.micro;
  const bool keeps_all = objective.is_of_window() || options.batch_norm == BatchNormOver::window;
  const int64_t most = keeps_all ? samples : 2;
  std::vector<int64_t> sizes(static_cast<size_t>(std::min(most, samples / micro)), micro);
  if (samples % micro > 0) sizes.push_back(samples % micro);
  return sizes;
}

// Plays a window with micro-batches of these sizes, all cut from the same samples, in which every
// player plays. `samples` is the window's size over all ranks, which only a loss of the whole
// window needs.
void play(Training& training, const std::vector<int64_t>& sizes, int64_t samples) {
  training.loader().start_epoch(0);
  const MicroBatch& whole = *training.loader().next();
  const int64_t window_size = training.objective().is_of_window()
                                  ? samples
                                  : std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  std::vector<MicroBatch> parts;
  for (const int64_t n : sizes)
    parts.push_back({whole.slice(0, n), whole.indices.slice(0, n), window_size});
  parts.back().ends_window = true;
  Game& game = training.game();
  for (const Game::Turn& turn : game.all_turns()) {
    game.accumulate(turn, window_of(parts), training.pass(0), training.variant(0));
    game.step(turn);
    for (const Player* player : turn) player->window.reports(Window::Wait::yes);
  }
}

// The number of a run's n-th, 2n-th, ... windows that are in `part`.
int64_t multiples_in(const WindowRange& part, int64_t n) { return part.end / n - part.begin / n; }

// Plays two whole windows, if the part has so many, and the short window that ends an epoch.
void play_windows(Training& training, const TrainingOptions& options, int64_t samples,
                  PlannedRank planned, const WindowRange& part) {
  const int64_t E = options.batches.effective, rest = samples % E;
  const int ranks = planned == PlannedRank::first ? 1 : training.ranks();
  const auto play_shares = [&](int64_t n) {
    std::set<std::vector<int64_t>> played;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto sizes =
          distinct_sizes(training.loader().share_of(rank, n), options, training.objective());
      if (!sizes.empty() && played.insert(sizes).second) play(training, sizes, n);
    }
  };
  const int64_t short_ones = rest > 0 ? multiples_in(part, ceil_div(samples, E)) : 0;
  const int64_t whole = part.end - part.begin - short_ones;
  for (int64_t window = 0; window < std::min<int64_t>(2, whole); ++window) play_shares(E);
  if (short_ones > 0) play_shares(rest);
}

bool scores_on_its_way(const TrainingOptions& options, int64_t samples, const WindowRange& part) {
  if (!options.eval_every) return false;
  const int64_t per_epoch = ceil_div(samples, options.batches.effective);
  return multiples_in(part, *options.eval_every == each_epoch ? per_epoch : *options.eval_every) >
         0;
}

}  // namespace

WindowRange WindowRange::of(const TrainingOptions& options, int64_t samples) {
  return {0, options.total_steps(samples)};
}

Usage detail::peak_of_windows(const TrainingOptions& options, const Dataset& data, Device device,
                              const Dataset* scored, PlannedRank planned,
                              const std::optional<WindowRange>& part) {
  TrainingOptions once = options;
  once.on_oom = OnOom::fail;
  Training training(once, data, device);
  ledger(device).reset_peak();
  const WindowRange windows = part.value_or(WindowRange::of(options, data.size()));
  play_windows(training, options, data.size(), planned, windows);
  if (scored && scores_on_its_way(options, data.size(), windows))
    sum_scores(training.model(), training.objective(), *scored, options.batches.micro,
               training.parameters().compute_dtype(), device, options.ranks, options.batches.piece);
  if (!options.checkpoints.directory.empty() && !plans_for_cuda(device)) {
    const DType dtype = training.parameters().values().dtype();
    for (const auto& [name, elements] : training.game().state_dict().sharded)
      Tensor::empty({std::min(elements, int64_t(piece_bytes / size_of(dtype)))}, dtype, device,
                    Category::workspace);  // a checkpoint's (train/whole_state.h)
  }
  return ledger(device).peak();
}

Usage predict_peak(const TrainingOptions& options, const Datasets& data, Device device,
                   const std::optional<WindowRange>& part) {
  check_options(options);
  const Datasets planned = plan_data(data, device);
  return peak_of_windows(options, planned.train, meta_of(device), &planned.test, PlannedRank::first,
                         part);
}

Usage detail::planned_peak(const TrainingOptions& options, const Dataset& planned, Device device,
                           const Dataset* scored) {
  check_options(options);
  return peak_of_windows(options, planned, meta_of(device), scored, PlannedRank::any);
}

// Runs again with one byte less than the peak: the run fails at the allocation that reaches it.
MemoryShortage detail::deciding_allocation(const TrainingOptions& options, const Dataset& planned,
                                           Device device, const Dataset* scored) {
  const size_t peak = planned_peak(options, planned, device, scored).total();
  const LimitScope limit(meta_of(device), peak - 1);
  try {
    planned_peak(options, planned, device, scored);
  } catch (const OutOfMemory& error) {
    return error.shortage();
  }
  fail("a run of {} on {} was repeated in less", format_bytes(peak), name(meta_of(device)));
}

}  // namespace accrue
