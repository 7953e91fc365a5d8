#include "layers/models.h"

#include <array>
#include <cmath>
#include <optional>

#include "core/inside.h"
#include "layers/unet.h"

namespace accrue {
namespace {

constexpr int64_t deepest = 10;  // levels of a U-Net

struct TorchvisionResnet {
  std::array<int64_t, 4> blocks;  // of each stage
  bool has_bottlenecks = false;
  NormKind norm = NormKind::batch;
};

std::optional<TorchvisionResnet> torchvision_resnet(ModelKind kind) {
  switch (kind) {
    case ModelKind::resnet18: return {{.blocks = {2, 2, 2, 2}}};
    case ModelKind::resnet34: return {{.blocks = {3, 4, 6, 3}}};
    case ModelKind::resnet50: return {{.blocks = {3, 4, 6, 3}, .has_bottlenecks = true}};
    case ModelKind::resnet18_gn: return {{.blocks = {2, 2, 2, 2}, .norm = NormKind::group}};
    case ModelKind::resnet34_gn: return {{.blocks = {3, 4, 6, 3}, .norm = NormKind::group}};
    case ModelKind::resnet50_gn:
      return {{.blocks = {3, 4, 6, 3}, .has_bottlenecks = true, .norm = NormKind::group}};
    default: return {};
  }
}

// Pooling comes before relu. The result is the same (both are monotone), with a quarter of the
// activations to keep.
std::unique_ptr<Sequential> make_cnn(const ModelOptions& options, NormKind norm) {
  auto model = std::make_unique<Sequential>();
  const Shape& image = options.image;
  check(image[1] >= 4 && image[2] >= 4,
        "model {} on images {}: expected a height and width of at least 4, for two pools",
        name(options.kind), image);
  const Channels layout = options.channels;
  if (layout == Channels::last) model->add<MoveChannels>(layout);
  int64_t in = image[0];
  for (const int64_t out : {scaled(16, options.width), scaled(32, options.width)}) {
    model->add<Conv2d>(in, out, 3, Conv2dShape{.padding = 1, .channels = layout}, options.init);
    if (norm != NormKind::none)
      model->append(make_norm(norm, out, usual_groups, Activation::none, layout));
    model->add<MaxPool2d>(Pool2dShape{.kernel = 2, .channels = layout}, Activation::relu);
    in = out;
  }
  if (layout == Channels::last) model->add<MoveChannels>(Channels::first);
  model->add<Flatten>();
  const int64_t hidden = scaled(128, options.width);
  model->add<Linear>(in * (image[1] / 4) * (image[2] / 4), hidden, Activation::relu, options.init);
  if (options.dropout > 0) model->add<Dropout>(options.dropout);
  model->add<Linear>(hidden, options.classes, Activation::none, options.init);
  return model;
}

std::unique_ptr<UNet> make_unet(const ModelOptions& options) {
  check(1 <= options.depth && options.depth <= deepest,
        "a U-Net of depth {}: expected 1 to {} levels", options.depth, deepest);
  std::vector<int64_t> channels;
  for (int64_t i = 0; i < options.depth; ++i)
    channels.push_back(scaled(int64_t{16} << i, options.width));
  return std::make_unique<UNet>(channels, options.dropout, options.init, options.image[0],
                                options.classes);
}

}  // namespace

const std::map<std::string, ModelKind>& detail::model_names() {
  static const std::map<std::string, ModelKind> names{{"mlp", ModelKind::mlp},
                                                      {"mlp-small", ModelKind::mlp_small},
                                                      {"cnn", ModelKind::cnn},
                                                      {"cnn-gn", ModelKind::cnn_gn},
                                                      {"cnn-bn", ModelKind::cnn_bn},
                                                      {"resnet", ModelKind::resnet},
                                                      {"resnet-bn", ModelKind::resnet_bn},
                                                      {"resnet18", ModelKind::resnet18},
                                                      {"resnet34", ModelKind::resnet34},
                                                      {"resnet50", ModelKind::resnet50},
                                                      {"resnet18-gn", ModelKind::resnet18_gn},
                                                      {"resnet34-gn", ModelKind::resnet34_gn},
                                                      {"resnet50-gn", ModelKind::resnet50_gn},
                                                      {"unet", ModelKind::unet}};
  return names;
}

std::string detail::name(ModelKind kind) {
  for (const auto& [text, candidate] : model_names())
    if (candidate == kind) return text;
  return "?";
}

bool detail::takes_channels_last(ModelKind kind) {
  switch (kind) {
    case ModelKind::cnn:
    case ModelKind::cnn_bn:
    case ModelKind::resnet_bn:
    case ModelKind::resnet18:
    case ModelKind::resnet34:
    case ModelKind::resnet50: return true;
    default: return false;
  }
}

int64_t detail::scaled(int64_t size, double width) {
  check(0 < width && width <= 1024, "a model's width is {}: expected a factor, above 0 to 1024",
        width);
  return 8 * std::max<int64_t>(1, std::llround(double(size) * width / 8));
}

namespace {

// Takes x [N, ...] as rows, also where the last dimension is all of a row.
class LinearOfRows : public Linear {
 public:
  using Linear::Linear;
  Tensor forward(Tensor x, const Pass& pass) const override {
    return Linear::forward(x.reshape({x.size(0), x.shape().numel(1, x.shape().rank())}), pass);
  }
};

}  // namespace

std::unique_ptr<Sequential> make_mlp(std::span<const int64_t> sizes, double dropout,
                                     InitScheme init) {
  check(sizes.size() >= 2, "a perceptron needs an input and an output size, got {} sizes",
        sizes.size());
  auto model = std::make_unique<Sequential>();
  for (size_t i = 0; i + 2 < sizes.size(); ++i)
    model->add<LinearOfRows>(sizes[i], sizes[i + 1], Activation::relu, init);
  if (dropout > 0) model->add<Dropout>(dropout);
  model->add<LinearOfRows>(sizes[sizes.size() - 2], sizes.back(), Activation::none, init);
  return model;
}

std::unique_ptr<Sequential> make_resnet(std::span<const int64_t> channels, int64_t blocks,
                                        NormKind norm, double dropout, InitScheme init,
                                        int64_t in_channels, int64_t classes, Channels layout) {
  check(!channels.empty() && blocks >= 1, "a ResNet needs stages and blocks, got {} and {}",
        channels.size(), blocks);
  auto model = std::make_unique<Sequential>();
  int64_t in = channels.front();
  if (layout == Channels::last) model->add<MoveChannels>(layout);
  model->add<Conv2d>(in_channels, in, 3, Conv2dShape{.padding = 1, .channels = layout}, init,
                     Bias::none);
  model->append(make_norm(norm, in, usual_groups, Activation::relu, layout));
  for (size_t stage = 0; stage < channels.size(); ++stage)
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      model->add<BasicBlock>(std::exchange(in, channels[stage]), channels[stage], stride, norm,
                             init, usual_groups, layout);
    }
  model->add<GlobalAvgPool2d>(layout);
  model->add<Flatten>();
  if (dropout > 0) model->add<Dropout>(dropout);
  model->add<Linear>(in, classes, Activation::none, init);
  return model;
}

