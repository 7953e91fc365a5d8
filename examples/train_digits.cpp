// Trains a perceptron on the built-in digits with an effective batch of 64 samples, of which 16 are
// in memory at a time. Prints the mean loss of each epoch, then the accuracy.

#include <accrue/accrue.h>

using namespace accrue;

int main() {
  const Datasets digits = find_dataset("digits");
  Loader loader(digits.train, {.effective_batch_size = 64, .micro_batch_size = 16});
  const auto model = make_model({.kind = ModelKind::mlp});
  Parameters parameters = place(*model, DType::f32, Device::cpu, /*seed=*/1);
  const auto optimizer = adam(parameters);
  Window window(*optimizer, ScheduleOptions{.base = 1e-3}, {.effective_batch_size = 64});

  for (int epoch = 1; epoch <= 3; ++epoch) {
    double loss = 0;
    loader.start_epoch(epoch);
    while (const MicroBatch* micro = loader.next()) {
      const Tensor logits = (*model)((*micro)["images"]);
      window.backward(cross_entropy(logits, (*micro)["labels"]), micro->size());
      if (!micro->ends_window) continue;
      const StepReport step = window.step();
      loss += step.loss * double(step.samples);
    }
    fmt::print("epoch {}: loss {:.3f}\n", epoch, loss / double(digits.train.size()));
  }

  const Score score = evaluate(*model, digits.test, /*micro_batch=*/16, DType::f32, Device::cpu);
  fmt::print("test {}\n", score.describe());
}
