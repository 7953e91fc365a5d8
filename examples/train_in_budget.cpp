// Trains your own network in a budget of memory: predicts the peak of smaller and smaller
// micro-batches, takes the first that fits, and resumes from the last checkpoint if it was killed.
#include <accrue/accrue.h>
using namespace accrue;

struct Printer : Observer {
  void on_resume(const std::filesystem::path& checkpoint, const std::string&) override {
    fmt::print("going on from {}\n", checkpoint.string());
  }
  void on_step(const WindowReport& step) override {
    if (step.step % 50 == 0) fmt::print("epoch {}, loss {:.4f}\n", step.epoch + 1, step.loss);
  }
};

int main(int argc, char** argv) try {
  const size_t budget = parse_bytes(argc > 1 ? argv[1] : "16MiB");
  const Datasets digits = find_dataset("digits");
  TrainingOptions options;
  options.model = [] { return make_resnet(std::vector<int64_t>{8, 16}, 1, NormKind::group); };
  options.checkpoints = {.directory = "checkpoints", .every = 20, .resume = true};
  options.schedule.base = 1e-2;
  options.epochs = 2;

  for (options.batches = {.micro = 64, .effective = 64};; options.batches.micro /= 2) {
    if (options.batches.micro == 0)
      throw Error("not even one sample fits in " + format_bytes(budget));
    const Usage peak = predict_peak(options, digits, Device::cpu);
    fmt::print("{}: {}\n", options.batches.describe(), format_bytes(peak.total()));
    if (peak.total() <= budget) break;
  }
  ledger(Device::cpu).set_limit(budget);

  Trainer trainer(options, digits.train, Device::cpu);
  Printer printer;
  trainer.resume(printer);
  trainer.run(printer);
  fmt::print("test {}\n", trainer.evaluate(digits.test).describe());
} catch (const Error& error) {
  fmt::print(stderr, "train_in_budget: {}\n", error.what());
  return 1;
}