std::unique_ptr<Sequential> make_torchvision_resnet(const ModelOptions& options) {
  const auto resnet = torchvision_resnet(options.kind);
  check(resnet.has_value(), "model {} is not one of torchvision's ResNets: expected one",
        name(options.kind));
  const auto& [blocks, has_bottlenecks, norm] = *resnet;
  constexpr int64_t groups = 32;
  const bool own = options.init == InitScheme::kaiming;
  const InitScheme filters = own ? InitScheme::kaiming_fan_out : options.init;
  int64_t channels = scaled(64, options.width), in = channels;

  auto model = std::make_unique<Sequential>();
  const auto add = [&](std::string name, std::unique_ptr<Layer> layer) {
    model->append(std::move(name), std::move(layer));
  };
  const Channels layout = options.channels;
  if (layout == Channels::last) add("channels_last", std::make_unique<MoveChannels>(layout));
  const Conv2dShape shape{.stride = 2, .padding = 3, .channels = layout};
  add("conv1", std::make_unique<Conv2d>(options.image[0], in, 7, shape, filters, Bias::none));
  add("bn1", make_norm(norm, in, groups, Activation::none, layout));
  const Pool2dShape pool{.kernel = 3, .stride = 2, .padding = 1, .channels = layout};
  add("maxpool", std::make_unique<MaxPool2d>(pool, Activation::relu));
  for (size_t stage = 0; stage < blocks.size(); ++stage, channels *= 2)
    for (int64_t block = 0; block < blocks[stage]; ++block) {
      const int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      const std::string name = fmt::format("layer{}.{}", stage + 1, block);
      const int64_t out = has_bottlenecks ? 4 * channels : channels;
      if (has_bottlenecks)
        add(name, std::make_unique<Bottleneck>(in, out, stride, norm, filters, groups, layout));
      else add(name, std::make_unique<BasicBlock>(in, out, stride, norm, filters, groups, layout));
      in = out;
    }
  add("avgpool", std::make_unique<GlobalAvgPool2d>(layout));
  add("flatten", std::make_unique<Flatten>());
  if (options.dropout > 0) add("dropout", std::make_unique<Dropout>(options.dropout));
  add("fc", std::make_unique<Linear>(in, options.classes, Activation::none,
                                     own ? InitScheme::lecun : options.init));
  return model;
}

