// batch_norm() of a part of a batch; the other part is constant.

#include "kernels/joined_batch.h"

#include <cmath>

#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"

namespace accrue::test {
namespace joined_batch_test {
namespace {

constexpr double eps = 1e-5;
constexpr size_t C = 3;

// The values of the other part in a channel.
struct Other {
  Values values;
  double mean() const {
    double sum = 0;
    for (const double v : values) sum += v;
    return sum / double(values.size());
  }
  double deviations() const {
    double sum = 0;
    for (const double v : values) sum += (v - mean()) * (v - mean());
    return sum;
  }
};
const std::vector<Other> others{
    {{0.5, -1, 2, 0.25, 3}}, {{100, 101, 99, 100.5, 98}}, {{0, 0, 0, 0, 0}}};

// Joins a batch whose other part comes first.
struct BesideOthers : JoinedBatch {
  Run join_moments(const void*, const Own& own, const OfAll& of_all) override {
    const Tensor mine = own(), table = beside_nothing(mine);
    if (!is_meta(mine.device())) {
      Values theirs;
      for (const Other& other : others) theirs.push_back(other.mean());
      for (const Other& other : others) theirs.push_back(other.deviations());
      for (const Other& other : others) theirs.push_back(double(other.values.size()));
      const Shape shape = table.slice(0, 1).shape();
      const Tensor values = mine.dtype() == DType::f64
                                ? Tensor::from(theirs, shape, mine.device())
                                : Tensor::from(std::vector<float>(theirs.begin(), theirs.end()),
                                               shape, mine.device());
      table.slice(0, 1).copy_from(values);
    }
    return {.moments = of_all(table)};
  }
  Tensor join_dx_terms(const Run&, const Own& own, const OfAll& of_all) override {
    return of_all(beside_nothing(own()));
  }
  static Tensor beside_nothing(const Tensor& mine) {
    const Shape part{1, mine.size(0), mine.size(1)};
    const Tensor table = Tensor::full({2, part[1], part[2]}, 0, mine.dtype(), mine.device());
    table.slice(1, 2).copy_from(mine.reshape(part));
    return table;
  }
};

Op joined_op(const Shape& shape, bool is_affine) {
  const size_t N = size_t(shape[0]), S = size_t(shape.numel(2, shape.rank()));
  std::vector<Shape> inputs{shape};
  if (is_affine) inputs.resize(3, {int64_t(C)});
  return {.name = fmt::format("batch_norm of a part {}{}", shape, is_affine ? ", affine" : ""),
          .inputs = inputs,
          .run =
              [=](const auto& in) {
                static BesideOthers batch;
                const auto zeros = [&] {
                  return Tensor::full({int64_t(C)}, 0, wide(in[0].dtype()), in[0].device());
                };
                return batch_norm(in[0], is_affine ? in[1] : Tensor(), is_affine ? in[2] : Tensor(),
                                  {zeros(), zeros()}, batch, nullptr, eps);
              },
          .reference =
              [=](const auto& in) {
                Values y(in[0].size());
                for (size_t c = 0; c < C; ++c) {
                  Values all = others[c].values;
                  for (size_t i = 0; i < N * S; ++i)
                    all.push_back(in[0][(i / S * C + c) * S + i % S]);
                  const Other whole{all};
                  const double mean = whole.mean(), var = whole.deviations() / double(all.size());
                  for (size_t i = 0; i < N * S; ++i) {
                    const size_t at = (i / S * C + c) * S + i % S;
                    y[at] = (in[0][at] - mean) / std::sqrt(var + eps);
                    if (is_affine) y[at] = y[at] * in[1][c] + in[2][c];
                  }
                }
                return y;
              },
          .depth = 2 * double(N * S + others[0].values.size()) + 8,
          .parameters = {1, 2}};
}

}  // namespace

TEST_CASE("batch_norm of a part of a batch", "[ops]") {
  for (const bool is_affine : {true, false}) check_op(joined_op({4, 3, 5}, is_affine));
  check_op(joined_op({9, 3}, true));
  check_op(joined_op({1, 3}, true));  // a single element of a channel
  check_op(joined_op({2, 3, 4, 4}, true));
}

TEST_CASE("a batch of a single element of a channel has no variance", "[ops]") {
  struct Alone : JoinedBatch {
    Run join_moments(const void*, const Own& own, const OfAll& of_all) override {
      const Tensor mine = own();
      return {.moments = of_all(mine.reshape({1, mine.size(0), mine.size(1)}))};
    }
    Tensor join_dx_terms(const Run&, const Own&, const OfAll&) override { return {}; }
  } batch;
  const auto all = [](double value) {
    return Tensor::full({int64_t(C)}, value, DType::f64, test_device());
  };
  const RunningStatistics running{all(0), all(1)};
  const auto normalise = [&](int64_t N) {
    return batch_norm(Tensor::full({N, int64_t(C)}, 2, DType::f64, test_device()), {}, {}, running,
                      batch, nullptr);
  };
  REQUIRE(to_doubles(normalise(2)) == Values(2 * C, 0));
  if (test_device() != Device::cpu) return;  // kernels there cannot throw
  REQUIRE_ERROR(normalise(1), "a single element of a channel");
  REQUIRE(to_doubles(running.mean) == Values(C, 0.2));  // from the batch before
}

TEST_CASE("the running statistics cover all parts", "[ops]") {
  const Tensor x = Tensor::from(Values{1, 2, 10, 14, 3, 6}, {2, 3}, test_device());
  const auto all = [](double value) {
    return Tensor::full({int64_t(C)}, value, DType::f64, test_device());
  };
  const RunningStatistics running{all(0), all(1)};
  BesideOthers batch;
  const NoGrad no_grad;
  batch_norm(x, {}, {}, running, batch, nullptr);
  const Values mean = to_doubles(running.mean), var = to_doubles(running.var);
  const Values column[]{{1, 14}, {2, 3}, {10, 6}};
  for (size_t c = 0; c < C; ++c) {
    Other whole = others[c];
    whole.values.insert(whole.values.end(), column[c].begin(), column[c].end());
    REQUIRE(mean[c] == Approx(0.1 * whole.mean()));
    REQUIRE(var[c] == Approx(0.9 + 0.1 * whole.deviations() / 6));
  }
}

}  // namespace joined_batch_test
}  // namespace accrue::test
