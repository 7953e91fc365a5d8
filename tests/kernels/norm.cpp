// Norms: one reference for all of them; a layout says which elements belong together.

#include "kernels/norm.h"

#include <algorithm>
#include <cmath>

#include "core/autograd.h"
#include "core/random.h"
#include "kernels/arithmetic.h"
#include "kernels/losses.h"
#include "kernels/parallel.h"
#include "tests/support/activation.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"

namespace accrue::test {
namespace {

constexpr double eps = 1e-5;

enum class Affine { none, gamma, beta, both };

// x as [N, C, S], and the group of element (n, c).
struct Layout {
  size_t N, C, S;
  std::function<size_t(size_t n, size_t c)> group;
  size_t groups;

  size_t elements() const { return N * C * S / groups; }
};

struct Moments {
  Values mean, var;
};

Moments moments_of(const Values& x, const Layout& at) {
  Moments m{Values(at.groups), Values(at.groups)};
  const double elements = static_cast<double>(at.elements());
  for (size_t i = 0; i < x.size(); ++i)
    m.mean[at.group(i / (at.C * at.S), i / at.S % at.C)] += x[i] / elements;
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t g = at.group(i / (at.C * at.S), i / at.S % at.C);
    m.var[g] += (x[i] - m.mean[g]) * (x[i] - m.mean[g]) / elements;
  }
  return m;
}

Values normalized(const Values& x, const Layout& at, const Moments& m, const Values& gamma,
                  const Values& beta) {
  Values y;
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t c = i / at.S % at.C, g = at.group(i / (at.C * at.S), c);
    y.push_back((x[i] - m.mean[g]) / std::sqrt(m.var[g] + eps) * gamma[c] + beta[c]);
  }
  return y;
}

using Norm = std::function<Tensor(const Tensor& x, const Tensor& gamma, const Tensor& beta)>;
using MomentsOf = std::function<Moments(const Values& x, const Layout& at)>;

Op norm_op(std::string name, const Shape& shape, const Layout& at, Affine affine, Norm norm,
           MomentsOf moments = moments_of) {
  const bool has_gamma = affine == Affine::gamma || affine == Affine::both;
  const bool has_beta = affine == Affine::beta || affine == Affine::both;
  std::vector<Shape> inputs{shape};
  inputs.resize(1 + has_gamma + has_beta, {static_cast<int64_t>(at.C)});
  return {.name = fmt::format("{} of {}{}{}", name, shape, has_gamma ? ", gamma" : "",
                              has_beta ? ", beta" : ""),
          .inputs = inputs,
          .run =
              [=](const auto& in) {
                return norm(in[0], has_gamma ? in[1] : Tensor(), has_beta ? in.back() : Tensor());
              },
          .reference =
              [=](const auto& in) {
                return normalized(in[0], at, moments(in[0], at),
                                  has_gamma ? in[1] : Values(at.C, 1),
                                  has_beta ? in.back() : Values(at.C, 0));
              },
          // The sums of mean and variance, then the normalisation.
          .depth = 2 * static_cast<double>(at.elements()) + 8,
          .parameters = {1, 2}};
}

Layout rows(size_t N, size_t C) {
  return {N, C, 1, [](size_t n, size_t) { return n; }, N};
}

Layout channel_groups(size_t N, size_t C, size_t S, size_t G) {
  return {N, C, S, [=](size_t n, size_t c) { return n * G + c / (C / G); }, N * G};
}

Layout channels(size_t N, size_t C, size_t S) {
  return {N, C, S, [](size_t, size_t c) { return c; }, C};
}

Tensor layer(const Tensor& x, const Tensor& gamma, const Tensor& beta) {
  return layer_norm(x, gamma, beta, eps);
}

Tensor rms(const Tensor& x, const Tensor& gamma, const Tensor&) { return rms_norm(x, gamma, eps); }

