#pragma once

#include <array>
#include <memory>
#include <vector>

#include "accumulate/window.h"
#include "kernels/cross_entropy.h"
#include "layers/models.h"
#include "tests/support/batch.h"
#include "tests/support/device.h"

namespace accrue::test {

inline constexpr int64_t N = 64, features = 12, classes = 5;
inline constexpr std::array<int64_t, 4> sizes{features, 16, 8, classes};
using Split = std::vector<int64_t>;
inline const std::vector<Split> splits{
    {64}, {32, 32}, {16, 16, 16, 16}, Split(64, 1), {24, 24, 16}};

inline Batch random_batch(int64_t samples, DType dtype, uint64_t seed) {
  return test::random_batch({samples, features}, classes, seed, dtype);
}

// A small perceptron and its window of N samples.
struct Learner {
  std::unique_ptr<Sequential> model = make_mlp(sizes);
  Parameters parameters;
  std::unique_ptr<Optimizer> optimizer;
  Window window;

  // eps is larger than Adam's default, because the bounds of the tests rely on it: a gradient error
  // d moves a weight by at most lr/eps * d per step.
  static constexpr double lr = 1e-3, eps = 1e-3;
  // `sharded`: the optimizer owns this rank's shard.
  explicit Learner(DType dtype, WindowOptions options = {.effective_batch_size = N},
                   bool sharded = false)
      : parameters(place(*model, dtype, test_device(), 3, gradient_storage(options.strategy))),
        optimizer(adam(parameters, {.eps = eps}, sharded ? own_shard(*options.ranks) : Owned())),
        window(*optimizer, ScheduleOptions{.base = lr}, options) {}

  Parameters::Range own_shard(const Ranks& ranks) const {
    return Shards{parameters.values().numel(), ranks.count()}.of(ranks.rank());
  }
  Tensor loss(const Batch& batch, int64_t begin, int64_t end) const {
    return cross_entropy((*model)(batch.x.slice(begin, end)), batch.labels.slice(begin, end));
  }
  void accumulate(const Batch& batch, const Split& split) {
    int64_t begin = 0;
    for (const int64_t n : split) {
      window.backward(loss(batch, begin, begin + n), n);
      begin += n;
    }
  }
};

}  // namespace accrue::test
