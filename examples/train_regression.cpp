// Your own task: a network estimates the radius of the disc in a noisy picture, 24 pixels high and
// 40 wide, with two channels. The data set has two fields. The objective says which field the
// network sees, the cost of its answer, and its score. Training, predictions of memory and
// checkpoints work with any such objective. Prints the error before and after.

#include <accrue/accrue.h>

#include <cmath>
#include <random>

using namespace accrue;

constexpr int64_t H = 24, W = 40;

Dataset make_discs(int64_t N, uint32_t seed) {
  const Tensor images = Tensor::empty({N, 2, H, W}, DType::u8, Device::cpu, Category::data);
  const Tensor radii = Tensor::empty({N, 1}, DType::f32, Device::cpu, Category::data);
  std::mt19937 random(seed);
  uint8_t* pixel = images.span<uint8_t>().data();
  for (float& radius : radii.span<float>()) {
    radius = 2 + float(random() % 800) / 100;
    const double y = 10 + random() % 4, x = 10 + random() % 20;
    for (int channel = 0; channel < 2; ++channel)
      for (int i = 0; i < H; ++i)
        for (int j = 0; j < W; ++j) {
          const bool inside = std::hypot(i - y, j - x) <= radius;
          *pixel++ = uint8_t((inside == (channel == 0) ? 150 : 50) + random() % 60);
        }
  }
  return {
      "discs", "drawn", {{"images", images, Encoding::pixel}, {"radii", radii, Encoding::number}}};
}

class Radius : public Objective {
 public:
  std::string name() const override { return "radius"; }
  std::vector<std::string> targets() const override { return {"radii"}; }
  Tensor loss(const Tensor& answer, const Samples& samples) const override {
    return mse_loss(answer, samples["radii"]);
  }
  int64_t sums() const override { return 2; }
  void add_score(const Tensor& sums, const Tensor& answer, const Samples& samples) const override {
    add_mean(sums.slice(0, 1), loss(answer, samples), samples.size());
    add_mean(sums.slice(1, 2), l1_loss(answer, samples["radii"]), samples.size());
  }
  Score score(std::span<const double> sums, const Dataset& data) const override {
    const double N = double(data.size());
    return {.loss = sums[0] / N,
            .samples = data.size(),
            .metrics = {{"mean error", sums[1] / N}},
            .text = fmt::format("radii off by {:.2f} pixels on average", sums[1] / N)};
  }
};

std::unique_ptr<Layer> make_network() {
  auto model = std::make_unique<Sequential>();
  model->add<Conv2d>(2, 16, 3, Conv2dShape{.stride = 2, .padding = 1});
  model->add<Relu>();
  model->add<Conv2d>(16, 32, 3, Conv2dShape{.stride = 2, .padding = 1});
  model->add<Relu>();
  model->add<GlobalAvgPool2d>();
  model->add<Flatten>();
  model->add<Linear>(32, 32, Activation::relu);
  model->add<Linear>(32, 1);
  return model;
}

int main() {
  const Datasets discs{make_discs(4096, 1), make_discs(512, 2)};
  TrainingOptions options;
  options.model = make_network;
  options.objective = std::make_shared<Radius>();
  options.batches = {.micro = 16, .effective = 64};
  options.schedule.base = 3e-3;
  options.epochs = 6;
  fmt::print("predicted: {}\n", format_bytes(predict_peak(options, discs, Device::cpu).total()));

  Trainer trainer(options, discs.train, Device::cpu);
  fmt::print("untrained: {}\n", trainer.evaluate(discs.test).describe());
  Observer nobody;
  trainer.run(nobody);
  fmt::print("trained: {}\n", trainer.evaluate(discs.test).describe());
}