// The moments for rms_norm, with 0 in place of the mean.
Moments squares_of(const Values& x, const Layout& at) {
  Moments m{Values(at.groups), Values(at.groups)};
  for (size_t i = 0; i < x.size(); ++i)
    m.var[at.group(i / at.C, i % at.C)] += x[i] * x[i] / static_cast<double>(at.elements());
  return m;
}

Norm group(int64_t groups, Activation activation = Activation::none) {
  return [=](const Tensor& x, const Tensor& gamma, const Tensor& beta) {
    return group_norm(x, groups, gamma, beta, activation, eps);
  };
}

Tensor instance(const Tensor& x, const Tensor& gamma, const Tensor& beta) {
  return instance_norm(x, gamma, beta, eps);
}

RunningStatistics running_for(const Tensor& x, const Values& mean, const Values& var) {
  const auto make = [&](const Values& v) {
    const Shape shape{static_cast<int64_t>(v.size())};
    if (x.dtype() == DType::f64) return Tensor::from(v, shape, x.device());
    return Tensor::from(std::vector<float>(v.begin(), v.end()), shape, x.device());
  };
  return {make(mean), make(var)};
}

Tensor batch(const Tensor& x, const Tensor& gamma, const Tensor& beta) {
  const Values zeros(static_cast<size_t>(x.size(1))), ones(zeros.size(), 1);
  return batch_norm(x, gamma, beta, running_for(x, zeros, ones), NormMode::train, eps);
}

// The row of a norm for the same norm with an activation.
Op with_activation(Op op, Activation activation) {
  op.name += fmt::format(" + {}", name(activation));
  op.reference = [=, z_of = op.reference](const auto& in) {
    Values y = z_of(in);
    for (double& v : y) v = activated(activation, v);
    return y;
  };
  return op;
}

Norm batch_of(NormMode mode, Activation activation) {
  return [=](const Tensor& x, const Tensor& gamma, const Tensor& beta) {
    const auto C = static_cast<size_t>(x.size(1));
    return batch_norm(x, gamma, beta, running_for(x, Values(C, 0), Values(C, 1)), mode, eps,
                      activation);
  };
}

Tensor random_tensor(const Shape& shape, uint64_t seed, DType dtype = DType::f32) {
  RandomStream random(seed);
  return dispatch_floating(dtype, [&]<class T>() {
    std::vector<T> values;
    for (int64_t i = 0; i < shape.numel(); ++i)
      values.push_back(T(static_cast<Wide<T>>(random.uniform(-1, 3))));
    return Tensor::from(values, shape, test_device());
  });
}

}  // namespace

TEST_CASE("layer_norm", "[ops]") {
  for (const Affine affine : {Affine::both, Affine::none, Affine::gamma, Affine::beta})
    check_op(norm_op("layer_norm", {2, 3, 10}, rows(6, 10), affine, layer));
  check_op(norm_op("layer_norm", {2, 70}, rows(2, 70), Affine::both, layer));
}

TEST_CASE("rms_norm", "[ops]") {
  for (const Affine affine : {Affine::gamma, Affine::none})
    check_op(norm_op("rms_norm", {2, 3, 10}, rows(6, 10), affine, rms, squares_of));
  check_op(norm_op("rms_norm", {2, 70}, rows(2, 70), Affine::gamma, rms, squares_of));
}

TEST_CASE("group_norm", "[ops]") {
  check_op(norm_op("group_norm 2", {2, 6, 5}, channel_groups(2, 6, 5, 2), Affine::both, group(2)));
  check_op(
      norm_op("group_norm 1", {3, 4, 2, 2}, channel_groups(3, 4, 4, 1), Affine::gamma, group(1)));
  check_op(norm_op("group_norm 2", {3, 8}, channel_groups(3, 8, 1, 2), Affine::both, group(2)));
  check_op(norm_op("group_norm 3", {2, 6, 3}, channel_groups(2, 6, 3, 3), Affine::none, group(3)));
  for (const Activation activation : all_activations) {
    INFO(name(activation));
    const auto check_activated = [&](const Shape& x, const Layout& at, Affine affine) {
      check_op(with_activation(norm_op("group_norm 2", x, at, affine, group(2, activation)),
                               activation));
    };
    check_activated({2, 6, 5}, channel_groups(2, 6, 5, 2), Affine::both);
    check_activated({1, 4, 3, 32}, channel_groups(1, 4, 96, 2), Affine::beta);
    check_activated({3, 8}, channel_groups(3, 8, 1, 2), Affine::gamma);
    check_activated({2, 4, 3}, channel_groups(2, 4, 3, 2), Affine::none);
  }
}

