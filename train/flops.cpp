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

}  // namespace accrue
