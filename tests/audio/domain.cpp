#include "tests/audio/domain.h"

#include <cmath>
#include <numbers>

#include "core/random.h"
#include "layers/layers.h"

namespace accrue::test {
namespace {

constexpr const char *model_name = "listener", *data_name = "waves";

// Clips [N, 1, T] with noise on top of a sine or a square wave of any phase, three to six periods
// long.
Dataset make_waves(const Audio& audio, int64_t N, uint64_t seed) {
  const int64_t T = audio.length;
  Dataset data{data_name, "synthesised"};
  data.fields = {{"clips", Tensor::empty({N, 1, T}, DType::f32, Device::cpu, Category::data),
                  Encoding::number},
                 {.name = "shapes",
                  .values = Tensor::empty({N}, DType::i32, Device::cpu, Category::data),
                  .encoding = Encoding::index,
                  .classes = 2,
                  .class_names = {"sine", "square"}}};
  const auto clips = data["clips"].span<float>();
  const auto shapes = data["shapes"].span<int32_t>();
  for (int64_t n = 0; n < N; ++n) {
    RandomStream random(seed, uint64_t(n));
    const bool is_square = n % 2 == 1;
    const double periods = 3 + 3 * random.uniform(), phase = random.uniform();
    for (int64_t t = 0; t < T; ++t) {
      const double sine =
          std::sin(2 * std::numbers::pi * (periods * double(t) / double(T) + phase));
      const double wave = is_square ? std::copysign(std::numbers::sqrt2 / 2, sine) : sine;
      clips[size_t(n * T + t)] = float(wave + audio.noise * (2 * random.uniform() - 1));
    }
    shapes[size_t(n)] = is_square;
  }
  return data;
}

// The layers are made for planes, so a clip [N, 1, T] becomes a plane of height 1.
class AsPlane : public Layer {
 public:
  Tensor forward(Tensor x, const Pass&) const override {
    return x.reshape({x.size(0), x.size(1), 1, x.size(2)});
  }
  std::string describe() const override { return "as plane"; }
};

}  // namespace

Settings Audio::settings(TrainingOptions&) {
  const ActsWith with_listener{{"model", {model_name}}};
  Settings s;
  s.group("Model and data")
      .add(length, {.name = "clip-length",
                    .decides = Decides::result,
                    .help = "Numbers in a clip",
                    .range = {8, 1 << 16},
                    .acts_with = with_listener,
                    .saved = Saved::with_weights})
      .add(noise, {.name = "clip-noise",
                   .decides = Decides::result,
                   .help = "How far noise moves each of them",
                   .range = zero_or_more,
                   .acts_with = with_listener});
  return s;
}

std::vector<DomainModel> Audio::models() const {
  return {{.name = model_name,
           .sample = {{{"clips", Encoding::number, {1, length}},
                       {.name = "shapes", .encoding = Encoding::index, .classes = 2}}},
           .data = data_name,
           .heeds = {"width", "init-scheme"}}};
}

ModelFactory Audio::factory(const std::string&, const NetworkOptions& options,
                            const SampleSpec& sample) const {
  const auto channels = static_cast<int64_t>(8 * options.width);
  return [=, init = options.init, classes = sample.classes()] {
    auto model = std::make_unique<Sequential>();
    model->add<AsPlane>();
    model->add<Conv2d>(1, channels, 3, Conv2dShape{.padding = 1}, init);
    model->add<Relu>();
    model->add<GlobalAvgPool2d>();
    model->add<Flatten>();
    model->add<Linear>(channels, classes, Activation::none, init);
    return model;
  };
}

ObjectivePtr Audio::objective(const Dataset&) const { return classification("clips", "shapes"); }

Domain::Claim Audio::claim(const std::string& data) const {
  return data == data_name ? Claim::own : Claim::none;
}

Datasets Audio::load(const DataRequest&) const {
  return {make_waves(*this, 512, 1), make_waves(*this, 200, 2)};
}

void Audio::fit(Datasets& data, const DomainModel& model, const DataRequest&) const {
  check(data.train.has("clips"), "--model {} listens to clips, but the data set {} has {}",
        model.name, data.train.name, data.train.fields.front().name);
}

}  // namespace accrue::test
