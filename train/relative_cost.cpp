#include "train/relative_cost.h"

#include "core/inside.h"
#include "core/profile.h"
#include "kernels/losses.h"
#include "train/training.h"

namespace accrue {
namespace {

// Both are orders of magnitude. A core does about 100 GFLOP/s at 10 GB/s, a large GPU 50 TFLOP/s at
// 5 TB/s, and a micro-batch costs either some 20 us beside its kernels.
constexpr double flops_per_byte = 10, flops_per_micro_batch = 2e6;
// For copies between a GPU and its host: 50 GB/s.
constexpr double flops_per_moved_byte = 1000;

Work work_in(Profile& profile) {
  profile.stop();
  Work work;
  for (const Profile::Row& row : profile.rows()) {
    work.flops += row.work.flops;
    work.bytes += row.work.bytes;
    work.spared_flops += row.work.spared_flops;
  }
  return work;
}

double cost_in(Profile& profile) {
  const Work work = work_in(profile);
  return work.flops - work.spared_flops + flops_per_byte * work.bytes;
}

// Sums the bytes that a ledger is charged while this object lives.
class Charges : public LedgerObserver {
 public:
  explicit Charges(Device device) : ledger_(ledger(device)) { ledger_.observe(this); }
  ~Charges() override { ledger_.observe(nullptr); }
  void charging(const AllocationInfo& allocation) override { bytes += allocation.bytes; }
  void refunding(const AllocationInfo&) override {}
  size_t bytes = 0;

 private:
  Ledger& ledger_;
};

// A window that repeats one micro-batch `parts` times.
std::vector<MicroBatch> micro_batches_of(Training& training, int64_t parts) {
  training.loader().start_epoch(0);
  std::vector<MicroBatch> window(static_cast<size_t>(parts), *training.loader().next());
  for (MicroBatch& part : window) part.ends_window = &part == &window.back();
  return window;
}

// The cost of moving a sample's data to the host and back while BatchNorms wait for a window.
double offload_cost_of_sample(TrainingOptions options, const Dataset& data) {
  if (!options.keeps_window() || options.batch_norm_by != BatchNormBy::offload ||
      options.batches.accumulation_steps() == 1)
    return 0;
  constexpr int64_t parts = 2;
  options.batches.effective = parts * options.batches.micro;
  options.on_oom = OnOom::fail;
  Training training(options, data.to(Device::meta), Device::meta_cuda);
  const std::vector<MicroBatch> window = micro_batches_of(training, parts);
  const Charges moved(Device::meta);
  training.game().accumulate(training.game().all_turns().front(), window_of(window),
                             training.pass(0));
  return 2 * flops_per_moved_byte * double(moved.bytes) / double(options.batches.effective);
}

// The number of micro-batches whose mean represents a window's micro-batches. There are two,
// because the first may write gradients where others add. With a kept window there is one, because
// a profile cannot follow micro-batches that take turns; alone, it needs no walks.
int64_t counted_micro_batches(const TrainingOptions& options) {
  return options.keeps_window() ? 1 : std::min<int64_t>(options.batches.accumulation_steps(), 2);
}

}  // namespace

double window_cost(const TrainingOptions& options, const Dataset& data, Device device) {
  const Device meta = meta_of(device);
  const int64_t counted = counted_micro_batches(options);
  const int64_t samples = counted * options.batches.micro;
  TrainingOptions sampled = options;
  sampled.batches.effective = samples;
  sampled.on_oom = OnOom::fail;
  Training training(sampled, data.to(Device::meta), meta);
  double cost = double(options.batches.accumulation_steps()) * flops_per_micro_batch +
                double(options.batches.effective) * offload_cost_of_sample(options, data);
  for (const Player& player : training.game().players()) {
    const std::vector<MicroBatch> window = micro_batches_of(training, counted);
    Profile accumulation(meta, 0);
    training.game().accumulate({&player}, window_of(window), training.pass(0));
    const double of_sample = cost_in(accumulation) / double(samples);
    Profile step(meta, 0);
    training.game().step({&player});
    const double turns = double(player.times) / double(player.every);
    cost += turns * (double(options.batches.effective) * of_sample + cost_in(step));
  }
  return cost;
}

double training_flops_per_sample(const ModelFactory& make_model, const Shape& sample,
                                 Encoding encoding) {
  const auto model = make_model();
  const Parameters parameters = place(*model, DType::f32, Device::meta, 0);
  Profile profile(Device::meta, 0);
  const Tensor x = Tensor::empty(sample, encoded_dtype(encoding, DType::f32), Device::meta);
  const Tensor y = (*model)(x, Pass::eval());
  backward(mse_loss(y, Tensor::empty(y.shape(), y.dtype(), y.device())));
  return work_in(profile).flops;
}

}  // namespace accrue