TEST_CASE("group_norm by given moments", "[ops]") {
  static const Moments given{{0.5, -1, 2, 0.25}, {1.5, 0.25, 4, 1}};
  const auto by_given = [](const Tensor& x, const Tensor& gamma, const Tensor& beta) {
    Values rstd;
    for (const double var : given.var) rstd.push_back(1 / std::sqrt(var + eps));
    const RunningStatistics moments = running_for(x, given.mean, rstd);
    return group_norm(x, {moments.mean, moments.var}, gamma, beta);
  };
  for (const Affine affine : {Affine::both, Affine::none})
    check_op(norm_op("group_norm given", {2, 6, 5}, channel_groups(2, 6, 5, 2), affine, by_given,
                     [](const Values&, const Layout&) { return given; }));
}

// The moments of small groups are computed in the kernel that normalizes them: rows that a warp
// has, rows that a block has, planes. The last groups are larger.
TEST_CASE("norms have the same bits by one kernel as by two", "[ops]") {
  const NoGrad no_grad;
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
    for (const Shape& shape : {Shape{70, 96}, Shape{5, 1536}, Shape{3, 10}, Shape{3, 8, 5, 7},
                               Shape{2, 6, 16, 8}, Shape{1, 4, 70, 70}})
      for (const Activation activation : {Activation::none, Activation::relu, Activation::tanh}) {
        CAPTURE(name(dtype), shape, name(activation));
        const int64_t C = shape[1];
        const Tensor x = random_tensor(shape, 4, dtype), gamma = random_tensor({C}, 5, wide(dtype)),
                     beta = random_tensor({C}, 6, wide(dtype));
        const Values y = to_doubles(group_norm(x, 2, gamma, beta, activation));
        REQUIRE(y == to_doubles(group_norm(x, group_moments(x, 2), gamma, beta, activation)));
        REQUIRE(y == to_doubles(group_norm(x, 2, gamma, beta, activation)));
      }
}

TEST_CASE("a NaN passes through norms of rows", "[ops]") {
  const NoGrad no_grad;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Values values(3 * 64, 0.5);
    for (size_t i = 0; i < values.size(); i += 3) values[i] = -1;
    values[70] = std::numeric_limits<double>::quiet_NaN();
    const Tensor x = tensor_with(values, {3, 64}, dtype);
    for (const Values& y : {to_doubles(layer_norm(x, {}, {})), to_doubles(rms_norm(x, {}))})
      for (size_t i = 0; i < y.size(); ++i) REQUIRE(std::isnan(y[i]) == (i / 64 == 1));
  }
}

TEST_CASE("group_norm by its own moments is group_norm", "[ops]") {
  const NoGrad no_grad;
  const Tensor x = random_tensor({3, 8, 5, 7}, 4), gamma = random_tensor({8}, 5),
               beta = random_tensor({8}, 6);
  const GroupMoments moments = group_moments(x, 4);
  REQUIRE(to_doubles(group_norm(x, moments, gamma, beta, Activation::relu)) ==
          to_doubles(group_norm(x, 4, gamma, beta, Activation::relu)));
  REQUIRE_ERROR(group_norm(x, {moments.mean, gamma}, gamma, beta), "as many for each sample");
  REQUIRE_ERROR(group_norm(x.slice(0, 2), moments, gamma, beta), "6 groups of the 8 channels");
}

