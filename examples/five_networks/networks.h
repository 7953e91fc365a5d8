#pragma once

// Five networks in plain code, of at most 40 lines each. Their parameters have the names of the
// modules by PyTorch that python/tests/judges/test_five_networks.py compares them with.

#include <accrue/accrue.h>

#include <array>
#include <cmath>

using namespace accrue;

// A vision transformer whose attention is written out, with a class token and positions.
class Vit : public Layer {
 public:
  Vit() {
    declare("patches", patches);
    declare("token", token);
    declare("positions", positions);
    for (size_t i = 0; i < 2; ++i) {
      declare(fmt::format("norm{}", i), norm[i]);
      declare(fmt::format("qkv{}", i), qkv[i]);
      declare(fmt::format("out{}", i), out[i]);
    }
    declare("head", head);
  }
  Tensor forward(Tensor x, const Pass& pass) const override {
    x = transpose(flatten(patches(std::move(x), pass), 2), 1, 2);
    const int64_t N = x.size(0), T = 1 + x.size(1);
    x = concat({expand(token.tensor, {N, 1, D}), x}, 1) + positions.tensor;
    for (size_t i = 0; i < 2; ++i) {
      std::vector<Tensor> qkv_of = split(matmul(norm[i](x, pass), qkv[i].tensor), {D, D, D}, -1);
      for (Tensor& t : qkv_of) t = transpose(t.reshape({N, T, heads, D / heads}), 1, 2);
      const auto& [q, k, v] = std::tie(qkv_of[0], qkv_of[1], qkv_of[2]);
      const Tensor a = softmax(matmul(q, transpose(k, -2, -1)) * std::pow(D / heads, -0.5), -1);
      const Tensor h = gelu(transpose(matmul(a, v), 1, 2).reshape({N, T, D}));
      x = x + matmul(h, out[i].tensor);
    }
    return head(squeeze(slice(x, 1, 0, 1), 1) + mean(slice(x, 1, 1, T), {1}), pass);
  }
  std::string describe() const override { return "a vision transformer"; }

 private:
  static constexpr int64_t D = 16, heads = 4;
  Conv2d patches{3, D, 2, {.stride = 2}};
  Parameter token{{1, 1, D}, Init::normal(0.1), {}}, positions{{1, 17, D}, Init::normal(0.1), {}};
  LayerNorm norm[2]{LayerNorm(D), LayerNorm(D)};
  Parameter qkv[2]{{{D, 3 * D}, Init::normal(0.3), {}}, {{D, 3 * D}, Init::normal(0.3), {}}};
  Parameter out[2]{{{D, D}, Init::normal(0.3), {}}, {{D, D}, Init::normal(0.3), {}}};
  Linear head{D, 5};
};

// Blocks of MobileNetV3 (Howard et al. 2019).
class Mobile : public Layer {
 public:
  Mobile() {
    add_normed("stem", 3, 8, 3, {.stride = 2, .padding = 1});
    for (int i = 0; i < 2; ++i) {
      const int64_t kernel = 3 + 2 * i;
      add_normed(fmt::format("expand{}", i), 8, 24, 1);
      add_normed(fmt::format("depth{}", i), 24, 24, kernel,
                 {.stride = 1 + i, .padding = kernel / 2, .groups = 24});
      add_normed(fmt::format("project{}", i), 24, 8, 1);
      declare(fmt::format("squeeze{}", i), squeeze[i]);
      declare(fmt::format("excite{}", i), excite[i]);
    }
    declare("head", head);
  }
  Tensor forward(Tensor x, const Pass& pass) const override {
    x = hard_swish((*normed[0])(std::move(x), pass));
    for (size_t i = 0; i < 2; ++i) {
      Tensor h = hard_swish((*normed[3 * i + 1])(x, pass));
      h = hard_swish((*normed[3 * i + 2])(std::move(h), pass));
      const Tensor s = excite[i](relu(squeeze[i](adaptive_avg_pool2d(h, 1, 1), pass)), pass);
      h = (*normed[3 * i + 3])(h * hard_sigmoid(s), pass);
      x = i == 0 ? x + h : h;
    }
    return head(mean(x, {2, 3}), pass);
  }
  std::string describe() const override { return "blocks of MobileNetV3"; }

 private:
  void add_normed(const std::string& name, int64_t in, int64_t out, int64_t k, Conv2dShape s = {}) {
    Sequential& both = *normed.emplace_back(std::make_unique<Sequential>());
    both.append(name, std::make_unique<Conv2d>(in, out, k, s, InitScheme::kaiming, Bias::none));
    both.append(name + "_norm", std::make_unique<BatchNorm>(out, 1e-3, 0.01));
    declare("", both);
  }
  std::vector<std::unique_ptr<Sequential>> normed;  // the stem's, and three of each block
  Conv2d squeeze[2]{{24, 8, 1}, {24, 8, 1}}, excite[2]{{8, 24, 1}, {8, 24, 1}};
  Linear head{8, 5};
};

