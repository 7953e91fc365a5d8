#include "tests/support/op_table.h"

#include <cmath>
#include <limits>

#include "core/autograd.h"
#include "core/random.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"

namespace accrue::test {
namespace {

enum class Inputs { leaves, intermediates };
enum class Target { absent, nan_filled, preset };

constexpr double preset_value = 9, nan = std::numeric_limits<double>::quiet_NaN();

// A run of the op.
struct Mode {
  DType dtype = DType::f64;
  Device device = Device::cpu;
  Inputs inputs = Inputs::leaves;
  Target target = Target::absent;
};

std::string describe(const Mode& mode) {
  return fmt::format("{}, target {}, {}",
                     mode.inputs == Inputs::leaves ? "leaves" : "intermediates",
                     mode.target == Target::absent   ? "absent"
                     : mode.target == Target::preset ? "preset"
                                                     : "NaN",
                     name(mode.dtype));
}

Values random_values(const Op& op, size_t input) {
  RandomStream random(20240 + input);
  Values values(static_cast<size_t>(op.inputs[input].numel()));
  for (double& v : values) {
    v = random.uniform(static_cast<float>(op.low), static_cast<float>(op.high));
    if (std::abs(v) < op.gap) v = v < 0 ? v - op.gap : v + op.gap;
  }
  return values;
}

template <class T>
std::vector<T> rounded_to(const Values& values) {
  std::vector<T> rounded(values.size());
  std::ranges::transform(values, rounded.begin(),
                         [](double v) { return T(static_cast<Wide<T>>(v)); });
  return rounded;
}

Tensor make(const Values& values, const Shape& shape, DType dtype, Device device,
            Category category = Category::activations) {
  return dispatch_floating(dtype, [&]<class T>() {
    return Tensor::from(rounded_to<T>(values), shape, device, category);
  });
}

// The values rounded to `dtype` if it is a 16-bit one; else the values themselves.
Values held_by(DType dtype, const Values& values) {
  if (!is_16_bit_dtype(dtype)) return values;
  return to_doubles(make(values, {static_cast<int64_t>(values.size())}, dtype, Device::cpu));
}

bool is_parameter(const Op& op, size_t input) {
  return std::ranges::find(op.parameters, input) != op.parameters.end();
}

Values to_values(const Tensor& x) { return is_meta(x.device()) ? Values() : to_doubles(x); }

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// Sets the gradient of x to values + beta * gradient, through the host wherever the gradient lives.
void give_gradient(const Edge& x, const Values& values) {
  const auto target = claim_grad(x);
  if (!target || is_meta(target->grad.device)) return;
  const Tensor& gradient = x.variable()->grad;
  Values sum = values;
  if (target->beta != 0) {
    const Values old = to_doubles(gradient);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += old[i];
  }
  if (gradient.device() != Device::cpu)
    return gradient.copy_from(make(sum, gradient.shape(), gradient.dtype(), Device::cpu));
  dispatch_floating(gradient.dtype(), [&]<class T>() {
    std::ranges::copy(rounded_to<T>(sum), gradient.span<T>().begin());
  });
}

// y = x as an op: turns a leaf into an intermediate result.
Tensor pass_on(const Tensor& x) {
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  y.copy_from(x);
  const Edge edge = x;
  record("pass_on", y, {edge}, [edge](Tensor& dy) { give_gradient(edge, to_values(dy)); });
  return y;
}

// sum_i weights[i] * y[i]
Tensor weighted_sum(const Tensor& y, const Values& weights) {
  const Values values = to_values(y);
  double total = 0;
  for (size_t i = 0; i < values.size(); ++i) total += weights[i] * values[i];
  Tensor sum = Tensor::full({}, total, wide(y.dtype()), y.device());
  const Edge edge = y;
  record("weighted_sum", sum, {edge}, [edge, weights](Tensor& dsum) {
    Values dy = weights;
    for (const double scale : to_values(dsum))
      for (double& v : dy) v *= scale;
    give_gradient(edge, dy);
  });
  return sum;
}

// A tensor between bands of one value.
struct Guarded {
  Tensor whole, tensor;
  int64_t begin;  // of the tensor within the whole
  Values before;  // elements of the whole

