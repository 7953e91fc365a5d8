#include "train/memory_prediction.h"

#include <limits>

#include "core/cuda.h"
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

Datasets plan_data(const Datasets& data, Device device) {
  const auto planned = [&](const Dataset& set) {
    return set.to(set.device() == device ? meta_of(device) : Device::meta);
  };
  return {planned(data.train), planned(data.test)};
}

Datasets plan_data(const Datasets& data, Device device, size_t memory) {
  const Device there = lies_on_device(data, memory) ? meta_of(device) : Device::meta;
  return {data.train.to(there), data.test.to(there)};
}

Usage peak_of_windows(const TrainingOptions& options, const Dataset& data, Device device,
                      const Dataset* scored) {
  Training training(options, data, device);
  const int64_t windows = std::min<int64_t>(2, training.loader().windows_per_epoch());
  ledger(device).reset_peak();
  for (int64_t window = 0; window < windows; ++window)
    for (const Game::Turn& turn : training.game().all_turns()) {
      training.loader().start_epoch(0, window);
      for (bool ended = false; !ended;) {
        const MicroBatch* micro_batch = training.loader().next();
        training.micro_step(turn, *micro_batch, 0);
        ended = micro_batch->ends_window;
      }
      training.game().step(turn);
      for (const Player* player : turn) player->window.reports(Window::Wait::yes);
    }
  if (options.eval_every && scored)
    sum_scores(training.model(), training.objective(), *scored, options.batches.micro,
               training.parameters().compute_dtype(), device);
  if (!options.checkpoints.directory.empty() && !plans_for_cuda(device))
    for (const auto& [name, elements] : training.game().state_dict().sharded)
      Tensor::empty({std::min(elements, int64_t(piece_bytes / sizeof(float)))}, DType::f32, device,
                    Category::workspace);  // a checkpoint's (train/whole_state.h)
  return ledger(device).peak();
}

Usage predict_peak(const TrainingOptions& options, const Datasets& data, Device device) {
  const Datasets planned = plan_data(data, device);
  return planned_peak(options, planned.train, device, &planned.test);
}

// Micro-batches of one size need the same memory however many there are: a window of two of them
// and of what remains stands for any. So does another for the short window that ends an epoch. With
// step_in_backward a window has one on each rank.
Usage planned_peak(const TrainingOptions& options, const Dataset& planned, Device device,
                   const Dataset* scored) {
  check_options(options);
  const auto peak_of = [&](Batches batches) {
    TrainingOptions shorter = options;
    shorter.batches = batches;
    return peak_of_windows(shorter, planned, meta_of(device), scored);
  };
  const int64_t m = options.batches.micro, E = options.batches.effective, N = planned.size();
  const bool alone = options.strategy == Strategy::step_in_backward;
  Usage peak = peak_of({m, alone ? m : std::min(E, 2 * m + E % m)});
  const int64_t rest = alone && N % E >= m ? 0 : N % E % m;
  const bool ends_epoch = options.total_steps(N) >= ceil_div(N, E);
  if (rest > 0 && (alone || rest != E % m) && ends_epoch) {
    const Usage last = peak_of(m < E && !alone ? Batches{m, m + rest} : Batches{rest, rest});
    if (last.total() > peak.total()) peak = last;
  }
  return peak;
}

// The run again, in a byte less than it needs: it fails where it would have had its peak.
MemoryShortage deciding_allocation(const TrainingOptions& options, const Dataset& planned,
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
