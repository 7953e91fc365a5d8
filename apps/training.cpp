#include "apps/training.h"

#include <limits>

#include "core/ceil_div.h"
#include "core/cuda.h"
#include "train/score.h"

namespace accrue::app {
namespace {

std::unique_ptr<Optimizer> make_optimizer(const TrainOptions& o, Batches batches,
                                          Parameters& parameters) {
  AdamOptions adam_options = o.adam;
  adam_options.beta2 = o.beta2(batches.effective);
  adam_options.weight_decay =
      o.weight_decay.value_or(o.optimizer == OptimizerKind::adamw ? 0.01 : 0);
  SgdOptions sgd_options = o.sgd;
  sgd_options.weight_decay = o.weight_decay.value_or(0);
  switch (o.optimizer) {
    case OptimizerKind::adam: return adam(parameters, adam_options);
    case OptimizerKind::adamw: return adamw(parameters, adam_options);
    case OptimizerKind::sgd: break;
  }
  return sgd(parameters, sgd_options);
}

ScheduleOptions schedule_over(const TrainOptions& o, Batches batches, int64_t samples) {
  ScheduleOptions schedule = o.schedule;
  schedule.total = total_steps(o, batches, samples);
  return schedule;
}

bool lies_on_device(const Datasets& data, size_t memory) {
  return data.train.bytes() + data.test.bytes() <= memory / 4;
}

}  // namespace

Training::Training(const TrainOptions& o, Batches batches, const Dataset& data, Device device)
    : batches_(batches),
      device_(device),
      seed_(o.seed),
      recompute_(o.recompute),
      shuffle_(o.shuffle ? Shuffle::on : Shuffle::off),
      masks_change_(o.model.dropout > 0),
      model_(make_model(o.model)),
      parameters_(
          place(*model_, compute_dtype(o.precision), device, o.seed, gradient_storage(o.strategy))),
      optimizer_(make_optimizer(o, batches, parameters_)),
      window_(*optimizer_, schedule_over(o, batches, data.size()),
              {.effective_batch_size = batches.effective,
               .strategy = o.strategy,
               .clip_norm = o.clip_norm,
               .loss_scale = o.chosen_loss_scale(),
               .on_overflow = o.on_overflow == OnOverflowChoice::drop_micro_batch
                                  ? OnOverflow::drop_micro_batch
                                  : OnOverflow::skip_window,
               .ema_decay = o.ema,
               .noise_scale = o.noise_scale ? NoiseScale::estimate : NoiseScale::off,
               .graphs = o.cuda_graphs}),
      data_(data),
      loader_(make_loader()) {}

std::unique_ptr<Loader> Training::make_loader() const {
  return std::make_unique<Loader>(data_, LoaderOptions{.effective_batch_size = batches_.effective,
                                                       .micro_batch_size = batches_.micro,
                                                       .seed = seed_,
                                                       .shuffle = shuffle_,
                                                       .device = device_,
                                                       .dtype = parameters_.compute_dtype(),
                                                       .prefetch = Prefetch::off});
}

void Training::accumulate(const MicroBatch& micro_batch, int64_t epoch) {
  const Pass pass{.mode = Pass::Mode::train,
                  .seed = seed_,
                  .epoch = epoch,
                  .samples = micro_batch.samples,
                  .recompute = recompute_};
  if (window_.micro_batches() == 0) window_.expect(micro_batch.window_size);
  const int64_t samples = micro_batch.size();
  window_.micro_step(samples, variant(epoch), [&] {
    const Tensor loss = [&] {
      const MemoryScope scope(Phase::forward, "loss");
      return loss_of((*model_)(micro_batch.images, pass), micro_batch);
    }();
    window_.backward(loss, samples);
  });
}

int64_t Training::variant(int64_t epoch) const {
  constexpr int64_t epochs = int64_t{1} << 40;
  return halved_ * epochs + (masks_change_ ? epoch : 0);
}

void Training::halve_micro_batch() {
  window_.abandon();
  if (device_ == Device::cuda) cuda::synchronize();  // copies out of the loader may be under way
  loader_.reset();
  if (device_ == Device::cuda) cuda::blocks().release_cached();
  batches_.micro = (batches_.micro + 1) / 2;
  ++halved_;
  loader_ = make_loader();
}

int64_t total_steps(const TrainOptions& options, Batches batches, int64_t samples) {
  const int64_t per_epoch = ceil_div(samples, batches.effective);
  const int64_t all = options.epochs * per_epoch;
  return options.steps ? std::min(*options.steps, all) : all;
}

Datasets place_data(Datasets data, Device device) {
  const size_t memory = ledger(device).limit().value_or(
      device == Device::cuda ? cuda::total_memory() : std::numeric_limits<size_t>::max());
  if (!lies_on_device(data, memory)) return data;
  return {data.train.to(device), data.test.to(device)};
}

Datasets load_data(const TrainOptions& options) {
  Datasets data = find_dataset(options.data_name(), options.data_dir);
  const std::string model = name(options.model.kind), set = data.train.name;
  const bool has_masks = data.train.masks.defined();
  if (task_of(options.model.kind) == Task::segmentation)
    check(has_masks,
          "--model {} answers with a mask for each image, but the data set {} has labels: expected "
          "--data shapes",
          model, set);
  else
    check(!has_masks,
          "--model {} answers with a class, but the data set {} has masks: expected --data digits, "
          "mnist or fashion (--data shapes is for --model unet)",
          model, set);
  return data;
}

Datasets plan_data(const Datasets& data, Device device) {
  const auto planned = [&](const Dataset& set) {
    return set.to(set.images.device() == device ? meta_of(device) : Device::meta);
  };
  return {planned(data.train), planned(data.test)};
}

Datasets plan_data(const Datasets& data, Device device, size_t memory) {
  const Device there = lies_on_device(data, memory) ? meta_of(device) : Device::meta;
  return {data.train.to(there), data.test.to(there)};
}

Usage peak_of_windows(const TrainOptions& options, Batches batches, const Dataset& data,
                      Device device) {
  Training training(options, batches, data, device);
  ledger(device).reset_peak();
  training.loader().start_epoch(0);
  for (int windows = 0; windows < 2;) {
    const MicroBatch* micro_batch = training.loader().next();
    if (!micro_batch) break;
    training.accumulate(*micro_batch, 0);
    if (!micro_batch->ends_window) continue;
    training.window().step();
    ++windows;
  }
  return ledger(device).peak();
}

Usage predict_peak(const TrainOptions& options, Batches batches, const Datasets& data,
                   Device device) {
  const Datasets planned = plan_data(data, device);
  return planned_peak(options, batches, planned.train, device);
}

// Micro-batches of one size need the same memory however many there are: a window of two of them
// and of what remains stands for any. So does another for the short window that ends an epoch.
Usage planned_peak(const TrainOptions& options, Batches batches, const Dataset& planned,
                   Device device) {
  const int64_t m = batches.micro, E = batches.effective, N = planned.size();
  const Batches whole{m, std::min(E, 2 * m + E % m)};
  Usage peak = peak_of_windows(options, whole, planned, meta_of(device));
  const int64_t rest = N % E % m;
  const bool ends_epoch = total_steps(options, batches, N) >= ceil_div(N, E);
  if (rest > 0 && rest != E % m && ends_epoch) {
    const Batches short_window = m < E ? Batches{m, m + rest} : Batches{rest, rest};
    const Usage last = peak_of_windows(options, short_window, planned, meta_of(device));
    if (last.total() > peak.total()) peak = last;
  }
  return peak;
}

}  // namespace accrue::app
