#include "train/training.h"

#include "core/cuda.h"
#include "core/memory_scope.h"

namespace accrue {
namespace {

std::unique_ptr<Module> new_model(const TrainingOptions& options) {
  check_options(options);
  return options.model();
}

std::unique_ptr<Optimizer> make_optimizer(const TrainingOptions& o, Parameters& parameters) {
  const double beta2 = o.chosen_beta2();
  const double decay = o.weight_decay.value_or(o.optimizer == OptimizerKind::adamw ? 0.01 : 0);
  const AdamOptions adam_options{o.beta1, beta2, o.eps, decay};
  switch (o.optimizer) {
    case OptimizerKind::adam: return adam(parameters, adam_options);
    case OptimizerKind::adamw: return adamw(parameters, adam_options);
    case OptimizerKind::lion: return lion(parameters, {o.beta1, beta2, decay});
    case OptimizerKind::sgd: break;
  }
  return sgd(parameters, {o.momentum, decay, o.nesterov});
}

ScheduleOptions schedule_over(const TrainingOptions& o, int64_t samples) {
  ScheduleOptions schedule = o.schedule;
  schedule.total = o.total_steps(samples);
  return schedule;
}

}  // namespace

Training::Training(const TrainingOptions& o, const Dataset& data, Device device)
    : batches_(o.batches),
      device_(device),
      seed_(o.seed),
      recompute_(o.recompute),
      objective_(o.objective_for(data)),
      shuffle_(o.shuffle ? Shuffle::on : Shuffle::off),
      model_(new_model(o)),
      parameters_(
          place(*model_, compute_dtype(o.precision), device, o.seed, gradient_storage(o.strategy))),
      optimizer_(make_optimizer(o, parameters_)),
      window_(*optimizer_, schedule_over(o, data.size()),
              {.effective_batch_size = o.batches.effective,
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

Loader& Training::loader() {
  if (!loader_) loader_ = make_loader();
  return *loader_;
}

void Training::micro_step(const MicroBatch& micro_batch, int64_t epoch) {
  const Pass pass{.mode = Pass::Mode::train,
                  .seed = seed_,
                  .epoch = epoch,
                  .samples = micro_batch.indices,
                  .recompute = recompute_};
  if (window_.micro_batches() == 0) window_.expect(micro_batch.window_size);
  const int64_t samples = micro_batch.size();
  window_.micro_step(samples, variant(epoch), [&] {
    const Tensor loss = [&] {
      const MemoryScope scope(Phase::forward, "loss");
      return objective_->loss((*model_)(micro_batch[objective_->input()], pass), micro_batch);
    }();
    window_.backward(loss, samples);
  });
}

int64_t Training::variant(int64_t epoch) const {
  constexpr int64_t epochs = int64_t{1} << 40;
  return halved_ * epochs + (model_->is_random() ? epoch : 0);
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

}  // namespace accrue