TEST_CASE("instance_norm", "[ops]") {
  check_op(
      norm_op("instance_norm", {2, 3, 4, 2}, channel_groups(2, 3, 8, 3), Affine::none, instance));
  check_op(
      norm_op("instance_norm", {2, 3, 4, 2}, channel_groups(2, 3, 8, 3), Affine::both, instance));
}

TEST_CASE("batch_norm", "[ops]") {
  for (const Affine affine : {Affine::both, Affine::none, Affine::gamma, Affine::beta})
    check_op(norm_op("batch_norm", {4, 3, 5}, channels(4, 3, 5), affine, batch));
  check_op(norm_op("batch_norm", {9, 5}, channels(9, 5, 1), Affine::both, batch));
  check_op(norm_op("batch_norm", {9, 8}, channels(9, 8, 1), Affine::both, batch));
  check_op(norm_op("batch_norm", {1, 2, 3, 3}, channels(1, 2, 9), Affine::both, batch));
  // On cuda the planes divide into vectors of 4 elements in 16 bits, not of 8.
  check_op(norm_op("batch_norm", {3, 2, 2, 6}, channels(3, 2, 12), Affine::both, batch));
}

TEST_CASE("batch_norm and instance_norm with an activation", "[ops]") {
  for (const Activation activation : {Activation::relu, Activation::tanh}) {
    check_op(with_activation(norm_op("batch_norm", {4, 3, 2, 6}, channels(4, 3, 12), Affine::both,
                                     batch_of(NormMode::train, activation)),
                             activation));
    check_op(with_activation(norm_op("batch_norm", {9, 5}, channels(9, 5, 1), Affine::gamma,
                                     batch_of(NormMode::train, activation)),
                             activation));
    const auto by_running = [](const Values&, const Layout& at) {
      return Moments{Values(at.groups, 0), Values(at.groups, 1)};
    };
    for (const Affine affine : {Affine::both, Affine::none})
      check_op(with_activation(norm_op("batch_norm eval", {2, 3, 4}, channels(2, 3, 4), affine,
                                       batch_of(NormMode::eval, activation), by_running),
                               activation));
    const auto activated_instance = [=](const Tensor& x, const Tensor& gamma, const Tensor& beta) {
      return instance_norm(x, gamma, beta, eps, activation);
    };
    check_op(with_activation(norm_op("instance_norm", {2, 3, 4, 2}, channel_groups(2, 3, 8, 3),
                                     Affine::both, activated_instance),
                             activation));
  }
}

// Large planes are cut into pieces on cuda, the others have a team each.
TEST_CASE("batch_norm with relu has the bits of relu behind batch_norm", "[ops]") {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const NormMode mode : {NormMode::train, NormMode::eval})
      for (const bool learns : {true, false})
        for (const Shape& shape :
             {Shape{3, 5, 2, 6}, Shape{4, 3, 70, 70}, Shape{70, 5}, Shape{1100, 16}}) {
          CAPTURE(name(dtype), mode == NormMode::train, learns, shape);
          std::vector<Values> results[2];
          for (const bool is_fused : {false, true}) {
            const Tensor x = require_grad(random_tensor(shape, 1, dtype));
            const auto parameter = [&](uint64_t seed) {
              const Tensor v = random_tensor({shape[1]}, seed);
              return learns ? require_grad(v) : v;
            };
            const Tensor gamma = parameter(2), beta = parameter(3);
            const RunningStatistics running{random_tensor({shape[1]}, 4),
                                            Tensor::full({shape[1]}, 2, DType::f32, test_device())};
            const Tensor y = is_fused
                                 ? batch_norm(x, gamma, beta, running, mode, eps, Activation::relu)
                                 : relu(batch_norm(x, gamma, beta, running, mode, eps));
            auto& all = results[is_fused];
            all.push_back(to_doubles(y));
            backward(mse_loss(y, random_tensor(shape, 5, dtype)));
            all.push_back(to_doubles(grad(x)));
            if (!learns) continue;
            for (const Tensor& v : {gamma, beta}) all.push_back(to_doubles(grad(v)));
          }
          REQUIRE(results[0] == results[1]);
        }
}

