#include "apps/training.h"

#include <omp.h>

#include <thread>

#include "kernels/cross_entropy.h"

namespace accrue::app {
namespace {

std::unique_ptr<Optimizer> make_optimizer(const TrainOptions& o, Parameters& parameters) {
  AdamOptions adam_options = o.adam;
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

Prefetch prefetch_where_a_core_is_free() {
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  return omp_get_max_threads() < cores ? Prefetch::on : Prefetch::off;
}

}  // namespace

Training::Training(const TrainOptions& o, Batches batches, const Dataset& data, Device device)
    : batches_(batches),
      seed_(o.seed),
      model_(make_model(o.model)),
      parameters_(place(*model_, DType::f32, device, o.seed)),
      optimizer_(make_optimizer(o, parameters_)),
      window_(*optimizer_, schedule_over(o, batches, data.size()),
              {.effective_batch_size = batches.effective,
               .strategy = o.strategy,
               .clip_norm = o.clip_norm,
               .loss_scale = o.loss_scale}),
      loader_(data, {.effective_batch_size = batches.effective,
                     .micro_batch_size = batches.micro,
                     .seed = o.seed,
                     .shuffle = o.shuffle ? Shuffle::on : Shuffle::off,
                     .device = device,
                     .prefetch = prefetch_where_a_core_is_free()}) {}

void Training::accumulate(const MicroBatch& micro_batch, int64_t epoch) {
  const Pass pass{
      .mode = Pass::Mode::train, .seed = seed_, .epoch = epoch, .samples = micro_batch.samples};
  const Tensor loss = cross_entropy((*model_)(micro_batch.images, pass), micro_batch.labels);
  window_.backward(loss, micro_batch.labels.size(0));
}

int64_t total_steps(const TrainOptions& options, Batches batches, int64_t samples) {
  const int64_t per_epoch = (samples + batches.effective - 1) / batches.effective;
  const int64_t all = options.epochs * per_epoch;
  return options.steps ? std::min(*options.steps, all) : all;
}

Score evaluate(const Module& model, const Dataset& data, int64_t micro_batch) {
  const NoGrad no_grad;
  Tensor sums;  // on the model's device, read once: the host waits for the device at the end only
  for (int64_t begin = 0; begin < data.size(); begin += micro_batch) {
    const int64_t end = std::min(data.size(), begin + micro_batch);
    const Samples part = gather(data, begin, end);
    const Tensor logits = model(part.images, Pass::eval());
    if (!sums.defined()) sums = Tensor::full({2}, 0, DType::f64, logits.device());
    add_score(sums, logits, part.labels);
  }
  check(sums.defined(), "the data set {} is empty: there is nothing to evaluate", data.name);
  const Tensor host = sums.to(Device::cpu);
  const double loss = host.span<double>()[0], correct = host.span<double>()[1];
  return {loss / double(data.size()), static_cast<int64_t>(correct), data.size()};
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

Usage predict_peak(const TrainOptions& options, Batches batches, const Datasets& data) {
  const Dataset train = data.train.on_meta(), test = data.test.on_meta();
  return peak_of_windows(options, batches, train, Device::meta);
}

}  // namespace accrue::app