ModelOptions detail::default_model(ModelKind kind) {
  if (kind == ModelKind::unet) return {.kind = kind, .classes = 1};
  if (torchvision_resnet(kind)) return {.kind = kind, .image = {3, 224, 224}, .classes = 1000};
  return {.kind = kind};
}

ModelFactory model_factory(const ModelOptions& options) {
  return [options] { return make_model(options); };
}

std::unique_ptr<Layer> make_model(const ModelOptions& options) {
  check(options.dropout >= 0 && options.dropout < 1, "dropout {}: expected in [0, 1)",
        options.dropout);
  check(options.image.rank() == 3 && options.image.numel() > 0 && options.classes > 0,
        "a model of images {} and {} classes: expected [C, H, W] and a class", options.image,
        options.classes);
  check(options.channels == Channels::first || takes_channels_last(options.kind),
        "model {} with channels last: expected a network of convolutions without other norms than "
        "BatchNorm",
        name(options.kind));
  const int64_t pixels = options.image.numel(), classes = options.classes;
  const auto wide = [&](int64_t size) { return scaled(size, options.width); };
  const std::array<int64_t, 5> mlp{pixels, wide(512), wide(256), wide(128), classes};
  const std::array<int64_t, 3> mlp_small{pixels, wide(256), classes};
  const std::array<int64_t, 3> stages{wide(16), wide(32), wide(64)};
  const auto resnet20 = [&](NormKind norm) {
    return make_resnet(stages, 3, norm, options.dropout, options.init, options.image[0], classes,
                       options.channels);
  };
  switch (options.kind) {
    case ModelKind::mlp: return make_mlp(mlp, options.dropout, options.init);
    case ModelKind::mlp_small: return make_mlp(mlp_small, options.dropout, options.init);
    case ModelKind::cnn: return make_cnn(options, NormKind::none);
    case ModelKind::cnn_gn: return make_cnn(options, NormKind::group);
    case ModelKind::cnn_bn: return make_cnn(options, NormKind::batch);
    case ModelKind::resnet: return resnet20(NormKind::group);
    case ModelKind::resnet_bn: return resnet20(NormKind::batch);
    case ModelKind::resnet18:
    case ModelKind::resnet34:
    case ModelKind::resnet50:
    case ModelKind::resnet18_gn:
    case ModelKind::resnet34_gn:
    case ModelKind::resnet50_gn: return make_torchvision_resnet(options);
    case ModelKind::unet: break;
  }
  return make_unet(options);
}

}  // namespace accrue