// A residual network whose channels are weighed (Hu et al. 2018).
class Excited : public Layer {
 public:
  Excited() {
    declare("stem", stem);
    for (size_t i = 0; i < 2; ++i) {
      for (size_t j = 0; j < 2; ++j) {
        declare(fmt::format("conv{}{}", i, j), conv[2 * i + j]);
        declare(fmt::format("norm{}{}", i, j), norm[2 * i + j]);
      }
      declare(fmt::format("down{}", i), down[i]);
      declare(fmt::format("up{}", i), up[i]);
    }
    declare("head", head);
  }
  Tensor forward(Tensor x, const Pass& pass) const override {
    x = stem(std::move(x), pass);
    for (size_t i = 0; i < 2; ++i) {
      Tensor h = relu(norm[2 * i](conv[2 * i](x, pass), pass));
      h = norm[2 * i + 1](conv[2 * i + 1](std::move(h), pass), pass);
      const Tensor s = sigmoid(up[i](relu(down[i](mean(h, {2, 3}), pass)), pass));
      x = relu(x + h * s.reshape({x.size(0), C, 1, 1}));
    }
    return head(mean(x, {2, 3}), pass);
  }
  std::string describe() const override { return "a residual network whose channels are weighed"; }

 private:
  static constexpr int64_t C = 8;
  static Conv2d inner() { return {C, C, 3, {.padding = 1}, InitScheme::kaiming, Bias::none}; }
  Conv2d stem{3, C, 3, {.padding = 1}};
  Conv2d conv[4]{inner(), inner(), inner(), inner()};
  BatchNorm norm[4]{BatchNorm(C), BatchNorm(C), BatchNorm(C), BatchNorm(C)};
  Linear down[2]{{C, 4}, {C, 4}}, up[2]{{4, C}, {4, C}};
  Linear head{C, 5};
};

// A recurrent network with a gate over the rows of an image, from the first to the last.
class Gated : public Layer {
 public:
  Gated() {
    declare("read", read);
    declare("recall", recall);
    declare("first", first);
    declare("head", head);
  }
  Tensor forward(Tensor x, const Pass& pass) const override {
    const Tensor rows = flatten(permute(x, {0, 2, 1, 3}), 2);
    Tensor h = expand(first.tensor, {x.size(0), F});
    for (int64_t t = 0; t < rows.size(1); ++t) {
      const Tensor row = squeeze(slice(rows, 1, t, t + 1), 1);
      const std::vector<Tensor> z = split(read(row, pass) + recall(h, pass), {F, F}, -1);
      const Tensor gate = sigmoid(z[0]);
      h = gate * h + (1 - gate) * tanh(z[1]);
    }
    return head(std::move(h), pass);
  }
  std::string describe() const override { return "a recurrent network with a gate"; }

 private:
  static constexpr int64_t F = 12;
  Linear read{48, 2 * F}, recall{F, 2 * F};
  Parameter first{{1, F}, Init::normal(0.1), {}};
  Linear head{F, 5};
};

// A U-Net with bilinear upsampling, whose skip passes a gate (Oktay et al. 2018).
class Gates : public Layer {
 public:
  Gates() {
    const std::pair<const char*, Conv2d*> all[]{
        {"down", &down}, {"deep", &deep}, {"skip", &skip}, {"signal", &signal},
        {"gate", &gate}, {"up", &up},     {"head", &head}};
    for (const auto& [name, layer] : all) declare(name, *layer);
  }
  Tensor forward(Tensor x, const Pass& pass) const override {
    const Tensor a = relu(down(std::move(x), pass));
    const Tensor coarse = relu(deep(max_pool2d(a, {2}), pass));
    const Tensor b = resize_by(coarse, 2, 2, ResizeMode::bilinear);
    const Tensor open = sigmoid(gate(relu(skip(a, pass) + signal(b, pass)), pass));
    return head(relu(up(concat({a * open, b}, 1), pass)), pass);
  }
  std::string describe() const override { return "a U-Net whose skip passes a gate"; }

 private:
  Conv2d down{3, 6, 3, {.padding = 1}}, deep{6, 12, 3, {.padding = 1}};
  Conv2d skip{6, 4, 1}, signal{12, 4, 1}, gate{4, 1, 1};
  Conv2d up{18, 6, 3, {.padding = 1}}, head{6, 3, 1};
};
