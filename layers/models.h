#pragma once

#include <map>
#include <memory>
#include <string>

#include "layers/module.h"

namespace accrue {

// The networks of the program, for 28x28 images of one channel and ten classes:
//   mlp        784-512-256-128-10, relu between
//   mlp_small  784-256-10
//   cnn        two of (3x3 convolution, 2x2 max-pool, relu), 16 and 32 channels, then 1568-128-10
//   cnn_gn     the same with GroupNorm after each convolution
//   cnn_bn     the same with BatchNorm, whose statistics are the micro-batch's
// Parameters are named as in the nn.Sequential of the same layers in PyTorch.
enum class ModelKind { mlp, mlp_small, cnn, cnn_gn, cnn_bn };

// By the names used on the command line.
const std::map<std::string, ModelKind>& model_names();
std::string name(ModelKind kind);

struct ModelOptions {
  ModelKind kind = ModelKind::mlp;
  double dropout = 0;  // before the last layer
  InitScheme init = InitScheme::kaiming;
};

std::unique_ptr<Sequential> make_model(const ModelOptions& options);

// A perceptron with these layer sizes and relu between: {784, 256, 10}.
std::unique_ptr<Sequential> make_mlp(std::span<const int64_t> sizes, double dropout = 0,
                                     InitScheme init = InitScheme::kaiming);

}  // namespace accrue
