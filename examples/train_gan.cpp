// Trains a GAN with an effective batch of 32 samples, of which 4 are in memory at a time. A
// generator draws masks for pictures of shapes, and a discriminator tells drawn masks from true
// ones. Each takes the same steps as with one batch of 32. Prints the losses of every 50th window,
// then a score of the masks. With a directory as its argument the run can be killed and started
// again: it resumes from its latest checkpoint there.

#include <accrue/accrue.h>

using namespace accrue;

std::unique_ptr<Layer> make_discriminator() {
  auto model = std::make_unique<Sequential>();
  model->add<Conv2d>(1, 16, 4, Conv2dShape{.stride = 2, .padding = 1});  // 14x14
  model->add<Relu>();
  model->add<Flatten>();
  model->add<Linear>(16 * 14 * 14, 1);
  return model;
}

// The mean cost of classifying these masks as true (1) or drawn (0).
Tensor verdict(const Networks& networks, const Tensor& masks, double truth, const Pass& pass) {
  const Tensor logits = networks["discriminator"](masks, pass);
  return bce_with_logits(logits,
                         Tensor::full(logits.shape(), truth, logits.dtype(), logits.device()));
}

Tensor discriminate(const Networks& networks, const Samples& s, const Pass& pass) {
  const Tensor drawn = sigmoid(networks["generator"](s["images"], pass));
  return add(verdict(networks, s["masks"], 1, pass), verdict(networks, drawn, 0, pass));
}

Tensor deceive(const Networks& networks, const Samples& s, const Pass& pass) {
  const Tensor drawn = networks["generator"](s["images"], pass);
  return add(verdict(networks, sigmoid(drawn), 1, pass),
             scale(bce_with_logits(drawn, s["masks"]), 10));
}

struct Printer : Observer {
  void on_step(const WindowReport& step) override {
    if (step.window % 50 == 49)
      fmt::print("window {}, {} loss {:.3f}\n", step.window + 1, step.player, step.loss);
  }
};

int main(int argc, char** argv) {
  const Datasets shapes = find_dataset("shapes");
  TrainingOptions options;
  const StepOptions step{.schedule = {.base = 1e-3}, .beta1 = 0.5};
  options.players = {
      {.name = "discriminator", .model = make_discriminator, .loss = discriminate, .step = step},
      {.name = "generator",
       .model = model_factory({.kind = ModelKind::unet, .width = 0.5, .classes = 1}),
       .loss = deceive,
       .step = step}};
  options.objective = segmentation(shapes.train.field("masks"));
  options.batches = {.micro = 4, .effective = 32};
  options.steps = 300;
  if (argc > 1) options.checkpoints = {.directory = argv[1], .every = 20, .resume = true};

  Trainer trainer(options, shapes.train, Device::cpu);
  Printer printer;
  trainer.resume(printer);
  trainer.run(printer);
  fmt::print("test {}\n", trainer.evaluate(shapes.test).describe());
}
