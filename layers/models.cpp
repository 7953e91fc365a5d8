#include "layers/models.h"

#include "layers/layers.h"

namespace accrue {
namespace {

enum class NormKind { none, group, batch };

// Pooling comes before relu, which gives the same result (both are monotone) and keeps a quarter
// of the activations.
std::unique_ptr<Sequential> make_cnn(const ModelOptions& options, NormKind norm) {
  auto model = std::make_unique<Sequential>();
  int64_t in = 1;
  for (const int64_t out : {16, 32}) {
    model->add<Conv2d>(in, out, 3, Conv2dShape{.padding = 1}, options.init);
    if (norm == NormKind::group) model->add<GroupNorm>(8, out);
    if (norm == NormKind::batch) model->add<BatchNorm>(out);
    model->add<MaxPool2d>(Pool2dShape{2});
    model->add<Relu>();
    in = out;
  }
  model->add<Flatten>();
  model->add<Linear>(in * 7 * 7, 128, Activation::relu, options.init);
  if (options.dropout > 0) model->add<Dropout>(options.dropout);
  model->add<Linear>(128, 10, Activation::none, options.init);
  return model;
}

}  // namespace

const std::map<std::string, ModelKind>& model_names() {
  static const std::map<std::string, ModelKind> names{{"mlp", ModelKind::mlp},
                                                      {"mlp-small", ModelKind::mlp_small},
                                                      {"cnn", ModelKind::cnn},
                                                      {"cnn-gn", ModelKind::cnn_gn},
                                                      {"cnn-bn", ModelKind::cnn_bn}};
  return names;
}

std::string name(ModelKind kind) {
  for (const auto& [text, candidate] : model_names())
    if (candidate == kind) return text;
  return "?";
}

std::unique_ptr<Sequential> make_mlp(std::span<const int64_t> sizes, double dropout,
                                     InitScheme init) {
  check(sizes.size() >= 2, "a perceptron needs an input and an output size, got {} sizes",
        sizes.size());
  auto model = std::make_unique<Sequential>();
  for (size_t i = 0; i + 2 < sizes.size(); ++i)
    model->add<Linear>(sizes[i], sizes[i + 1], Activation::relu, init);
  if (dropout > 0) model->add<Dropout>(dropout);
  model->add<Linear>(sizes[sizes.size() - 2], sizes.back(), Activation::none, init);
  return model;
}

std::unique_ptr<Sequential> make_model(const ModelOptions& options) {
  static constexpr std::array<int64_t, 5> mlp{784, 512, 256, 128, 10};
  static constexpr std::array<int64_t, 3> mlp_small{784, 256, 10};
  switch (options.kind) {
    case ModelKind::mlp: return make_mlp(mlp, options.dropout, options.init);
    case ModelKind::mlp_small: return make_mlp(mlp_small, options.dropout, options.init);
    case ModelKind::cnn: return make_cnn(options, NormKind::none);
    case ModelKind::cnn_gn: return make_cnn(options, NormKind::group);
    case ModelKind::cnn_bn: break;
  }
  return make_cnn(options, NormKind::batch);
}

}  // namespace accrue
