#include "tests/op_table.h"

#include <cmath>
#include <limits>

#include "core/autograd.h"
#include "core/random.h"
#include "kernels/backend.h"
#include "tests/catch.h"

namespace accrue::test {
namespace {

enum class Inputs { leaves, intermediates };
enum class Target { absent, nan_filled, preset };

constexpr double preset_value = 9;

Values random_values(const Op& op, size_t input) {
  RandomStream random(20240 + input);
  Values values(static_cast<size_t>(op.inputs[input].numel()));
  for (double& v : values) {
    v = random.uniform(static_cast<float>(op.low), static_cast<float>(op.high));
    if (std::abs(v) < op.gap) v = v < 0 ? v - op.gap : v + op.gap;
  }
  return values;
}

Tensor make(const Values& values, const Shape& shape, DType dtype, Device device) {
  if (dtype == DType::f64) return Tensor::from(values, shape, device, Category::activations);
  return Tensor::from(std::vector<float>(values.begin(), values.end()), shape, device,
                      Category::activations);
}

Values to_values(const Tensor& tensor) {
  return dispatch_floating(tensor.dtype(), [&]<class T>() {
    const auto span = tensor.span<T>();
    return Values(span.begin(), span.end());
  });
}

// y = x as an op of its own: makes an intermediate result of a leaf.
Tensor pass_on(const Tensor& x) {
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  if (x.device() == Device::cpu)
    dispatch_floating(x.dtype(),
                      [&]<class T>() { std::ranges::copy(x.span<T>(), y.span<T>().begin()); });
  const Edge edge = x;
  record("pass_on", y, {edge}, [edge](Tensor& dy) {
    const auto dx = claim_grad(edge);
    if (!dx || dy.device() == Device::meta) return;
    dispatch_floating(dy.dtype(), [&]<class T>() {
      const auto in = dy.span<T>();
      for (size_t i = 0; i < in.size(); ++i)
        dx->grad.as<T>()[i] = blend(in[i], dx->beta, dx->grad.as<T>()[i]);
    });
  });
  return y;
}

// sum_i weights[i] * y[i]
Tensor weighted_sum(const Tensor& y, const Values& weights) {
  Tensor sum = Tensor::full({}, 0, y.dtype(), y.device());
  if (y.device() == Device::cpu)
    dispatch_floating(y.dtype(), [&]<class T>() {
      for (size_t i = 0; i < weights.size(); ++i)
        sum.span<T>()[0] += T(weights[i]) * y.span<T>()[i];
    });
  const Edge edge = y;
  record("weighted_sum", sum, {edge}, [edge, weights](Tensor& dsum) {
    const auto dy = claim_grad(edge);
    if (!dy || dsum.device() == Device::meta) return;
    dispatch_floating(dsum.dtype(), [&]<class T>() {
      for (size_t i = 0; i < weights.size(); ++i)
        dy->grad.as<T>()[i] =
            blend(T(weights[i]) * dsum.span<T>()[0], dy->beta, dy->grad.as<T>()[i]);
    });
  });
  return sum;
}

struct Result {
  Values y;
  std::vector<Values> gradients;
  Usage peak;
};

struct Mode {
  DType dtype = DType::f64;
  Device device = Device::cpu;
  Inputs inputs = Inputs::leaves;
  Target target = Target::absent;
};

Tensor preset_gradient(const Tensor& leaf, Target target) {
  const double value =
      target == Target::preset ? preset_value : std::numeric_limits<double>::quiet_NaN();
  return Tensor::full(leaf.shape(), value, leaf.dtype(), leaf.device(), Category::gradients);
}

Result run(const Op& op, const std::vector<Values>& inputs, const Values& weights, Mode mode) {
  ledger(mode.device).reset_peak();
  std::vector<Tensor> leaves, operands;
  for (size_t i = 0; i < inputs.size(); ++i) {
    leaves.push_back(require_grad(make(inputs[i], op.inputs[i], mode.dtype, mode.device)));
    if (mode.target != Target::absent) {
      leaves[i].variable()->grad = preset_gradient(leaves[i], mode.target);
      leaves[i].variable()->fresh = mode.target != Target::preset;
    }
    operands.push_back(mode.inputs == Inputs::leaves ? leaves[i] : pass_on(leaves[i]));
  }
  Tensor y = op.run(operands);
  operands.clear();
  Result result;
  if (mode.device == Device::cpu) result.y = to_values(y);
  Tensor loss = weighted_sum(y, weights);
  y.reset();
  backward(loss);
  for (const Tensor& leaf : leaves)
    if (mode.device == Device::cpu) result.gradients.push_back(to_values(grad(leaf)));
  result.peak = ledger(mode.device).peak();
  return result;
}

// |actual - expected| <= bound everywhere; NaN never is.
void require_close(const Values& actual, const Values& expected, double bound) {
  REQUIRE(actual.size() == expected.size());
  size_t worst = 0;
  double worst_error = -1;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double error = std::abs(actual[i] - expected[i]);
    if (!(error <= worst_error)) worst = i, worst_error = error;
    if (std::isnan(error)) break;
  }
  if (actual.empty()) return;
  INFO("at " << worst << ": " << actual[worst] << ", expected " << expected[worst] << ", bound "
             << bound);
  REQUIRE(worst_error <= bound);
}

double magnitude(const Values& values) {
  double largest = 1;
  for (double v : values) largest = std::max(largest, std::abs(v));
  return largest;
}

// d/dx sum_i weights[i] * reference(x)[i] by central differences with step h: the truncation error
// is O(h^2) = 1e-10 and the rounding error about 2^-53 * depth / h = 1e-11 * depth.
Values numeric_gradient(const Op& op, std::vector<Values> inputs, size_t input,
                        const Values& weights) {
  constexpr double h = 1e-5;
  const auto sum_at = [&](double& x, double value) {
    const double old = std::exchange(x, value);
    const Values y = op.reference(inputs);
    x = old;
    double sum = 0;
    for (size_t i = 0; i < y.size(); ++i) sum += weights[i] * y[i];
    return sum;
  };
  Values gradient;
  for (double& x : inputs[input])
    gradient.push_back((sum_at(x, x + h) - sum_at(x, x - h)) / (2 * h));
  return gradient;
}

}  // namespace

