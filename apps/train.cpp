#include "apps/train.h"

#include "apps/child.h"
#include "apps/interrupt.h"
#include "apps/memory_table.h"
#include "apps/train_log.h"
#include "apps/training.h"
#include "apps/weights.h"
#include "data/atomic_file.h"

namespace accrue::app {
namespace {

// Throws Error after so many windows with a non-finite loss or gradient in a row that going on
// makes no sense.
class SkippedWindows {
 public:
  void see(const StepReport& report) {
    in_a_row_ = report.skipped ? in_a_row_ + 1 : 0;
    check(in_a_row_ < 10,
          "the loss or its gradient was not finite in {} windows in a row (step {}, loss {}): "
          "check the data and the initial weights, or lower --lr",
          in_a_row_, report.step, report.loss);
  }

 private:
  int in_a_row_ = 0;
};

void warn_about_batch_norm(const TrainOptions& options, Batches batches) {
  if (options.model.kind != ModelKind::cnn_bn || batches.accumulation_steps() == 1) return;
  fmt::print(stderr,
             "warning: BatchNorm normalises over each micro-batch of {} samples, not over the "
             "effective batch of {}: the result differs from one big batch. cnn-gn (GroupNorm) "
             "does not depend on the split.\n",
             batches.micro, batches.effective);
}

}  // namespace

void train(const TrainOptions& options) {
  const Device device = apply_machine_options(options);
  const Datasets data = place_data(find_dataset(options.data, options.data_dir), device);
  const Batches batches = options.batches(data.train.size());
  warn_about_batch_norm(options, batches);
  // A place that cannot be written to is an error now, not after the training.
  if (!options.save.empty()) AtomicFile{options.save};

  Training training(options, batches, data.train, device);
  if (!options.init.empty()) load_weights(options.init, training.parameters());
  const int64_t steps = total_steps(options, batches, data.train.size());
  TrainLog log(options, data, training, steps);

  const InterruptScope interrupts;
  Loader& loader = training.loader();
  Window& window = training.window();
  ledger(device).reset_peak();
  SkippedWindows skipped;
  int64_t epoch = 0;
  double loss_sum = 0;
  const auto take_reports = [&](Window::Wait wait) {
    for (const StepReport& report : window.reports(wait)) {
      skipped.see(report);
      loss_sum += report.loss * double(report.samples);
      log.step(epoch, report);
    }
  };
  for (; window.steps() < steps && !interrupted(); ++epoch) {
    loader.start_epoch(epoch);
    loss_sum = 0;
    while (const MicroBatch* micro_batch = loader.next()) {
      training.accumulate(*micro_batch, epoch);
      if (!micro_batch->ends_window) continue;
      window.enqueue_step();
      take_reports(window.steps() < steps ? Window::Wait::no : Window::Wait::yes);
      if (window.steps() >= steps || interrupted()) break;
    }
    take_reports(Window::Wait::yes);
    window.schedule().observe(loss_sum);
  }
  log.finish(interrupted(), loader.waited_seconds());

  const Usage peak = ledger(device).peak();
  if (window.steps() > 0) {
    const Score score = evaluate(training.model(), data.test, batches.micro, device);
    fmt::print("test accuracy {:.2f} % ({} of {}), loss {:.4f}\n", score.accuracy(), score.correct,
               score.samples, score.loss);
    print_memory_table(options, batches, data, peak, device);
  }
  if (!options.save.empty()) {
    save_weights(options.save, training.parameters());
    fmt::print("saved {}\n", options.save);
  }
}

}  // namespace accrue::app
