#include "train/relative_cost.h"

#include "core/profile.h"
#include "train/flops.h"
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

double parameter_count(const ModelFactory& model, const std::vector<std::string>& freeze = {}) {
  const Parameters parameters =
      place(*model(), DType::f32, Device::meta, 0, GradientStorage::on_demand, freeze);
  return double(parameters.trained_count());
}

// The parameters that get gradients in a micro-batch, on average over the windows.
double parameter_count(const TrainingOptions& options) {
  if (options.players.empty()) return parameter_count(options.model, options.freeze);
  double count = 0;
  for (const PlayerOptions& player : options.players)
    count += parameter_count(player.model) * double(player.times) / double(player.every);
  return count;
}

// The arithmetic of the products of a micro-batch in which every player plays.
double count_flops(TrainingOptions options, const Dataset& data) {
  options.batches.effective = options.batches.micro;
  Training training(options, data.to(Device::meta), Device::meta);
  Profile profile(Device::meta, 0);
  for (const Game::Turn& turn : training.game().all_turns()) {
    training.loader().start_epoch(0, 0);
    training.micro_step(turn, *training.loader().next(), 0);
    training.game().step(turn);
  }
  profile.stop();
  double flops = 0;
  for (const Profile::Row& row : profile.rows()) flops += row.work.flops;
  return flops;
}

// The arithmetic of a training that keeps all activations and trains all layers.
double flops_per_sample(const TrainingOptions& options, const Dataset& data) {
  if (!options.players.empty()) return training_flops_per_sample(options.players, data);
  const std::string input = options.objective_for(data)->input();
  return training_flops_per_sample(options.model, data.field(input).shape_of(1));
}

}  // namespace

double window_cost(const TrainingOptions& options, const Dataset& data) {
  double ratio = 1;
  if (options.recompute != Recompute::none || !options.freeze.empty()) {
    TrainingOptions plain = options;
    plain.recompute = Recompute::none;
    plain.freeze.clear();
    ratio = count_flops(options, data) / count_flops(plain, data);
  }
  const double arithmetic =
      double(options.batches.effective) * flops_per_sample(options, data) * ratio;
  const double traffic = parameter_count(options) * bytes_per_parameter(options.strategy);
  return arithmetic + double(options.batches.accumulation_steps()) *
                          (flops_per_byte * traffic + flops_per_micro_batch);
}

}  // namespace accrue