void check_op(const Op& op) {
  INFO("op " << op.name);
  std::vector<Values> inputs;
  for (size_t i = 0; i < op.inputs.size(); ++i) inputs.push_back(random_values(op, i));
  const Values expected = op.reference(inputs);
  Values weights(expected.size());
  RandomStream random(7);
  for (double& w : weights) w = random.uniform(-1, 1);
  std::vector<Values> numeric;
  for (size_t i = 0; i < inputs.size(); ++i)
    numeric.push_back(numeric_gradient(op, inputs, i, weights));

  const Usage before = ledger(Device::cpu).current();
  for (const Inputs kind : {Inputs::leaves, Inputs::intermediates}) {
    for (const Target target : {Target::absent, Target::nan_filled, Target::preset}) {
      for (const DType dtype : {DType::f64, DType::f32}) {
        INFO((kind == Inputs::leaves ? "leaves" : "intermediates")
             << ", target "
             << (target == Target::absent   ? "absent"
                 : target == Target::preset ? "preset"
                                            : "NaN")
             << ", " << name(dtype));
        const Result result = run(op, inputs, weights, {dtype, Device::cpu, kind, target});
        const double unit = dtype == DType::f64 ? 0x1p-53 : 0x1p-24;
        {
          INFO("forward");
          require_close(result.y, expected, op.depth * unit * magnitude(expected));
        }
        for (size_t i = 0; i < inputs.size(); ++i) {
          INFO("gradient of input " << i);
          Values gradient = numeric[i];
          if (target == Target::preset)
            for (double& g : gradient) g += preset_value;
          // Backward sums over what forward fans out to, hence the factor.
          const double rounding = 4 * op.depth * unit * magnitude(gradient);
          require_close(result.gradients[i], gradient, rounding + 1e-8 * magnitude(gradient));
        }
      }
    }
  }
  REQUIRE(ledger(Device::cpu).current().bytes == before.bytes);

  const Mode meta{DType::f32, Device::meta, Inputs::intermediates, Target::absent};
  Mode cpu = meta;
  cpu.device = Device::cpu;
  const Usage predicted = run(op, inputs, weights, meta).peak;
  Usage measured = run(op, inputs, weights, cpu).peak;
  for (Category c : all_categories) measured[c] -= before[c];
  REQUIRE(predicted.bytes == measured.bytes);
}

Tensor indices(const std::vector<int32_t>& values, const Tensor& like) {
  return Tensor::from(values, {static_cast<int64_t>(values.size())}, like.device());
}

}  // namespace accrue::test
