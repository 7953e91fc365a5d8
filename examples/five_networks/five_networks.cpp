// Trains five networks in float64, each for five steps of Adam with eight samples: in whole
// batches, in micro-batches of 3 + 3 + 2, of single samples, and on two ranks. Prints how far the
// first gradient and the last weights are from the whole batch's, and fails if they are too far.
// The files that it leaves in a folder are for python/tests/judges/test_five_networks.py, which
// compares them with PyTorch's.
//
//     five_networks [FOLDER]

#include <filesystem>
#include <random>

#include "networks.h"
#include "thread_ranks.h"

constexpr int64_t window = 8, steps = 5;

// Images [N, 3, size, size] and their classes, or the classes of their pixels.
Dataset draw(int64_t size, int64_t classes, bool by_pixel) {
  const int64_t N = window * steps;
  std::mt19937 random(1);
  const auto drawn = [&](const Shape& shape, DType dtype, auto draw_one) {
    const Tensor values = Tensor::empty(shape, dtype, Device::cpu, Category::data);
    for (auto& value : values.span<decltype(draw_one())>()) value = draw_one();
    return values;
  };
  std::normal_distribution<float> normal;
  const Tensor images = drawn({N, 3, size, size}, DType::f32, [&] { return normal(random); });
  const Tensor labels = drawn(by_pixel ? Shape{N, 1, size, size} : Shape{N}, DType::i32,
                              [&] { return int32_t(random() % uint32_t(classes)); });
  return {"random",
          "drawn",
          {{.name = "images", .values = images, .encoding = Encoding::number},
           {.name = by_pixel ? "masks" : "labels",
            .values = labels,
            .encoding = Encoding::index,
            .classes = classes}}};
}

struct Distance {
  double apart = 0, largest = 0;
};

NamedTensors weights_in(const std::string& path) {
  NamedTensors weights = read_safetensors(path);
  std::erase_if(weights, [](const auto& w) { return w.first.find("running") != w.first.npos; });
  return weights;
}

// How far two files' weights are apart, and how far they are from the start's at most.
Distance distance(const std::string& path, const std::string& other, const std::string& start) {
  const NamedTensors a = weights_in(path), b = weights_in(other), from = weights_in(start);
  Distance found;
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t k = 0; k < a[i].second.span<double>().size(); ++k) {
      const auto at = [&](const NamedTensors& w) { return w[i].second.span<double>()[k]; };
      found.apart = std::max(found.apart, std::abs(at(a) - at(b)));
      found.largest = std::max(found.largest, std::abs(at(a) - at(from)));
    }
  return found;
}

bool try_network(const std::string& folder, const std::string& name, const ModelFactory& model,
                 const Dataset& data, bool has_norms) {
  const std::string path = folder + "/" + name;
  write_safetensors(path + "-data.safetensors",
                    {{"x", data.fields[0].values}, {"y", data.fields[1].values}});
  TrainingOptions options;
  options.model = model;
  options.objective = data.has("masks") ? segmentation(data.field("masks")) : classification();
  options.precision = Precision::fp64;
  options.batches = {.micro = window, .effective = window};
  options.shuffle = false;
  options.schedule.kind = ScheduleOptions::Kind::constant;
  if (has_norms) options.batch_norm = BatchNormOver::window;
  {
    const auto network = model();
    const Parameters parameters = place(*network, DType::f64, Device::cpu, options.seed);
    save_weights(path + "-start.safetensors", parameters);
  }

  // Saves the weights after a step of SGD, which moves them by the gradient, and after all of Adam.
  const auto train = [&](const std::string& way, int64_t micro_batch, Ranks* ranks) {
    TrainingOptions now = options;
    now.batches.micro = micro_batch;
    now.ranks = ranks;
    Observer nobody;
    for (const bool is_gradient : {true, false}) {
      now.optimizer = is_gradient ? OptimizerKind::sgd : OptimizerKind::adam;
      now.schedule.base = is_gradient ? 1 : 1e-2;
      now.eps = 1e-3;
      now.steps = is_gradient ? 1 : steps;
      Trainer trainer(now, data, Device::cpu);
      trainer.run(nobody);
      trainer.save_weights(
          fmt::format("{}-{}{}.safetensors", path, way, is_gradient ? "-sgd" : ""));
    }
  };
  train("whole", window, nullptr);
  train("3+3+2", 3, nullptr);
  train("singles", 1, nullptr);
  run_ranks(2, [&](Ranks& ranks) { train("ranks", 3, &ranks); });

  bool is_good = true;
  for (const std::string way : {"3+3+2", "singles", "ranks"}) {
    const auto apart = [&](const std::string& step) {
      return distance(fmt::format("{}-{}{}.safetensors", path, way, step),
                      fmt::format("{}-whole{}.safetensors", path, step),
                      path + "-start.safetensors");
    };
    const Distance gradient = apart("-sgd"), weights = apart("");
    fmt::print("{:8} {:8} gradient {:.1e} of {:.2f}, weights {:.1e}\n", name, way, gradient.apart,
               gradient.largest, weights.apart);
    is_good = is_good && gradient.apart <= 1e-12 * gradient.largest && weights.apart <= 1e-11;
  }
  return is_good;
}

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "five_networks.out";
  std::filesystem::create_directories(folder);
  const Dataset small = draw(8, 5, false), large = draw(16, 5, false), pixels = draw(16, 3, true);
  const auto of = [](auto make) -> ModelFactory { return make; };
  bool is_good = true;
  is_good &= try_network(folder, "vit", of([] { return std::make_unique<Vit>(); }), small, false);
  is_good &=
      try_network(folder, "mobile", of([] { return std::make_unique<Mobile>(); }), large, true);
  is_good &=
      try_network(folder, "excited", of([] { return std::make_unique<Excited>(); }), large, true);
  is_good &=
      try_network(folder, "gated", of([] { return std::make_unique<Gated>(); }), large, false);
  is_good &=
      try_network(folder, "gates", of([] { return std::make_unique<Gates>(); }), pixels, false);
  return is_good ? 0 : 1;
}