  Guarded(const Values& values, double band, const Shape& shape, const Mode& mode,
          Category category)
      // An odd number misaligns the slice: kernels have other paths for that.
      : begin(mode.target == Target::preset ? 33 : 32) {
    Values all(values.size() + 66, band);
    std::ranges::copy(values, all.begin() + begin);
    whole = make(all, {static_cast<int64_t>(all.size())}, mode.dtype, mode.device, category);
    tensor = whole.slice(begin, begin + shape.numel()).reshape(shape);
    before = to_values(whole);
  }
};

enum class Inside { untouched, written };

void check_intact(const Guarded& guarded, Inside inside, std::string_view what) {
  const Values after = to_doubles(guarded.whole);
  const int64_t size = guarded.tensor.numel();
  for (size_t i = 0; i < after.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i) - guarded.begin;
    const bool beyond = at < 0 || at >= size;
    check((!beyond && inside == Inside::written) || same(after[i], guarded.before[i]),
          "{}\nwritten {}: at {} of [0, {}) is {} instead of {}", what, beyond ? "beyond" : "over",
          at, size, after[i], guarded.before[i]);
  }
}

struct Result {
  Values y;
  std::vector<Values> gradients;
  Usage peak;

  bool operator==(const Result& other) const {
    return std::ranges::equal(y, other.y, same) &&
           std::ranges::equal(gradients, other.gradients, [](const Values& a, const Values& b) {
             return std::ranges::equal(a, b, same);
           });
  }
};

Result run(const Op& op, const std::vector<Values>& inputs, const Values& weights,
           const Mode& mode) {
  // A kernel that reads around an input computes a NaN; one that adds to the elements around a
  // gradient changes them.
  constexpr double around_input = nan, around_gradient = -77;
  ledger(mode.device).reset_peak();
  std::vector<Guarded> values, gradients;
  std::vector<Tensor> leaves, operands;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool parameter = is_parameter(op, i);
    Mode own = mode;
    if (parameter) own.dtype = wide(mode.dtype);
    values.emplace_back(inputs[i], around_input, op.inputs[i], own, Category::activations);
    leaves.push_back(require_grad(values[i].tensor));
    if (own.dtype != mode.dtype)
      leaves[i].variable()->copy = make(inputs[i], op.inputs[i], mode.dtype, mode.device);
    if (mode.target != Target::absent) {
      const Values old(inputs[i].size(), mode.target == Target::preset ? preset_value : nan);
      gradients.emplace_back(old, around_gradient, op.inputs[i], own, Category::gradients);
      leaves[i].variable()->grad = gradients[i].tensor;
      leaves[i].variable()->fresh = mode.target != Target::preset;
    }
    const bool passed_on =
        mode.inputs == Inputs::intermediates && !(parameter && own.dtype != mode.dtype);
    operands.push_back(passed_on ? pass_on(leaves[i]) : leaves[i]);
  }
  Tensor y = op.run(operands);
  operands.clear();
  Result result;
  result.y = to_values(y);
  const Tensor loss = weighted_sum(y, weights);
  y.reset();
  backward(loss);
  result.peak = ledger(mode.device).peak();
  if (is_meta(mode.device)) return result;
  for (size_t i = 0; i < leaves.size(); ++i) {
    result.gradients.push_back(to_values(grad(leaves[i])));
    check_intact(values[i], Inside::untouched, fmt::format("input {}", i));
    if (!gradients.empty())
      check_intact(gradients[i], Inside::written, fmt::format("gradient of input {}", i));
  }
  return result;
}

// Checks |actual - expected| <= bound everywhere; NaN fails.
void check_close(std::string_view what, const Values& actual, const Values& expected,
                 double bound) {
  check(actual.size() == expected.size(), "{}\n{} elements, expected {}", what, actual.size(),
        expected.size());
  size_t worst = 0;
  double worst_error = -1;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double error = std::abs(actual[i] - expected[i]);
    if (!(error <= worst_error)) worst = i, worst_error = error;
    if (std::isnan(error)) break;
  }
  check(worst_error <= bound, "{}\nat {}: {:.6g}, expected {:.6g}, bound {:.6g}", what, worst,
        actual.empty() ? 0 : actual[worst], expected.empty() ? 0 : expected[worst], bound);
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

// The inputs of an op and the results expected for them.
struct Expectation {
  std::vector<Values> inputs, other_inputs, gradients;
  Values y, weights;

  // The inputs and weights are rounded to this dtype.
  Expectation(const Op& op, DType dtype) {
    for (size_t i = 0; i < op.inputs.size(); ++i)
      inputs.push_back(held_by(dtype, random_values(op, i)));
    other_inputs = inputs;
    for (Values& values : other_inputs) std::ranges::reverse(values);
    y = op.reference(inputs);
    weights.resize(y.size());
    RandomStream random(7);
    for (double& w : weights) w = random.uniform(-1, 1);
    weights = held_by(dtype, weights);
    // Where differences for every element would take too long, the op itself in float64 is as good
    // a reference: it has been checked by differences before.
    if (is_16_bit_dtype(dtype) && reduced()) {
      gradients = run(op, inputs, weights, {DType::f64, test_device()}).gradients;
      return;
    }
    for (size_t i = 0; i < inputs.size(); ++i)
      gradients.push_back(numeric_gradient(op, inputs, i, weights));
  }
};