TEST_CASE("a NaN passes through the relu of batch_norm", "[ops]") {
  Values values(2 * 2 * 8, 0.5);
  for (size_t i = 0; i < values.size(); i += 3) values[i] = -1;
  values[5] = std::numeric_limits<double>::quiet_NaN();  // in channel 0
  const Tensor x = Tensor::from(values, {2, 2, 8}, test_device());
  const NoGrad no_grad;
  const Values y = to_doubles(batch_of(NormMode::train, Activation::relu)(x, {}, {}));
  for (size_t i = 0; i < y.size(); ++i) REQUIRE(std::isnan(y[i]) == (i / 8 % 2 == 0));
}

TEST_CASE("batch_norm in eval mode", "[ops]") {
  static const Moments running{{0.5, -1, 2}, {1.5, 0.25, 4}};
  check_op(norm_op(
      "batch_norm eval", {2, 3, 4}, channels(2, 3, 4), Affine::both,
      [](const Tensor& x, const Tensor& gamma, const Tensor& beta) {
        return batch_norm(x, gamma, beta, running_for(x, running.mean, running.var), NormMode::eval,
                          eps);
      },
      [](const Values&, const Layout&) { return running; }));
}

TEST_CASE("batch_norm moves the running statistics as PyTorch does", "[ops]") {
  const Tensor x = Tensor::from(Values{1, 2, 10, 14, 3, 6, 30, 26}, {2, 2, 2}, test_device());
  const RunningStatistics running = running_for(x, {0, 100}, {1, 7});
  const NoGrad no_grad;
  batch_norm(x, {}, {}, running, NormMode::train);
  // Channel 0 holds 1, 2, 3 and 6: mean 3, unbiased variance 14/3. Channel 1 holds 10, 14, 30 and
  // 26: mean 20, unbiased variance 272/3.
  const Values mean = to_doubles(running.mean), var = to_doubles(running.var);
  REQUIRE(mean[0] == Approx(0.1 * 3));
  REQUIRE(mean[1] == Approx(0.9 * 100 + 0.1 * 20));
  REQUIRE(var[0] == Approx(0.9 + 0.1 * 14 / 3));
  REQUIRE(var[1] == Approx(0.9 * 7 + 0.1 * 272 / 3));
  batch_norm(x, {}, {}, running, NormMode::eval);
  REQUIRE(to_doubles(running.mean) == mean);
  REQUIRE(to_doubles(running.var) == var);
}

TEST_CASE("batch_norm's eval gradient is of the statistics that its forward saw", "[ops]") {
  const Tensor other = random_tensor({4, 2, 3}, 1), target = random_tensor({4, 2, 3}, 2);
  Values gradients[2];
  for (const bool move_between : {false, true}) {
    const Tensor x = require_grad(random_tensor({4, 2, 3}, 3));
    const Tensor gamma = require_grad(random_tensor({2}, 4));
    const RunningStatistics running = running_for(x, {0.5, 1}, {1, 2});
    const Tensor loss = mse_loss(batch_norm(x, gamma, {}, running, NormMode::eval), target);
    if (move_between) batch_norm(other, {}, {}, running, NormMode::train);
    backward(loss);
    auto& all = gradients[move_between];
    all = to_doubles(grad(x));
    for (const double g : to_doubles(grad(gamma))) all.push_back(g);
  }
  REQUIRE(gradients[0] == gradients[1]);
}

