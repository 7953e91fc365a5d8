// Sums over the rows of a matrix: gradients of biases, and of gamma and beta of norms over rows. On
// cuda several blocks take parts of the rows (kernels/detail/channel_sums.h).

#include <cmath>

#include "core/autograd.h"
#include "core/ledger.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"

namespace accrue::test {
namespace {

// A parameter in the type of sums, with a copy in the type of the op.
Tensor summed_parameter(const Shape& shape, double value, DType dtype,
                        Device device = test_device()) {
  const Tensor x = require_grad(Tensor::full(shape, value, wide(dtype), device));
  if (wide(dtype) != dtype) x.variable()->copy = Tensor::full(shape, value, dtype, device);
  return x;
}

// The gradient is written over NaN or added to 0.5.
void preset_grad(const Tensor& x, bool adds) {
  x.variable()->grad = Tensor::full(x.shape(), adds ? 0.5 : NAN, x.dtype(), x.device());
  x.variable()->fresh = !adds;
}

// db of linear(x, w, b), whose dy lies at a multiple of 16 bytes or, if displaced, one element
// behind it.
Values bias_gradient(const Values& dy, int64_t N, int64_t O, DType dtype, bool adds,
                     bool displaced) {
  const Tensor x = Tensor::full({N, 1}, 1, dtype, test_device());
  const Tensor w = Tensor::full({O, 1}, 1, dtype, test_device()),
               b = summed_parameter({O}, 0, dtype);
  preset_grad(b, adds);
  const Tensor y = linear(x, w, b);
  const int64_t begin = displaced ? 1 : 0;
  y.variable()->grad = Tensor::full({begin + N * O}, NAN, dtype, test_device())
                           .slice(begin, begin + N * O)
                           .reshape({N, O});
  y.variable()->fresh = true;
  backward_from(y, dy);
  return to_doubles(grad(b));
}

std::vector<DType> summed_types() {
  if (reduced()) return {DType::f32, DType::bf16};
  return {DType::f64, DType::f32, DType::f16, DType::bf16};
}

}  // namespace

// The terms are eighths: float32 holds their sums. 200 columns are whole vectors in several tiles,
// of which the last is short; 67 columns are none. 5000 rows have more parts than a thread
// adds at a time.
TEST_CASE("the gradient of a bias is the sum over many rows", "[ops]") {
  struct Case {
    int64_t N, O;
  };
  int order = 0;
  for (const auto& [N, O] : {Case{66, 200}, Case{600, 200}, Case{600, 67}, Case{5000, 3}}) {
    Values dy = random_values({N, O}, 4);
    Values sums(static_cast<size_t>(O));
    for (size_t i = 0; i < dy.size(); ++i)
      sums[i % sums.size()] += dy[i] = std::round(8 * dy[i]) / 8;
    for (const DType dtype : summed_types())
      for (const bool adds : {false, true})
        for (const bool displaced : {false, true}) {
          if (displaced && (adds || O != 200)) continue;
          INFO(name(dtype) << " [" << N << ", " << O << "], " << adds << ", " << displaced);
          Values expected = sums;
          for (double& sum : expected) sum += adds ? 0.5 : 0;
          set_thread_order(++order % 3);
          REQUIRE(bias_gradient(dy, N, O, dtype, adds, displaced) == expected);
        }
  }
  set_thread_order(0);
}

// In float64 a sum shows the order of its terms.
TEST_CASE("the gradient of a bias has the same bits in any order of threads", "[ops]") {
  constexpr int64_t N = 1200, O = 24;
  const Values dy = random_values({N, O}, 5);
  std::vector<Values> results;
  for (const int order : {0, 1, 2, 3}) {
    set_thread_order(order);
    results.push_back(bias_gradient(dy, N, O, DType::f64, true, false));
    REQUIRE(results.back() == results.front());
  }
  set_thread_order(0);
}

// Groups of all channels, whose channels do or do not fill vectors, and groups of four channels.
TEST_CASE("gradients of gamma and beta are sums over many rows", "[ops]") {
  struct Case {
    int64_t N, C, groups;
    bool has_mean;
  };
  constexpr double eps = 1e-5;
  for (const auto& [N, C, groups, has_mean] :
       {Case{600, 72, 1, true}, Case{600, 72, 1, false}, Case{600, 70, 1, true},
        Case{600, 72, 18, true}, Case{600, 6, 3, true}})
    for (const DType dtype : summed_types()) {
      INFO(name(dtype) << " [" << N << ", " << C << "], " << groups << " groups");
      const Tensor drawn = tensor_with(random_values({N, C}, 1), {N, C}, dtype),
                   gradient = tensor_with(random_values({N, C}, 2), {N, C}, dtype);
      const Values x = to_doubles(drawn), dy = to_doubles(gradient);
      const int64_t K = C / groups;
      Values dgamma(static_cast<size_t>(C)), dbeta(dgamma), size(dgamma);
      for (int64_t first = 0; first < N * C; first += K) {
        double mean = 0, var = 0;
        for (int64_t i = first; i < first + K; ++i) mean += has_mean ? x[size_t(i)] / double(K) : 0;
        for (int64_t i = first; i < first + K; ++i)
          var += (x[size_t(i)] - mean) * (x[size_t(i)] - mean) / double(K);
        for (int64_t i = first; i < first + K; ++i) {
          const double xhat = (x[size_t(i)] - mean) / std::sqrt(var + eps), d = dy[size_t(i)];
          dgamma[size_t(i % C)] += d * xhat;
          dbeta[size_t(i % C)] += d;
          // |x| <= 1, and so is the mean.
          size[size_t(i % C)] += std::abs(d) * (1 + 2 / std::sqrt(var + eps));
        }
      }
      for (const bool adds : {false, true}) {
        set_thread_order(adds ? 1 : 2);
        const Tensor gamma = summed_parameter({C}, 2, dtype),
                     beta = summed_parameter({C}, 0, dtype);
        for (const Tensor& x : {gamma, beta}) preset_grad(x, adds);
        const Tensor y = !has_mean    ? rms_norm(drawn, gamma, eps)
                         : groups > 1 ? group_norm(drawn, groups, gamma, beta)
                                      : layer_norm(drawn, gamma, beta, eps);
        backward_from(y, dy);
        // As many roundings as there are terms, in sums over rows and in the moments.
        const double rounding = wide(dtype) == DType::f64 ? 0x1p-53 : 0x1p-24;
        const Values of_gamma = to_doubles(grad(gamma));
        const double there = adds ? 0.5 : 0;
        bool is_close = true;
        for (size_t c = 0; c < dgamma.size(); ++c) {
          const double bound = double(N + 4 * K + 8) * rounding * (size[c] + there);
          is_close &= std::abs(of_gamma[c] - dgamma[c] - there) <= bound;
          if (has_mean) is_close &= std::abs(to_doubles(grad(beta))[c] - dbeta[c] - there) <= bound;
        }
        REQUIRE(is_close);
      }
    }
  set_thread_order(0);
}

TEST_CASE("sums over rows take the memory that is predicted", "[ops]") {
  constexpr int64_t N = 600, C = 72;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto peak = [&](bool is_meta) {
      const MetaScope scope(is_meta);
      const Device device = test_device();
      const auto full = [&](const Shape& shape) { return Tensor::full(shape, 1, dtype, device); };
      const Tensor gamma = summed_parameter({C}, 2, dtype, device),
                   beta = summed_parameter({C}, 0, dtype, device),
                   w = summed_parameter({C, 1}, 1, dtype, device),
                   b = summed_parameter({C}, 0, dtype, device);
      const Tensor x = require_grad(full({N, 1}));
      const size_t before = ledger(device).current().total();
      ledger(device).reset_peak();
      backward_of_sum(layer_norm(linear(x, w, b), gamma, beta));
      return ledger(device).peak().total() - before;
    };
    REQUIRE(peak(false) == peak(true));
  }
}

}  // namespace accrue::test
