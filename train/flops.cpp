#include "train/flops.h"

namespace accrue {

double training_flops_per_sample(const ModelFactory& make_model, const Shape& sample) {
  const auto model = make_model();
  const Parameters parameters = place(*model, DType::f32, Device::meta, 0);
  const NoGrad no_grad;
  double flops = 0;
  Pass pass = Pass::eval();
  pass.observe = [&](const Module& layer, const Shape& x, const Shape& y) {
    flops += (flops == 0 ? 4 : 6) * double(layer.products(x, y));
  };
  (*model)(Tensor::empty(sample, DType::f32, Device::meta), pass);
  return flops;
}

double training_flops_per_sample(const std::vector<PlayerOptions>& players, const Dataset& data) {
  Networks networks;
  std::vector<std::unique_ptr<Module>> models;
  std::vector<Parameters> parameters;
  for (const PlayerOptions& player : players) {
    models.push_back(player.model());
    parameters.push_back(place(*models.back(), DType::f32, Device::meta, 0));
    networks.add(player.name, *models.back());
  }
  const Samples sample = empty_samples(data, 1, DType::f32, Device::meta);
  const NoGrad no_grad;
  double flops = 0;
  for (const PlayerOptions& player : players) {
    Pass pass = Pass::eval();
    pass.observe = [&](const Module& layer, const Shape& x, const Shape& y) {
      flops += 6 * double(layer.products(x, y)) * double(player.times) / double(player.every);
    };
    player.loss(networks, sample, pass);
  }
  return flops;
}

}  // namespace accrue
