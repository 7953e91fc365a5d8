#pragma once

#include "kernels/conv2d.h"
#include "kernels/linear.h"
#include "kernels/pointwise.h"
#include "kernels/pool.h"
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

// kernels/conv2d.h. Weight [out, in, kernel, kernel], bias [out].
class Conv2d : public Module {
 public:
  Conv2d(int64_t in, int64_t out, int64_t kernel, Conv2dShape shape = {},
         InitScheme scheme = InitScheme::standard);
  Tensor forward(Tensor x, const Pass&) const override {
    return conv2d(x, weight_.tensor, bias_.tensor, shape_);
  }
  std::string describe() const override;

 private:
  Conv2dShape shape_;
  Parameter weight_, bias_;
};

// kernels/pool.h
class MaxPool2d : public Module {
 public:
  explicit MaxPool2d(Pool2dShape shape) : shape_(shape) {}
  Tensor forward(Tensor x, const Pass&) const override { return max_pool2d(x, shape_); }
  std::string describe() const override {
    return fmt::format("max-pool {}x{} stride {}", shape_.kernel, shape_.kernel, shape_.stride);
  }

 private:
  Pool2dShape shape_;
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