double rounding_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return 0x1p-53;
    case DType::f16: return 0x1p-11;
    case DType::bf16: return 0x1p-8;
    default: return 0x1p-24;
  }
}

void check_result(const Op& op, const Expectation& expected, const Result& result,
                  const Mode& mode) {
  const double unit = rounding_of(wide(mode.dtype));
  // The result is rounded to 16 bits once. A gradient may depend on the rounded y, with a slope of
  // up to 2, and is rounded itself. float16's denormals lie 2^-24 apart.
  const double last = is_16_bit_dtype(mode.dtype) ? op.roundings * rounding_of(mode.dtype) : 0;
  check_close("forward", result.y, expected.y, (op.depth * unit + last) * magnitude(expected.y));
  for (size_t i = 0; i < expected.inputs.size(); ++i) {
    Values gradient = expected.gradients[i];
    if (mode.target == Target::preset)
      for (double& g : gradient) g += preset_value;
    // The factor is there because backward adds up over all outputs that an input reaches.
    const double rounding = (4 * op.depth * unit + 3 * last) * magnitude(gradient);
    check_close(fmt::format("gradient of input {}", i), result.gradients[i], gradient,
                rounding + 1e-8 * magnitude(gradient));
  }
}

// An op itself decides where the gradient of an intermediate result goes. So for intermediate
// results the targets check nothing that they have not checked for leaves. Parameters in 16 bits
// are an exception: they are leaves in any case.
std::vector<Target> targets_of(const Op& op, Inputs inputs, DType dtype) {
  if (!reduced()) return {Target::nan_filled, Target::preset, Target::absent};
  if (inputs == Inputs::leaves || (is_16_bit_dtype(dtype) && !op.parameters.empty()))
    return {Target::nan_filled, Target::preset};
  return {Target::absent};
}

// A kernel that adds to its target has the same barriers as one that overwrites it, so one order is
// enough. A kernel that writes over dy may have races that others do not.
int orders_of(const Mode& mode) {
  if (!reduced()) return thread_orders();
  if (mode.target == Target::preset) return 1;
  const bool follows_leaves = mode.inputs == Inputs::intermediates && !is_16_bit_dtype(mode.dtype);
  return std::min(thread_orders(), follows_leaves ? 2 : 3);
}

void check_mode(const Op& op, const Expectation& expected, const Mode& mode) {
  std::optional<Result> first;
  for (int order = 0; order < orders_of(mode); ++order) {
    set_thread_order(order);
    // The runner's shared memory still holds the values of the block before. Running the op on
    // other inputs first changes them: otherwise a thread that reads too early could find the right
    // values.
    if (on_runner()) run(op, expected.other_inputs, expected.weights, mode);
    Result result = run(op, expected.inputs, expected.weights, mode);
    check_result(op, expected, result, mode);
    if (!first) first = std::move(result);
    check(order == 0 || result == *first, "thread order {} gives other bits than order 0", order);
  }
}

// The ways in which an operand can be wrong.
enum class Wrong { undefined, integers, other_dtype, rank };
std::string_view name(Wrong wrong) {
  switch (wrong) {
    case Wrong::undefined: return "undefined";
    case Wrong::integers: return "integers";
    case Wrong::other_dtype: return "another dtype";
    case Wrong::rank: break;
  }
  return "of another rank";
}

Tensor make_wrong(const Shape& shape, Wrong wrong, Device device) {
  const std::vector<int32_t> zeros(static_cast<size_t>(shape.numel()));
  const Shape other_rank = shape.rank() == 1 ? Shape{1, shape.numel()} : Shape{shape.numel()};
  switch (wrong) {
    case Wrong::undefined: break;
    case Wrong::integers: return Tensor::from(zeros, shape, device);
    case Wrong::other_dtype: return Tensor::full(shape, 0.5, DType::f64, device);
    case Wrong::rank: return Tensor::full(other_rank, 0.5, DType::f32, device);
  }
  return {};
}

