// Trains a GAN with an effective batch of 32 samples, of which 4 are in memory at a time: from
// pictures of shapes a generator draws their masks, and a discriminator tells these from the true
// ones. Each takes the steps of one batch of 32. Prints the mean losses of each 50 windows, then
// how well the masks are drawn.

#include <accrue/accrue.h>

using namespace accrue;

struct Network {
  std::unique_ptr<Module> model;
  Parameters parameters = place(*model, DType::f32, Device::cpu, /*seed=*/1);
  std::unique_ptr<Optimizer> optimizer = adam(parameters, {.beta1 = 0.5});
  Window window{*optimizer, ScheduleOptions{.base = 1e-3}, {.effective_batch_size = 32}};

  explicit Network(std::unique_ptr<Module> made) : model(std::move(made)) {}
};

std::unique_ptr<Module> make_discriminator() {
  auto model = std::make_unique<Sequential>();
  model->add<Conv2d>(1, 16, 4, Conv2dShape{.stride = 2, .padding = 1});  // 14x14
  model->add<Relu>();
  model->add<Flatten>();
  model->add<Linear>(16 * 14 * 14, 1);
  return model;
}

int main() {
  const Datasets shapes = find_dataset("shapes");
  Loader loader(shapes.train, {.effective_batch_size = 32, .micro_batch_size = 4});
  Network generator(make_model({.kind = ModelKind::unet, .width = 0.5}));
  Network discriminator(make_discriminator());

  // The mean cost of taking masks for true ones (1) or drawn ones (0).
  const auto verdict = [&](const Tensor& masks, double truth) {
    const Tensor logits = (*discriminator.model)(masks);
    return bce_with_logits(logits, Tensor::full(logits.shape(), truth, DType::f32, Device::cpu));
  };
  const auto discriminate = [&](const Samples& s) {
    return add(verdict(s["masks"], 1), verdict(sigmoid((*generator.model)(s["images"])), 0));
  };
  const auto deceive = [&](const Samples& s) {
    const Tensor drawn = (*generator.model)(s["images"]);
    return add(verdict(sigmoid(drawn), 1), scale(bce_with_logits(drawn, s["masks"]), 10));
  };
  Game game({{"discriminator", discriminator.window, discriminate},
             {"generator", generator.window, deceive}});

  for (int64_t window = 0; window < 200; ++window) {
    game.play(window_of(loader, /*epoch=*/0, window));
    if (window % 50 != 49) continue;
    for (Network* network : {&discriminator, &generator}) {
      double loss = 0;
      for (const StepReport& step : network->window.reports(Window::Wait::yes)) loss += step.loss;
      fmt::print("{} {:.3f}  ", network == &generator ? "generator" : "discriminator", loss / 50);
    }
    fmt::print("| {} windows\n", game.windows());
  }
  const Score score =
      evaluate(*generator.model, shapes.test, /*micro_batch=*/4, DType::f32, Device::cpu);
  fmt::print("test {}\n", score.describe());
}
