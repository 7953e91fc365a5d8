// Several ranks give the same result as one rank with all their micro-batches. Threads stand in for
// the processes here.

#include "accumulate/ranks.h"

#include <cmath>
#include <limits>

#include "kernels/arithmetic.h"
#include "layers/layers.h"
#include "tests/accumulate/window_learner.h"
#include "tests/support/catch.h"
#include "tests/support/thread_ranks.h"

namespace accrue::test {
namespace {

struct RankOutcome {
  std::vector<double> weights, average, m, v, buffers;
  std::vector<StepReport> reports;
  bool operator==(const RankOutcome& other) const {
    const auto same_number = [](double a, double b) {
      return a == b || (std::isnan(a) && std::isnan(b));
    };
    const auto same = [&](const StepReport& a, const StepReport& b) {
      return same_number(a.loss, b.loss) && same_number(a.grad_norm, b.grad_norm) &&
             same_number(a.noise_scale, b.noise_scale) && a.skipped == b.skipped &&
             a.samples == b.samples && a.micro_batches == b.micro_batches &&
             a.loss_scale == b.loss_scale;
    };
    return weights == other.weights && average == other.average && m == other.m && v == other.v &&
           buffers == other.buffers && std::ranges::equal(reports, other.reports, same);
  }
};

constexpr int windows = 6;
// The last window is short. In some cases it has fewer micro-batches than there are ranks.
int64_t samples_of(int window) { return window == windows - 1 ? 17 : N; }

Tensor scratch_of(const Ranks& ranks) {
  return Tensor::empty({int64_t(ranks.scratch_bytes(Device::cpu, 0))}, DType::u8, Device::cpu,
                       Category::workspace);
}

// A run in micro-batches of m samples. Rank r takes the r-th, (r + R)-th, ... of them. Window
// number `infinite` has an infinite sample in its last micro-batch.
RankOutcome run_rank(Ranks* ranks, DType dtype, int64_t m, WindowOptions options, int infinite = -1,
                     bool sharded = false) {
  options.effective_batch_size = N;
  options.ranks = ranks;
  Learner learner(dtype, options, sharded);
  const int64_t r = ranks ? ranks->rank() : 0, R = ranks ? ranks->count() : 1;
  RankOutcome outcome;
  for (int w = 0; w < windows; ++w) {
    Batch batch = random_batch(N, dtype, 100 + static_cast<uint64_t>(w));
    const int64_t n = samples_of(w);
    if (w == infinite) batch.x.slice(n - 1, n).fill(std::numeric_limits<double>::infinity());
    const bool takes_part = r * m < n;
    if (takes_part) learner.window.expect(n);
    for (int64_t i = 0; i * m < n; ++i)
      if (i % R == r) {
        const int64_t end = std::min((i + 1) * m, n);
        learner.window.backward(learner.loss(batch, i * m, end), end - i * m);
      }
    outcome.reports.push_back(learner.window.step());
  }
  outcome.weights = to_doubles(learner.parameters.values());
  outcome.m = to_doubles(learner.optimizer->state()[0].second);
  outcome.v = to_doubles(learner.optimizer->state()[1].second);
  if (options.ema_decay) {
    learner.window.exchange_averages();
    outcome.average = to_doubles(learner.parameters.values());
  }
  return outcome;
}

// Requires that the results of all ranks have the same bits, and returns them.
RankOutcome run_all(int R, DType dtype, int64_t m, const WindowOptions& options,
                    int infinite = -1) {
  std::vector<RankOutcome> outcomes(static_cast<size_t>(R));
  run_ranks(R, [&](Ranks& ranks) {
    outcomes[static_cast<size_t>(ranks.rank())] = run_rank(&ranks, dtype, m, options, infinite);
  });
  for (const RankOutcome& outcome : outcomes) REQUIRE(outcome == outcomes.front());
  return outcomes.front();
}

// Requires that a run in which each rank has the moments and averages of its own shard alone gives
// the same bits as a run in which every rank has all of them.
void require_same_bits_sharded(int R, DType dtype, int64_t m, const WindowOptions& options,
                               int infinite = -1) {
  const RankOutcome whole = run_all(R, dtype, m, options, infinite);
  std::vector<RankOutcome> outcomes(static_cast<size_t>(R));
  run_ranks(R, [&](Ranks& ranks) {
    outcomes[size_t(ranks.rank())] = run_rank(&ranks, dtype, m, options, infinite, true);
  });
  std::vector<double> m_of_all, v_of_all;
  const auto take = [&](std::vector<double>& shard, std::vector<double>& all) {
    REQUIRE(shard.size() <= whole.m.size() / size_t(R) + 16);
    all.insert(all.end(), shard.begin(), shard.end());
    shard.clear();
  };
  RankOutcome expected = whole;
  expected.m.clear();
  expected.v.clear();
  for (RankOutcome& outcome : outcomes) {
    take(outcome.m, m_of_all);
    take(outcome.v, v_of_all);
    REQUIRE(outcome == expected);
  }
  REQUIRE(m_of_all == whole.m);
  REQUIRE(v_of_all == whole.v);
}

// The bound is derived as in tests/accumulate/window.cpp. Each of the N terms, and of the sums over
// the widths, rounds by u times the running value, which stays below 1 here. A step moves a weight
// by at most lr / eps = 1 times the gradient's error. The factor of 2 allows for moved weights,
// which move later gradients.
double bound(DType dtype) {
  const double u = dtype == DType::f32 ? 0x1p-24 : 0x1p-53;
  double terms = double(N);
  for (const int64_t width : sizes) terms += double(width);
  return 2 * windows * terms * u;
}

void require_close(const RankOutcome& one, const RankOutcome& all, DType dtype) {
  const double most = dtype == DType::f64 ? 1e-12 : bound(dtype);
  REQUIRE(largest_difference(one.weights, all.weights) <= most);
  REQUIRE(largest_difference(one.average, all.average) <= most);
  REQUIRE(largest_difference(one.m, all.m) <= most);
  REQUIRE(largest_difference(one.v, all.v) <= most);
  for (size_t i = 0; i < windows; ++i) {
    REQUIRE(all.reports[i].samples == samples_of(int(i)));
    REQUIRE(std::abs(all.reports[i].loss - one.reports[i].loss) <= most);
  }
}

}  // namespace

TEST_CASE("ranks add up their values in order, in pieces, and all have the same bits", "[ranks]") {
  // 40 ranks need a larger scratch.
  for (const int R : {1, 2, 3, 4, 40})
    for (const int64_t n : {int64_t{1}, int64_t{7}, int64_t{70001}, int64_t{300007}}) {
      INFO(R << " ranks, " << n << " values");
      std::vector<std::vector<float>> values(static_cast<size_t>(R));
      for (size_t r = 0; r < values.size(); ++r) {
        const auto phase = std::sin(double(r));
        for (int64_t i = 0; i < n; ++i)
          values[r].push_back(
              float(std::ldexp(phase + double(i * 7 % 13), (int(i) + int(r)) % 30)));
      }
      std::vector<std::vector<double>> sums(static_cast<size_t>(R)), means = sums;
      run_ranks(R, [&](Ranks& ranks) {
        const auto r = static_cast<size_t>(ranks.rank());
        const Tensor x = Tensor::empty({n}, DType::f32, Device::cpu, Category::workspace);
        std::ranges::copy(values[r], x.span<float>().begin());
        const Tensor room = scratch_of(ranks);
        ranks.sum(x.view(), room.view());
        sums[r] = to_doubles(x);
        std::ranges::copy(values[r], x.span<float>().begin());
        ranks.mean(x.view(), ranks.rank() == 1 ? 0 : 2, room.view());
        means[r] = to_doubles(x);
      });
      std::vector<double> sum(static_cast<size_t>(n));
      double worst_mean = 0;
      for (size_t i = 0; i < sum.size(); ++i) {
        double exact = 0, mean = 0, size = 0;
        for (size_t r = 0; r < values.size(); ++r) {
          const double value = values[r][i];
          exact += value;
          if (r != 1) mean += value / (R > 1 ? R - 1 : 1);
          size = std::max(size, std::abs(value));
        }
        sum[i] = double(float(exact));
        worst_mean = std::max(worst_mean, std::abs(means[0][i] - mean) / size);
      }
      for (const auto& of_rank : sums) REQUIRE(of_rank == sum);
      for (const auto& of_rank : means) REQUIRE(of_rank == means[0]);
      REQUIRE(worst_mean <= 0x1p-24 * 1.01);  // rounded once to float32
    }
}

// A plan must count the scratch that a run takes.
TEST_CASE("the scratch of ranks is as large as the arena on a GPU, up to 32 MiB", "[ranks]") {
  constexpr size_t MiB = size_t{1} << 20;
  for (const Way way : {Way::through_host, Way::in_place})
    for (const Device device : {Device::meta_cuda, test_device()})
      for (const int64_t elements : {1000, 3000000, 9000000}) {
        if (elements > 3000000 && !is_meta(device)) continue;
        INFO(elements << " parameters on " << name(device) << " by " << int(way));
        Meeting meeting(2);
        ThreadRank ranks(meeting, 0, way);
        const auto model = make_mlp(std::array{elements, int64_t{1}});
        Parameters parameters = place(*model, DType::f32, device, 3);
        const auto optimizer = sgd(parameters);
        const auto bytes_of_window = [&](Ranks* shared) {
          const Ledger& charged = ledger(ranks.scratch_device(device));
          const size_t before = charged.current().total();
          const Window window(*optimizer, ScheduleOptions{},
                              {.effective_batch_size = N, .ranks = shared});
          return charged.current().total() - before;
        };
        const bool on_gpu = plans_for_cuda(device) && way == Way::in_place;
        REQUIRE(bytes_of_window(&ranks) - bytes_of_window(nullptr) ==
                (on_gpu ? std::clamp(parameters.values().bytes(), MiB, 32 * MiB) : MiB));
      }
}

TEST_CASE("ranks add up their own shards, and share them, as they add up the whole", "[ranks]") {
  for (const int R : {1, 2, 3, 4})
    for (const int64_t n : {int64_t{1}, int64_t{7}, int64_t{40}, int64_t{70001}, int64_t{300007}}) {
      INFO(R << " ranks, " << n << " values");
      std::vector<std::vector<double>> sums(static_cast<size_t>(R)), shares = sums, own = sums;
      run_ranks(R, [&](Ranks& ranks) {
        const auto r = static_cast<size_t>(ranks.rank());
        const Tensor x = Tensor::empty({n}, DType::f32, Device::cpu, Category::workspace);
        const auto fill = [&] {
          for (int64_t i = 0; i < n; ++i)
            x.span<float>()[size_t(i)] = float(std::sin(double(i * 3 + ranks.rank())));
        };
        const Tensor room = scratch_of(ranks);
        fill();
        own[r] = to_doubles(x);
        ranks.sum(x.view(), room.view());
        sums[r] = to_doubles(x);
        fill();
        ranks.sum_own_shard(x.view(), room.view());
        const auto [begin, end] = Shards{n, R}.of(ranks.rank());
        for (int64_t i = 0; i < n; ++i) own[r][size_t(i)] -= x.span<float>()[size_t(i)];
        for (int64_t i = begin; i < end; ++i) own[r][size_t(i)] = 0;
        ranks.share_shards(x.view(), room.view());
        shares[r] = to_doubles(x);
      });
      for (size_t r = 0; r < size_t(R); ++r) {
        REQUIRE(shares[r] == sums[0]);
        REQUIRE(std::ranges::all_of(own[r], [](double changed) { return changed == 0; }));
      }
    }
}

// Runs on the device under test, in pieces of a few thousand values.
TEST_CASE("ranks add up the same in place and through the host, to the bit", "[device-ranks]") {
  struct Combined {
    std::vector<double> sum, shard, shared, mean;
    bool operator==(const Combined&) const = default;
  };
  const auto combine = [](int R, int64_t n, DType dtype, Way way) {
    std::vector<Combined> all(static_cast<size_t>(R));
    const auto work = [&](Ranks& ranks) {
      Combined& own = all[static_cast<size_t>(ranks.rank())];
      const Tensor values = Tensor::empty({n}, dtype, Device::cpu, Category::workspace);
      dispatch_wide(dtype, [&]<class T>() {
        for (int64_t i = 0; i < n; ++i)
          values.span<T>()[size_t(i)] = T(std::sin(double(i * 7 + ranks.rank())) *
                                          std::exp2(double((i + ranks.rank()) % 30)));
      });
      const Tensor x = values.to(test_device(), Category::workspace);
      const Device there = ranks.scratch_device(test_device());
      check(there == (way == Way::in_place ? test_device() : Device::cpu), "the wrong place");
      const Tensor room = Tensor::empty({int64_t{64} << 10}, DType::u8, there, Category::workspace);
      ranks.sum(x.view(), room.view());
      own.sum = to_doubles(x);
      x.copy_from(values);
      ranks.sum_own_shard(x.view(), room.view());
      own.shard = to_doubles(x);
      ranks.share_shards(x.view(), room.view());
      own.shared = to_doubles(x);
      x.copy_from(values);
      ranks.mean(x.view(), ranks.rank() == 1 ? 0 : 2 + ranks.rank(), room.view());
      own.mean = to_doubles(x);
    };
    run_ranks(R, work, way);
    return all;
  };
  for (const DType dtype : {DType::f32, DType::f64})
    for (const int R : {1, 2, 3, 4, 40})
      for (const int64_t n : {int64_t{1}, int64_t{7}, int64_t{40}, int64_t{30011}}) {
        INFO(R << " ranks, " << n << " values in " << name(dtype));
        const auto in_place = combine(R, n, dtype, Way::in_place);
        REQUIRE(in_place == combine(R, n, dtype, Way::through_host));
        REQUIRE(in_place[0].shared == in_place[0].sum);
      }
}

TEST_CASE("windows of ranks that exchange in place take the same steps, to the bit",
          "[device-ranks]") {
  const auto run = [](Way way, int64_t m, const WindowOptions& options, bool sharded) {
    std::vector<RankOutcome> all(3);
    run_ranks(
        3,
        [&](Ranks& ranks) {
          all[size_t(ranks.rank())] =
              run_rank(&ranks, DType::f32, m, options, options.clip_norm ? 2 : -1, sharded);
        },
        way);
    return all;
  };
  struct Case {
    int64_t m;
    WindowOptions options;
  };
  for (const auto& [m, options] :
       {Case{16, {.clip_norm = 0.1, .ema_decay = 0.9}}, Case{16, {.strategy = Strategy::separate}},
        Case{22, {.strategy = Strategy::moments}},
        Case{22, {.strategy = Strategy::step_in_backward, .ema_decay = 0.9}}})
    for (const bool sharded : {false, true}) {
      if (sharded && options.strategy == Strategy::moments) continue;
      INFO("strategy " << int(options.strategy) << ", sharded " << sharded);
      REQUIRE(run(Way::in_place, m, options, sharded) ==
              run(Way::through_host, m, options, sharded));
    }
}

TEST_CASE("a gradual sum has the bits of a sum, whenever each rank completes what", "[ranks]") {
  constexpr int64_t n = 30011;
  const std::vector<Parameters::Range> ranges{{16, 40}, {40, 9000}, {12000, 12001}, {12016, n}};
  for (const int R : {1, 2, 3, 4, 40}) {
    INFO(R << " ranks");
    std::vector<std::vector<double>> sums(static_cast<size_t>(R)), gradual = sums;
    run_ranks(
        R,
        [&](Ranks& ranks) {
          const int r = ranks.rank();
          const auto value = [&](int64_t i) {
            return float(std::sin(double(i * 7 + r)) * std::exp2(double((i + r) % 30)));
          };
          const Tensor x = Tensor::empty({n}, DType::f32, Device::cpu, Category::workspace);
          const std::span<float> values = x.span<float>();
          const Tensor room =
              Tensor::empty({int64_t{16} << 10}, DType::u8, Device::cpu, Category::workspace);
          for (int64_t i = 0; i < n; ++i) values[size_t(i)] = value(i);
          const std::vector<double> own = to_doubles(x);
          ranks.sum(x.view(), room.view());
          sums[size_t(r)] = own;
          for (const auto [begin, end] : ranges)
            for (int64_t i = begin; i < end; ++i) sums[size_t(r)][size_t(i)] = values[size_t(i)];
          // Values that are not complete yet are NaN.
          x.fill(std::numeric_limits<double>::quiet_NaN());
          GradualSum sum(ranks, x.view(), ranges, room.view());
          int64_t begin = n;
          const auto complete = [&](int64_t to) {
            for (; begin > to; --begin) values[size_t(begin - 1)] = value(begin - 1);
          };
          // The second rank completes all at once.
          while (r != 1 && begin > 100) {
            complete(std::max(int64_t{100}, begin - 1 - (begin * (r + 3)) % 1500));
            sum.complete_from(begin);
          }
          complete(0);
          sum.finish();
          gradual[size_t(r)] = to_doubles(x);
        },
        Way::in_place);
    for (size_t r = 0; r < size_t(R); ++r) REQUIRE(gradual[r] == sums[r]);
  }
}

// The model is large enough for several pieces; the first piece has one and a half layers. The last
// window's micro-batches do not reach the first layer.
TEST_CASE("windows whose ranks exchange in the last backward take the same steps, to the bit",
          "[ranks]") {
  static constexpr int64_t width = 160;
  struct Case {
    std::string_view what;
    std::vector<std::vector<int>> shares;  // numbers of four micro-batches, by rank
    bool freezes = false;
    NoiseScale noise_scale = NoiseScale::off;
  };
  const auto run = [](Ranks& ranks, const Case& c, Overlap overlap) {
    Sequential model;
    for (int layer = 0; layer < 4; ++layer) model.add<Linear>(width, layer < 3 ? width : 8);
    Parameters parameters = place(model, DType::f32, Device::cpu, 5);
    if (c.freezes) parameters.freeze("1.");
    const auto optimizer = adam(parameters, {});
    Window window(*optimizer, ScheduleOptions{.base = 0.01},
                  {.effective_batch_size = 8,
                   .clip_norm = 0.5,
                   .noise_scale = c.noise_scale,
                   .ranks = &ranks,
                   .overlap = overlap});
    const auto& entries = parameters.entries();
    const Batch batch = test::random_batch({8, width}, 5, 9, DType::f32);
    RankOutcome outcome;
    int early = 0;
    for (int w = 0; w < 3; ++w) {
      const std::vector<int>& own = c.shares[size_t(ranks.rank())];
      for (const int i : own) {
        Tensor y = batch.x.slice(2 * i, 2 * i + 2);
        for (size_t layer = w == 2 ? 1 : 0; layer < 4; ++layer)
          y = linear(y, entries[2 * layer].tensor, entries[2 * layer + 1].tensor);
        const Tensor loss = cross_entropy(y, batch.labels.slice(2 * i, 2 * i + 2));
        const int before = dynamic_cast<const ThreadRank&>(ranks).begun();
        if (i == own.back()) window.expect_last();
        window.backward(loss, 2);
        early += dynamic_cast<const ThreadRank&>(ranks).begun() - before;
      }
      outcome.reports.push_back(window.step());
    }
    outcome.weights = to_doubles(parameters.values());
    outcome.m = to_doubles(optimizer->state()[0].second);
    return std::pair{outcome, early};
  };
  for (const Case& c : {Case{"even", {{0, 1}, {2, 3}}}, Case{"uneven", {{0, 1, 2}, {3}, {}}},
                        Case{"frozen", {{0}, {1}, {2}, {3}}, true},
                        Case{"noise scale", {{0, 1, 2}, {3}}, false, NoiseScale::estimate}}) {
    INFO(c.what);
    std::vector<std::pair<RankOutcome, int>> with(c.shares.size()), without = with;
    for (const Overlap overlap : {Overlap::off, Overlap::on})
      run_ranks(
          int(c.shares.size()),
          [&](Ranks& ranks) {
            (overlap == Overlap::on ? with : without)[size_t(ranks.rank())] =
                run(ranks, c, overlap);
          },
          Way::in_place);
    for (size_t r = 0; r < with.size(); ++r) {
      INFO("rank " << r);
      REQUIRE(with[r].first == without[0].first);
      REQUIRE(without[r].second == 0);
      // With the noise scale, a rank compares its first micro-batch before it adds it, so a rank
      // with a single micro-batch does not overlap.
      const size_t first_to_be_compared = c.noise_scale == NoiseScale::estimate ? 2 : 1;
      REQUIRE((with[r].second > 0) == (c.shares[r].size() >= first_to_be_compared));
    }
  }
}

TEST_CASE("a mean over ranks that agree changes no bit", "[ranks]") {
  bool same = true;
  run_ranks(3, [&](Ranks& ranks) {
    const Tensor x = Tensor::full({1000}, 0.1, DType::f32, Device::cpu, Category::workspace);
    const std::vector<double> before = to_doubles(x);
    ranks.mean(x.view(), 1 + ranks.rank(), scratch_of(ranks).view());
    if (ranks.rank() == 0) same = to_doubles(x) == before;
  });
  REQUIRE(same);
}

TEST_CASE("windows of several ranks take the steps of one", "[ranks]") {
  for (const DType dtype : {DType::f64, DType::f32})
    for (const Strategy strategy : {Strategy::fused, Strategy::separate})
      for (const std::optional<double> clip : {std::optional<double>{}, {0.1}}) {
        if (reduced() && clip.has_value() != (dtype == DType::f64)) continue;
        const WindowOptions options{.strategy = strategy, .clip_norm = clip, .ema_decay = 0.9};
        const RankOutcome whole = run_rank(nullptr, dtype, N, options);
        for (const int R : {1, 2, 3, 4})
          for (const int64_t m : {64, 24, 16, 5, 1}) {
            INFO(name(dtype) << ", " << R << " ranks, micro-batches of " << m);
            const RankOutcome parts = run_all(R, dtype, m, options);
            const double most = dtype == DType::f64 ? 1e-12 : bound(dtype);
            REQUIRE(largest_difference(whole.weights, parts.weights) <= most);
            REQUIRE(largest_difference(whole.average, parts.average) <= most);
            REQUIRE(largest_difference(whole.m, parts.m) <= most);
            for (size_t i = 0; i < windows; ++i) {
              const StepReport &one = whole.reports[i], &all = parts.reports[i];
              REQUIRE(all.samples == samples_of(int(i)));
              REQUIRE(all.micro_batches == (samples_of(int(i)) + m - 1) / m);
              REQUIRE(std::abs(all.loss - one.loss) <= most);
              // The norm of P elements that are each off by at most `most`.
              REQUIRE(std::abs(all.grad_norm - one.grad_norm) <=
                      most * std::sqrt(double(whole.weights.size())));
            }
          }
      }
}

// AdamA's result depends on the micro-batches, but not on which ranks have them.
TEST_CASE("ranks that fold gradients into moments equal one that folds all of them", "[ranks]") {
  for (const DType dtype : {DType::f64, DType::f32})
    for (const int64_t m : {64, 24, 16, 5}) {
      const WindowOptions options{.strategy = Strategy::moments, .ema_decay = 0.9};
      const RankOutcome one = run_rank(nullptr, dtype, m, options);
      for (const int R : {1, 2, 3, 4}) {
        INFO(name(dtype) << ", " << R << " ranks, micro-batches of " << m);
        const RankOutcome all = run_all(R, dtype, m, options);
        require_close(one, all, dtype);
      }
    }
}

TEST_CASE("ranks that step in backward, one micro-batch each, take the steps of one", "[ranks]") {
  for (const DType dtype : {DType::f64, DType::f32}) {
    const WindowOptions options{.strategy = Strategy::step_in_backward, .ema_decay = 0.9};
    const RankOutcome whole = run_rank(nullptr, dtype, N, options);
    // The last window has one or two micro-batches.
    for (const int R : {1, 2, 3, 4}) {
      INFO(name(dtype) << ", " << R << " ranks");
      const int64_t m = (N + R - 1) / R;
      const RankOutcome parts = run_all(R, dtype, m, options);
      require_close(whole, parts, dtype);
      require_same_bits_sharded(R, dtype, m, options);
      // If the loss is not finite on one rank, no rank steps.
      const RankOutcome skipped = run_all(R, dtype, m, options, 2);
      REQUIRE(skipped.reports[2].skipped);
      REQUIRE(skipped.reports.back().step == windows - 1);
    }
  }
}

TEST_CASE("ranks that own a shard each take the same steps, to the bit", "[ranks]") {
  for (const DType dtype : {DType::f64, DType::f32})
    for (const Strategy strategy : {Strategy::fused, Strategy::separate})
      for (const std::optional<double> clip : {std::optional<double>{}, {0.1}})
        for (const int R : {1, 2, 3, 4}) {
          INFO(name(dtype) << ", " << R << " ranks");
          require_same_bits_sharded(R, dtype, 16,
                                    {.strategy = strategy, .clip_norm = clip, .ema_decay = 0.9});
        }
  require_same_bits_sharded(3, DType::f32, 5, {.loss_scale = LossScale::dynamic()}, 2);
  require_same_bits_sharded(3, DType::f32, 5, {.noise_scale = NoiseScale::estimate});
}

TEST_CASE("ranks have the same bits in every run", "[ranks]") {
  const RankOutcome first = run_all(3, DType::f32, 5, {.ema_decay = 0.9});
  for (int i = 0; i < 10; ++i) REQUIRE(run_all(3, DType::f32, 5, {.ema_decay = 0.9}) == first);
}

TEST_CASE("an overflow on one rank skips the window on all", "[ranks]") {
  for (const int R : {2, 3, 4}) {
    LossScale scale = LossScale::dynamic();
    scale.interval = 3;
    const WindowOptions options{.loss_scale = scale};
    const RankOutcome one = run_rank(nullptr, DType::f64, 16, options, 2);
    const RankOutcome all = run_all(R, DType::f64, 16, options, 2);
    for (size_t i = 0; i < windows; ++i) {
      INFO(R << " ranks, window " << i);
      REQUIRE(all.reports[i].skipped == (i == 2));
      REQUIRE(all.reports[i].overflow == one.reports[i].overflow);
      REQUIRE(all.reports[i].loss_scale == one.reports[i].loss_scale);
      REQUIRE(all.reports[i].step == one.reports[i].step);
    }
    REQUIRE(largest_difference(one.weights, all.weights) <= 1e-12);
  }
}

TEST_CASE("a micro-batch that is dropped on one rank is left out on all", "[ranks]") {
  const WindowOptions options{.strategy = Strategy::separate,
                              .on_overflow = OnOverflow::drop_micro_batch};
  const RankOutcome one = run_rank(nullptr, DType::f64, 16, options, 2);
  REQUIRE(one.reports[2].dropped_samples == 16);
  for (const int R : {2, 3, 4}) {
    const RankOutcome all = run_all(R, DType::f64, 16, options, 2);
    REQUIRE(all.reports[2].dropped_samples == 16);
    REQUIRE(all.reports[2].samples == 48);
    REQUIRE(largest_difference(one.weights, all.weights) <= 1e-12);
  }
}

TEST_CASE("ranks estimate the noise scale by the first micro-batch, as one does", "[ranks]") {
  const WindowOptions options{.noise_scale = NoiseScale::estimate};
  const RankOutcome one = run_rank(nullptr, DType::f64, 16, options);
  for (const int R : {2, 3}) {
    const RankOutcome all = run_all(R, DType::f64, 16, options);
    const double a = one.reports.back().noise_scale, b = all.reports.back().noise_scale;
    REQUIRE(std::isnan(a) == std::isnan(b));
    if (!std::isnan(a)) REQUIRE(b == Approx(a).epsilon(1e-9));
  }
}

// From the second window on, only rank 1's micro-batches reach one branch of the model. On rank 0
// the branch's gradient is an earlier window's, and its moments are the last window's.
TEST_CASE("a parameter that one rank reaches is stepped on all by that rank's gradient",
          "[ranks]") {
  const auto run = [](Ranks* ranks, Strategy strategy, bool decoupled) {
    Sequential model;
    model.add<Linear>(3, 2);
    model.add<Linear>(3, 2);
    Parameters parameters = place(model, DType::f64, Device::cpu, 5, gradient_storage(strategy));
    const AdamOptions options{.eps = 1e-3, .weight_decay = 0.1};
    const auto optimizer = decoupled ? adamw(parameters, options) : adam(parameters, options);
    Window window(*optimizer, ScheduleOptions{.base = 0.1},
                  {.effective_batch_size = 4, .strategy = strategy, .ranks = ranks});
    const Batch batch = test::random_batch({4, 3}, 2, 9);
    for (int w = 0; w < 3; ++w)
      for (int half = 0; half < 2; ++half) {
        // In the first window both micro-batches reach both branches.
        const bool mine = !ranks || ranks->rank() == half;
        const Tensor x = batch.x.slice(2 * half, 2 * half + 2);
        const Tensor labels = batch.labels.slice(2 * half, 2 * half + 2);
        if (mine && w == 0) {
          const Tensor y =
              add(linear(x, parameters.entries()[0].tensor, parameters.entries()[1].tensor),
                  linear(x, parameters.entries()[2].tensor, parameters.entries()[3].tensor));
          window.backward(cross_entropy(y, labels), 2);
        } else if (mine) {
          const size_t reached = half == 0 ? 0 : 2;
          window.backward(cross_entropy(linear(x, parameters.entries()[reached].tensor,
                                               parameters.entries()[reached + 1].tensor),
                                        labels),
                          2);
        }
        if (half == 1) window.step();
      }
    return to_doubles(parameters.values());
  };
  for (const Strategy strategy : {Strategy::fused, Strategy::separate, Strategy::moments})
    for (const bool decoupled : {false, true}) {
      const std::vector<double> one = run(nullptr, strategy, decoupled);
      std::vector<std::vector<double>> all(2);
      run_ranks(
          2, [&](Ranks& ranks) { all[size_t(ranks.rank())] = run(&ranks, strategy, decoupled); });
      REQUIRE(all[0] == all[1]);
      // AdamA squares the first gradient together with the weight decay's share. Here the first
      // rank's gradient comes first, which is 0.
      if (strategy != Strategy::moments || decoupled)
        REQUIRE(largest_difference(one, all[0]) <= 1e-12);
    }
  // Each rank would step by a gradient that the other one does not complete.
  REQUIRE_ERROR(run_ranks(2, [&](Ranks& ranks) { run(&ranks, Strategy::step_in_backward, true); }),
                "complete different ones");
}

// Rank 0 has two of three micro-batches and rank 1 has one, so rank 1's statistics count a third.
TEST_CASE("running statistics are the ranks' mean, weighted by their samples", "[ranks]") {
  const auto run = [](Ranks* ranks, const std::vector<int>& own) {
    Sequential model;
    model.add<BatchNorm>(3);
    model.add<Linear>(3, 2);
    Parameters parameters = place(model, DType::f64, Device::cpu, 5);
    const auto optimizer = sgd(parameters, {});
    Window window(*optimizer, ScheduleOptions{.base = 0.1},
                  {.effective_batch_size = 12, .ranks = ranks});
    const Batch batch = test::random_batch({12, 3}, 2, 9);
    for (const int i : own) {
      const Pass pass{.mode = Pass::Mode::train};
      window.backward(cross_entropy(model(batch.x.slice(4 * i, 4 * i + 4), pass),
                                    batch.labels.slice(4 * i, 4 * i + 4)),
                      4);
    }
    window.step();
    return to_doubles(parameters.buffers());
  };
  const std::vector<std::vector<int>> shares{{0, 1}, {2}, {}};
  std::vector<std::vector<double>> all(3);
  run_ranks(3, [&](Ranks& ranks) {
    const auto r = size_t(ranks.rank());
    all[r] = run(&ranks, shares[r]);
  });
  const std::vector<double> first = run(nullptr, shares[0]), second = run(nullptr, shares[1]);
  REQUIRE(all[0] == all[1]);
  REQUIRE(all[0] == all[2]);
  for (size_t i = 0; i < first.size(); ++i)
    REQUIRE(all[0][i] == Approx((2 * first[i] + second[i]) / 3).epsilon(1e-14));
}

TEST_CASE("what several ranks cannot do is refused", "[ranks]") {
  Meeting meeting(2);
  ThreadRank ranks(meeting, 0);
  Learner learner(DType::f32);
  // A third of the parameters, although there are two ranks.
  const auto third =
      adam(learner.parameters, {}, Shards{learner.parameters.values().numel(), 3}.of(0));
  REQUIRE_ERROR(Window(*third, ScheduleOptions{}, {.effective_batch_size = N, .ranks = &ranks}),
                "expected all, or this rank's shard");
  REQUIRE_ERROR(
      Learner(DType::f32,
              {.effective_batch_size = N, .strategy = Strategy::moments, .ranks = &ranks}, true),
      "expected one that owns all");
  REQUIRE_ERROR(run_ranks(2,
                          [](Ranks& both) {
                            Learner empty(DType::f32, {.effective_batch_size = N, .ranks = &both});
                            empty.window.step();
                          }),
                "without micro-batches");
  REQUIRE_ERROR(
      check_options(WindowOptions{.strategy = Strategy::separate, .overlap = Overlap::on}),
      "only strategy fused");
  REQUIRE_ERROR(check_options(WindowOptions{.strategy = Strategy::bf16_sum, .ranks = &ranks}),
                "a sum that ranks cannot exchange");
  // A window that is announced to ranks: other ranks may have received its gradients.
  const auto announced = [](const std::function<void(Learner&, const Batch&)>& then) {
    run_ranks(
        2,
        [&](Ranks& both) {
          Learner learner(DType::f32,
                          {.effective_batch_size = N, .ranks = &both, .overlap = Overlap::on});
          const Batch batch = random_batch(N, DType::f32, 1);
          learner.window.expect_last();
          learner.window.backward(learner.loss(batch, 0, 8), 8);
          then(learner, batch);
        },
        Way::in_place);
  };
  REQUIRE_ERROR(announced([](Learner& learner, const Batch&) { learner.window.abandon(); }),
                "leave out expect_last()");
  REQUIRE_ERROR(announced([](Learner& learner, const Batch& batch) {
                  learner.window.backward(learner.loss(batch, 8, 16), 8);
                }),
                "the one that expect_last() announced");
}

}  // namespace accrue::test