TEST_CASE("batch_norm in eval mode keeps no input for constant gamma and beta", "[ops]") {
  const Activation activation = GENERATE(Activation::none, Activation::relu);
  const Tensor target = random_tensor({4, 6, 50}, 2);
  std::vector<Values> gradients;
  for (const bool learns : {true, false}) {
    const auto maybe = [&](const Tensor& v) { return learns ? require_grad(v) : v; };
    const Tensor gamma = maybe(random_tensor({6}, 4)), beta = maybe(random_tensor({6}, 5));
    const Tensor leaf = require_grad(random_tensor({4, 6, 50}, 3));
    const RunningStatistics running = running_for(leaf, Values(6, 0.5), Values(6, 2));
    for (int repeat = 1; repeat <= 2; ++repeat) {  // written, then added to
      const size_t before = ledger(test_device()).current()[Category::activations];
      const Tensor y =
          batch_norm(scale(leaf, 2), gamma, beta, running, NormMode::eval, eps, activation);
      const size_t kept = ledger(test_device()).current()[Category::activations] - before;
      // Kept are y, x if there is a gradient to learn, the mean and rstd.
      REQUIRE(kept == (learns ? 2 : 1) * y.bytes() + 2 * Ledger::alignment);
      backward(mse_loss(batch_norm(y, gamma, beta, running, NormMode::eval), target));
    }
    gradients.push_back(to_doubles(grad(leaf)));
  }
  REQUIRE(gradients[0] == gradients[1]);
}

TEST_CASE("norms keep the digits of a small variance around a large mean", "[ops]") {
  // Values 4096 + {0, 1/4, ..., 7/4}. The mean, 4096.875, is exact in float32, and the variance is
  // 21/64. In float32 the mean of squares, 16784386.6, is only exact to about 1.
  constexpr int64_t size = 20480;  // cuda cuts it into pieces
  std::vector<float> values(size);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 4096 + 0.25f * static_cast<float>(i % 8);
  const double deviation = std::sqrt(21.0 / 64 + eps);
  const auto require_exact = [&](const Tensor& y) {
    const Values actual = to_doubles(y);
    for (size_t i = 0; i < values.size(); ++i) {
      const double expected = (values[i] - 4096.875) / deviation;
      // Half of the relative error of sums of 256 squares in float32 reaches y, and 4 roundings.
      REQUIRE(actual[i] == Approx(expected).epsilon((256 / 2 + 4) * 0x1p-24));
    }
  };
  const NoGrad no_grad;
  const Tensor x = Tensor::from(values, {size}, test_device());
  require_exact(layer_norm(x.reshape({1, size}), {}, {}));
  require_exact(group_norm(x.reshape({1, 8, size / 8}), 1, {}, {}));
  require_exact(instance_norm(x.reshape({1, 1, size})));
  require_exact(batch(x.reshape({16, 1, size / 16}), {}, {}));
  require_exact(batch(x.reshape({size / 5, 5}), {}, {}));  // each column has all eight values
}

TEST_CASE("norms do not depend on the threads", "[ops]") {
  struct Case {
    Shape shape;
    Norm norm;
  };
  const int threads = thread_count();
  for (const auto& [shape, norm] :
       {Case{{8, 12, 32, 32}, group(4)}, Case{{8, 12, 32, 32}, batch},
        Case{{8, 12, 32, 32}, instance}, Case{{1500, 70}, batch}, Case{{3, 2, 80, 80}, batch},
        Case{{1, 6, 80, 90}, group(2)}, Case{{1500, 70}, rms}}) {
    Values results[2];
    for (const int count : {1, 3}) {
      set_thread_count(count);
      set_thread_order(count);
      const int64_t C = shape[1];
      const Tensor x = require_grad(random_tensor(shape, 1));
      const Tensor gamma = require_grad(random_tensor({C}, 2)),
                   beta = require_grad(random_tensor({C}, 5));
      const Tensor y = norm(x, gamma, beta);
      auto& all = results[count / 2];
      all = to_doubles(y);
      backward(mse_loss(y, random_tensor(shape, 3)));
      for (const Tensor& leaf : {x, gamma, beta})
        if (leaf.variable()->grad.defined())
          for (const double g : to_doubles(grad(leaf))) all.push_back(g);
    }
    REQUIRE(results[0] == results[1]);
  }
  set_thread_count(threads);
}

