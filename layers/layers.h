#pragma once

#include "kernels/linear.h"
#include "kernels/pointwise.h"
#include "layers/module.h"

namespace accrue {

// y = act(x W^T + b): kernels/linear.h. Weight [out, in], bias [out]. x [N, ...] is taken as rows
// of `in` elements.
class Linear : public Module {
 public:
  Linear(int64_t in, int64_t out, Activation activation = Activation::none,
         InitScheme scheme = InitScheme::standard);
  Tensor forward(Tensor x, const Pass& pass) const override;
  std::string describe() const override;
  int places() const override { return activation_ == Activation::none ? 1 : 2; }

 private:
  Activation activation_;
  Parameter weight_, bias_;
};

class Relu : public Module {
 public:
  Tensor forward(Tensor x, const Pass&) const override { return relu(std::move(x)); }
  std::string describe() const override { return "relu"; }
};

// [N, ...] to [N, C]; costs nothing.
class Flatten : public Module {
 public:
  Tensor forward(Tensor x, const Pass&) const override {
    return x.reshape({x.size(0), x.shape().numel(1, x.shape().rank())});
  }
  std::string describe() const override { return "flatten"; }
};

}  // namespace accrue
