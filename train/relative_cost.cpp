#include "train/relative_cost.h"

#include "core/profile.h"
#include "kernels/losses.h"
#include "train/training.h"

namespace accrue {
namespace {

// Both are orders of magnitude: a core does about 100 GFLOP/s at 10 GB/s, a large GPU 50 TFLOP/s
// at 5 TB/s, and a micro-batch costs them some 20 us beside its arithmetic.
constexpr double flops_per_byte = 10, flops_per_micro_batch = 2e6;

double bytes_per_parameter(Strategy strategy) {
  constexpr double weights = 8, gradients = 8;
  return weights + gradients + facts_of(strategy).bytes_moved;
}

// The parameters that get gradients in a micro-batch, on average over the windows.
double parameter_count(const TrainingOptions& options, const Dataset& data) {
  double count = 0;
  for (const PlayerOptions& network : options.networks(options.objective_for(data))) {
    const Parameters parameters = place(*network.model(), DType::f32, Device::meta, 0,
                                        GradientStorage::on_demand, options.freeze);
    count += double(parameters.trained_count()) * double(network.times) / double(network.every);
  }
  return count;
}

double flops_in(Profile& profile) {
  profile.stop();
  double flops = 0;
  for (const Profile::Row& row : profile.rows()) flops += row.work.flops;
  return flops;
}

// On average over the windows, counted in a window of one micro-batch for each player, or of two
// where a window of several is walked more often.
double flops_per_sample(TrainingOptions options, const Dataset& data) {
  const int64_t micro = options.batches.micro;
  const int64_t K = options.window_passes > 0 && options.batches.accumulation_steps() > 1 ? 2 : 1;
  options.batches.effective = K * micro;
  options.on_oom = OnOom::fail;
  Training training(options, data.to(Device::meta), Device::meta);
  double flops = 0;
  for (const Player& player : training.game().players()) {
    training.loader().start_epoch(0);
    std::vector<MicroBatch> parts(static_cast<size_t>(K), *training.loader().next());
    for (MicroBatch& part : parts) part.ends_window = &part == &parts.back();
    Profile profile(Device::meta, 0);
    training.game().accumulate({&player}, window_of(parts), training.pass(0));
    flops += flops_in(profile) * double(player.times) / double(player.every);
    training.game().step({&player});
  }
  return flops / double(K * micro);
}

}  // namespace

double window_cost(const TrainingOptions& options, const Dataset& data) {
  const double arithmetic = double(options.batches.effective) * flops_per_sample(options, data);
  const double traffic = parameter_count(options, data) * bytes_per_parameter(options.strategy);
  return arithmetic + double(options.batches.accumulation_steps()) *
                          (flops_per_byte * traffic + flops_per_micro_batch);
}

double training_flops_per_sample(const ModelFactory& make_model, const Shape& sample,
                                 Encoding encoding) {
  const auto model = make_model();
  const Parameters parameters = place(*model, DType::f32, Device::meta, 0);
  Profile profile(Device::meta, 0);
  const Tensor x = Tensor::empty(sample, encoded_dtype(encoding, DType::f32), Device::meta);
  const Tensor y = (*model)(x, Pass::eval());
  backward(mse_loss(y, Tensor::empty(y.shape(), y.dtype(), y.device())));
  return flops_in(profile);
}

}  // namespace accrue