// Each channel has more elements than one block sums up on cuda: the last block adds up the others'
// sums.
TEST_CASE("gradients of gamma and beta over several blocks", "[ops]") {
  struct Case {
    Shape shape;
    int64_t S;
  };
  // Channels side by side, planes of whole vectors, and planes of single elements.
  for (const auto& [shape, S] :
       {Case{{1100, 11}, 1}, Case{{60, 3, 14, 14}, 196}, Case{{190, 2, 45}, 45}}) {
    const int64_t C = shape[1], n = shape.numel();
    const Values x = to_doubles(random_tensor(shape, 7));
    const Tensor drawn = Tensor::from(x, shape, test_device());
    const auto parameter = [&](double value) {
      return require_grad(Tensor::full({C}, value, DType::f64, test_device()));
    };
    const Tensor gamma = parameter(2), beta = parameter(0);
    const RunningStatistics running{.mean = Tensor::full({C}, 0.25, DType::f64, test_device()),
                                    .var = Tensor::full({C}, 3, DType::f64, test_device())};
    const double rstd = 1 / std::sqrt(3 + eps);
    Values dgamma(static_cast<size_t>(C)), dbeta(dgamma), size(dgamma);
    // The loss is the mean square of y = 2 xhat, so dy = 2 y / n.
    for (int64_t i = 0; i < n; ++i) {
      const auto c = static_cast<size_t>(i / S % C);
      const double xhat = (x[static_cast<size_t>(i)] - 0.25) * rstd, dy = 4 * xhat / double(n);
      dgamma[c] += dy * xhat;
      dbeta[c] += dy;
      size[c] += std::abs(dy) * (1 + std::abs(xhat));
    }
    for (int repeat = 1; repeat <= 2; ++repeat) {  // written, then added to
      set_thread_order(repeat);
      const Tensor y = batch_norm(drawn, gamma, beta, running, NormMode::eval);
      backward(mse_loss(y, Tensor::full(shape, 0, DType::f64, test_device())));
      const auto of_gamma = to_doubles(grad(gamma)), of_beta = to_doubles(grad(beta));
      for (size_t c = 0; c < dgamma.size(); ++c) {
        // At most as many roundings as there are terms, in sums that stay below `size`.
        const double bound = double(repeat) * double(n / C + 8) * 0x1p-53 * size[c];
        REQUIRE(std::abs(of_gamma[c] - repeat * dgamma[c]) <= bound);
        REQUIRE(std::abs(of_beta[c] - repeat * dbeta[c]) <= bound);
      }
    }
  }
}

