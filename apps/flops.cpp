#include "apps/flops.h"

namespace accrue::app {

double training_flops_per_sample(const ModelOptions& options) {
  const auto model = make_model(options);
  const Parameters parameters = place(*model, DType::f32, Device::meta, 0);
  const NoGrad no_grad;
  Tensor x = Tensor::empty({1, 1, 28, 28}, DType::f32, Device::meta);
  double flops = 0;
  bool first = true;
  model->for_each_layer([&](Module& layer) {
    x = layer(std::move(x), Pass::eval());
    layer.visit_parameters([&](const std::string&, const Parameter& p) {
      if (p.shape.rank() < 2) return;
      // A weight is used once for each output position.
      const double uses = double(x.numel()) / double(p.shape[0]);
      flops += (first ? 4 : 6) * double(p.shape.numel()) * uses;
      first = false;
    });
  });
  return flops;
}

}  // namespace accrue::app