// The op's error message about such an operand; empty if the op accepts it.
std::string refusal_of(const Op& op, size_t input, Wrong wrong, Device device) {
  std::vector<Tensor> operands;
  for (const Shape& shape : op.inputs)
    operands.push_back(Tensor::full(shape, 0.5, DType::f32, device));
  operands[input] = make_wrong(op.inputs[input], wrong, device);
  try {
    op.run(operands);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void check_refusals(const Op& op) {
  const Device there = test_device(), meta = meta_of(there);
  for (size_t input = 0; input < op.inputs.size(); ++input)
    for (const Wrong wrong : {Wrong::undefined, Wrong::integers, Wrong::other_dtype, Wrong::rank}) {
      const std::string on_device = refusal_of(op, input, wrong, there),
                        on_meta = refusal_of(op, input, wrong, meta);
      check(on_device.empty() == on_meta.empty(),
            "input {}, {}: on {} '{}', on {} '{}' (nothing: it was taken)", input, name(wrong),
            detail::name(there), on_device, detail::name(meta), on_meta);
    }
}

void check_memory(const Op& op, const Expectation& expected, DType dtype, const Usage& before) {
  const Mode real{dtype, test_device(), Inputs::intermediates, Target::absent};
  Mode meta = real;
  meta.device = meta_of(real.device);
  const Usage idle = ledger(meta.device).current();
  Usage predicted = run(op, expected.inputs, expected.weights, meta).peak;
  Usage measured = run(op, expected.inputs, expected.weights, real).peak;
  for (Category c : all_categories) {
    predicted[c] -= idle[c];
    measured[c] -= before[c];
  }
  check(predicted.bytes == measured.bytes, "predicted {}\nmeasured {}", to_string(predicted),
        to_string(measured));
}

}  // namespace

std::optional<std::string> op_failure(const Op& op) {
  const Expectation expected(op, DType::f64);
  const Usage before = ledger(test_device()).current();
  std::string where;
  const auto check_modes = [&](const Expectation& expectation, std::vector<DType> dtypes,
                               std::vector<Inputs> kinds) {
    // The guarded targets come first: a write beyond one of them then hits nothing but a band.
    for (const Inputs inputs : kinds)
      for (const Target target : targets_of(op, inputs, dtypes.front()))
        for (const DType dtype : dtypes) {
          const Mode mode{dtype, test_device(), inputs, target};
          where = describe(mode);
          check_mode(op, expectation, mode);
        }
    where = "memory";
    check(ledger(test_device()).current().bytes == before.bytes, "left behind {}",
          to_string(ledger(test_device()).current()));
    check_memory(op, expectation, dtypes.back(), before);
  };
  try {
    check_modes(expected, {DType::f64, DType::f32}, {Inputs::leaves, Inputs::intermediates});
    if (op.in_16_bits)
      for (const DType dtype : {DType::f16, DType::bf16})
        check_modes(Expectation(op, dtype), {dtype}, {Inputs::intermediates});
    where = "refusals";
    check_refusals(op);
  } catch (const std::exception& failure) {
    return fmt::format("op {}\n{}\n{}", op.name, where, failure.what());
  }
  return std::nullopt;
}

void check_op(const Op& op) {
  if (const auto failure = op_failure(op)) FAIL(*failure);
  SUCCEED();
}

Tensor indices(const std::vector<int32_t>& values, const Tensor& like) {
  return Tensor::from(values, {static_cast<int64_t>(values.size())}, like.device());
}

Tensor ones(const Shape& shape) { return Tensor::full(shape, 1, DType::f32, test_device()); }

Values random_values(const Shape& shape, uint64_t seed, float most) {
  RandomStream random(seed);
  Values values(static_cast<size_t>(shape.numel()));
  for (double& v : values) v = most * random.uniform(-1, 1);
  return values;
}

Tensor tensor_with(const Values& values, const Shape& shape, DType dtype) {
  const Tensor host = Tensor::empty(shape, dtype, Device::cpu);
  dispatch_floating(dtype, [&]<class T>() {
    std::transform(values.begin(), values.end(), host.span<T>().begin(),
                   [](double x) { return T(static_cast<Wide<T>>(x)); });
  });
  return host.to(test_device());
}

void backward_from(const Tensor& y, const Values& dy) {
  Tensor loss = ones({});
  const Edge edge = y;
  record("sum", loss, {edge}, [&](Tensor&) {
    claim_grad(edge);
    const Tensor& grad = edge.variable()->grad;
    grad.copy_from(tensor_with(dy, grad.shape(), y.dtype()));
  });
  backward(loss);
}

void backward_of_sum(const Tensor& y) {
  Tensor loss = ones({});
  const Edge edge = y;
  record("sum", loss, {edge}, [edge](Tensor&) {
    claim_grad(edge);
    edge.variable()->grad.fill(1);
  });
  backward(loss);
}

}  // namespace accrue::test