// These groups are too few to fill a GPU. On cuda each is cut into pieces for several blocks.
TEST_CASE("norms of few and large groups", "[ops]") {
  struct Case {
    Shape shape;
    Norm norm;  // none: batch_norm
    int64_t groups;
  };
  // Pieces that end within a sample or between two, vectors and single elements, several channels
  // in a group, and planes of one element.
  for (const auto& [shape, norm, groups] :
       {Case{{5, 3, 80, 80}, {}, 3}, Case{{2, 3, 91, 97}, {}, 3}, Case{{20000, 3}, {}, 3},
        Case{{2100, 36}, {}, 36}, Case{{1, 6, 80, 90}, group(2), 2},
        Case{{1, 2, 131, 127}, instance, 2}, Case{{2, 20000}, layer, 2},
        Case{{2, 20000}, rms, 2}}) {
    const int64_t C = shape[1];
    const auto results_on = [&](Device device) {
      const auto drawn = [&](const Shape& of, uint64_t seed) {
        const Tensor x = random_tensor(of, seed);
        return Tensor::from(to_doubles(x), of, device);
      };
      std::vector<Values> results;
      const Tensor x = require_grad(drawn(shape, 1)), gamma = require_grad(drawn({C}, 2)),
                   beta = require_grad(drawn({C}, 3));
      const RunningStatistics running{drawn({C}, 4), drawn({C}, 5)};
      for (int repeat = 1; repeat <= 2; ++repeat) {  // written, then added to
        set_thread_order(repeat);
        const Tensor y =
            norm ? norm(x, gamma, beta) : batch_norm(x, gamma, beta, running, NormMode::train, eps);
        backward(mse_loss(y, drawn(shape, 6)));
        for (const Tensor& result : {y.detach(), grad(x), grad(gamma), running.mean, running.var})
          results.push_back(to_doubles(result));
        if (beta.variable()->grad.defined()) results.push_back(to_doubles(grad(beta)));
      }
      return results;
    };
    const std::vector<Values> expected = results_on(Device::cpu), found = results_on(test_device());
    // Each device takes two sums over a group, with at most as many roundings as there are terms.
    const double roundings = 4 * double(shape.numel() / groups) * 0x1p-53;
    for (size_t i = 0; i < expected.size(); ++i) {
      double largest = 0;
      for (const double v : expected[i]) largest = std::max(largest, std::abs(v));
      INFO(fmt::format("{}, result {}", shape, i));
      REQUIRE(largest_difference(expected[i], found[i]) <= roundings * largest);
    }
  }
}

TEST_CASE("a norm keeps its input and two numbers a group, rms_norm one", "[ops]") {
  const Tensor x = require_grad(random_tensor({4, 4, 50}, 1));
  for (const bool has_mean : {true, false}) {
    const size_t before = ledger(test_device()).current()[Category::activations];
    const Tensor y = has_mean ? group_norm(x, 2, {}, {}) : rms_norm(x, {});
    const size_t kept = ledger(test_device()).current()[Category::activations] - before;
    REQUIRE(kept == y.bytes() + (has_mean ? 2 : 1) * Ledger::alignment);
  }
}

TEST_CASE("norms refuse what does not fit", "[ops]") {
  const MetaScope on(GENERATE(false, true));
  const auto make = [](const Shape& shape) {
    return Tensor::full(shape, 1, DType::f32, test_device());
  };
  const Tensor x = make({2, 6, 4});
  REQUIRE_ERROR(layer_norm(x, make({6}), {}), "[layer_norm] gamma [6]");
  REQUIRE_ERROR(layer_norm(make({}), {}, {}), "expected [..., C]");
  REQUIRE_ERROR(rms_norm(x, make({6})), "[rms_norm] gamma [6]");
  REQUIRE_ERROR(rms_norm(make({}), {}), "[rms_norm] x []: expected [..., C]");
  REQUIRE_ERROR(group_norm(x, 4, {}, {}), "4 groups of the 6 channels of x [2, 6, 4]");
  REQUIRE_ERROR(group_norm(x, 0, {}, {}), "0 groups");
  REQUIRE_ERROR(group_norm(x, 2, make({6}), make({5})), "gamma [6] and beta [5]");
  REQUIRE_ERROR(group_norm(make({6}), 2, {}, {}), "[group_norm] x [6]: expected [N, C, ...]");
  REQUIRE_ERROR(instance_norm(make({2, 6})), "groups of 1 element(s)");
  const RunningStatistics running{make({6}), make({5})};
  REQUIRE_ERROR(batch_norm(x, {}, {}, running, NormMode::train),
                "running mean [6] and variance [5]");
  REQUIRE_ERROR(batch_norm(x, {}, {}, {}, NormMode::eval), "[batch_norm] an operand is undefined");
  const RunningStatistics fitting{make({6}), make({6})};
  REQUIRE_ERROR(batch_norm(make({1, 6}), {}, {}, fitting, NormMode::train),
                "x [1, 6] has groups of 1 element(s)");
  REQUIRE(batch_norm(make({1, 6}), {}, {}, fitting, NormMode::eval).numel() == 6);
}

}  // namespace accrue::test
