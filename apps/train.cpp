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

// Windows with a non-finite loss or gradient in a row after which going on makes no sense.
constexpr int most_skipped = 10;

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
  apply_machine_options(options);
  const Datasets data = find_dataset(options.data, options.data_dir);
  const Batches batches = options.batches(data.train.size());
  warn_about_batch_norm(options, batches);
  // A place that cannot be written to is an error now, not after the training.
  if (!options.save.empty()) AtomicFile{options.save};

  Training training(options, batches, data.train, Device::cpu);
  if (!options.init.empty()) load_weights(options.init, training.parameters());
  const int64_t steps = total_steps(options, batches, data.train.size());
  TrainLog log(options, data, training, steps);

  const InterruptScope interrupts;
  Loader& loader = training.loader();
  Window& window = training.window();
  ledger(Device::cpu).reset_peak();
  int skipped = 0;
  for (int64_t epoch = 0; window.steps() < steps && !interrupted(); ++epoch) {
    loader.start_epoch(epoch);
    double loss_sum = 0;
    while (const MicroBatch* micro_batch = loader.next()) {
      training.accumulate(*micro_batch, epoch);
      if (!micro_batch->ends_window) continue;

      const StepReport report = window.step();
      skipped = report.skipped ? skipped + 1 : 0;
      check(skipped < most_skipped,
            "the loss or its gradient was not finite in {} windows in a row (step {}, loss {}): "
            "check the data and the initial weights, or lower --lr",
            skipped, report.step, report.loss);
      loss_sum += report.loss * double(report.samples);
      log.step(epoch, report);
      if (window.steps() >= steps || interrupted()) break;
    }
    window.schedule().observe(loss_sum);
  }
  log.finish(interrupted(), loader.waited_seconds());

  const Usage peak = ledger(Device::cpu).peak();
  if (window.steps() > 0) {
    const Score score = evaluate(training.model(), data.test, batches.micro);
    fmt::print("test accuracy {:.2f} % ({} of {}), loss {:.4f}\n", score.accuracy(), score.correct,
               score.samples, score.loss);
    print_memory_table(options, batches, data, peak);
  }
  if (!options.save.empty()) {
    save_weights(options.save, training.parameters());
    fmt::print("saved {}\n", options.save);
  }
}

}  // namespace accrue::app
