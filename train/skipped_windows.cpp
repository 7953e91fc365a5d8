#include "train/skipped_windows.h"

#include <algorithm>
#include <cmath>

#include "train/score.h"

namespace accrue {
namespace {

bool is_finite(const Tensor& x) {
  const Tensor host = x.to(Device::cpu, Category::workspace);
  return dispatch_floating(host.dtype(), [&]<class T>() {
    return std::ranges::all_of(host.span<T>(), [](T v) { return std::isfinite(widen(v)); });
  });
}

}  // namespace

SkippedWindows::SkippedWindows(Training& training, const TrainingOptions& options,
                               const Dataset& data)
    : training_(training), options_(options), data_(data) {}

void SkippedWindows::add_state(StateDict& dict) {
  dict.numbers.emplace_back("windows", &window_);
  dict.numbers.emplace_back("skipped_in_a_row", &in_a_row_);
  dict.numbers.emplace_back("skipped_from_loss_scale", &from_scale_);
}

void SkippedWindows::see(const StepReport& report) {
  const int64_t window = window_++;
  // The culprit takes a pass over the window: only if there is one.
  if (report.overflow && options_.on_overflow == OnOverflowChoice::stop)
    throw Divergence(fmt::format(
        "the gradient of window {} is not finite (loss {}, loss scale {:g}), which is to end the "
        "run: {}",
        window + 1, report.loss, report.loss_scale, culprit(window)));
  if (!report.skipped) {
    in_a_row_ = 0;
    from_scale_ = std::numeric_limits<double>::infinity();
  } else if (report.overflow && std::isfinite(report.loss) &&
             options_.chosen_loss_scale().is_dynamic() && report.loss_scale > 1 &&
             report.loss_scale <= from_scale_ / 2) {
    // What a smaller scale may cure is the loss scale's business, as long as it falls.
    in_a_row_ = 0;
    from_scale_ = report.loss_scale;
  } else {
    ++in_a_row_;
  }
  if (in_a_row_ >= options_.max_skipped)
    throw Divergence(fmt::format(
        "the loss or its gradient was not finite in {} windows in a row (after step {}, loss {}): "
        "{}; check the data and the initial weights, lower the learning rate, or clip the "
        "gradient's norm",
        in_a_row_, report.step, report.loss, culprit(window)));
}

std::string SkippedWindows::culprit(int64_t window) const {
  const Parameters& parameters = training_.parameters();
  for (const Parameters::Entry& entry : parameters.entries())
    if (!is_finite(entry.tensor.detach())) return fmt::format("{} is not finite", entry.name);
  for (const Parameters::Entry& entry : parameters.buffer_entries())
    if (!is_finite(entry.tensor)) return fmt::format("{} is not finite", entry.name);

  const Objective& objective = training_.objective();
  const NoGrad no_grad;
  Loader loader(data_, {.effective_batch_size = training_.batches().effective,
                        .micro_batch_size = 1,
                        .seed = options_.seed,
                        .shuffle = options_.shuffle ? Shuffle::on : Shuffle::off,
                        .device = training_.device(),
                        .dtype = parameters.compute_dtype(),
                        .prefetch = Prefetch::off});
  const int64_t per_epoch = loader.windows_per_epoch();
  loader.start_epoch(window / per_epoch, window % per_epoch);
  while (const MicroBatch* sample = loader.next()) {
    const Tensor answer = training_.model()((*sample)[objective.input()], Pass::eval());
    if (!is_finite(answer) || !is_finite(objective.loss(answer, *sample)))
      return fmt::format("the first sample with such a result is number {} of {}",
                         sample->indices.to(Device::cpu).span<int32_t>()[0], data_.name);
    if (sample->ends_window) break;
  }
  return "every sample alone has a finite loss, so it arises in the gradient";
}

}  // namespace accrue
