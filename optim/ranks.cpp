#include "optim/ranks.h"

#include <algorithm>

#include "core/ceil_div.h"
#include "core/cuda.h"
#include "core/error.h"
#include "kernels/parallel.h"

namespace accrue {

int64_t Shards::size() const { return round_up(ceil_div(elements, int64_t(count)), int64_t(16)); }

Parameters::Range Shards::of(int rank) const {
  return {std::min(rank * size(), elements), std::min((rank + 1) * size(), elements)};
}

namespace {

// Copy n values to the host, or from it.
template <class T>
void copy_to_host(Device device, T* to, const T* from, int64_t n) {
  const auto bytes = static_cast<size_t>(n) * sizeof(T);
  if (device != Device::cuda) std::copy_n(from, n, to);
  else if (n > 0) cuda::copy_to_host(to, from, bytes);
}
template <class T>
void copy_from_host(Device device, T* to, const T* from, int64_t n) {
  const auto bytes = static_cast<size_t>(n) * sizeof(T);
  if (device != Device::cuda) std::copy_n(from, n, to);
  else if (n > 0) cuda::copy_to_device(to, from, bytes);
}

// x, of which each rank has a shard, as blocks of all shards that fit into half of the scratch: the
// n elements from `first` on of every shard, one rank's after another.
template <class T>
class Blocks {
 public:
  Blocks(View x, View scratch, int count)
      : x_(x.as<T>()), device_(x.device), shards_{x.numel(), count} {
    const int64_t room = scratch.numel() / 2 / int64_t(sizeof(T));
    most_ = room / count / 16 * 16;
    mine = reinterpret_cast<T*>(scratch.as<uint8_t>());
    theirs = mine + room;
  }

  // The halves of the scratch.
  T *mine, *theirs;

  // Calls use(n) for block after block.
  template <class Use>
  void for_each(Use&& use) {
    for (first_ = 0; first_ < shards_.size(); first_ += most_)
      use(std::min(most_, shards_.size() - first_));
  }
  // This block of x to the n elements at `to`, with zeros after the end of the shard, and back.
  void copy_to(T* to, int64_t n, int rank) const {
    const auto [begin, end] = range(n, rank);
    copy_to_host(device_, to, x_ + begin, end - begin);
    std::fill(to + (end - begin), to + n, T(0));
  }
  void copy_from(const T* from, int64_t n, int rank) const {
    const auto [begin, end] = range(n, rank);
    copy_from_host(device_, x_ + begin, from, end - begin);
  }
  void all_from(const T* from, int64_t n) const {
    for (int r = 0; r < shards_.count; ++r) copy_from(from + r * n, n, r);
  }

 private:
  Parameters::Range range(int64_t n, int rank) const {
    const auto [begin, end] = shards_.of(rank);
    return {std::min(begin + first_, end), std::min(begin + first_ + n, end)};
  }

  T* const x_;
  const Device device_;
  const Shards shards_;
  int64_t most_ = 0, first_ = 0;
};

}  // namespace

// Each rank gets everyone's blocks of its shard, combines them and, if they are for everyone, sends
// them the result: each element crosses the network twice, whatever the number of ranks.
// add(values, stride): one element of all ranks into one.
template <class T, class Add>
void Ranks::combine(View x, View scratch, To to, Add add) {
  const int R = count();
  Blocks<T> blocks(x, scratch, R);
  blocks.for_each([&](int64_t n) {
    T *const mine = blocks.mine, *const theirs = blocks.theirs;
    for (int r = 0; r < R; ++r) blocks.copy_to(mine + r * n, n, r);
    const auto bytes = static_cast<size_t>(n) * sizeof(T);
    exchange(theirs, mine, bytes);
    parallel_for(n, R, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) theirs[i] = static_cast<T>(add(theirs + i, n));
    });
    if (to == To::owner) return blocks.copy_from(theirs, n, rank());
    gather(mine, theirs, bytes);
    blocks.all_from(mine, n);
  });
}

void Ranks::share_shards(View x, View scratch) {
  dispatch_wide(x.dtype, [&]<class T>() {
    Blocks<T> blocks(x, scratch, count());
    blocks.for_each([&](int64_t n) {
      blocks.copy_to(blocks.theirs, n, rank());
      gather(blocks.mine, blocks.theirs, static_cast<size_t>(n) * sizeof(T));
      blocks.all_from(blocks.mine, n);
    });
  });
}

void Ranks::sum(View x, View scratch, To to) {
  dispatch_wide(x.dtype, [&]<class T>() {
    combine<T>(x, scratch, to, [R = count()](const T* values, int64_t stride) {
      double sum = double(values[0]);
      for (int r = 1; r < R; ++r) sum += double(values[r * stride]);
      return sum;
    });
  });
}
void Ranks::sum(View x, View scratch) { sum(x, scratch, To::everyone); }
void Ranks::sum_own_shard(View x, View scratch) { sum(x, scratch, To::owner); }

void Ranks::mean(View x, double weight, View scratch) {
  std::vector<double> weights = all_of(weight);
  double total = 0;
  for (const double w : weights) total += w;
  for (double& w : weights) w = total > 0 ? w / total : 0;
  dispatch_wide(x.dtype, [&]<class T>() {
    combine<T>(x, scratch, To::everyone, [&weights](const T* values, int64_t stride) {
      const double first = double(values[0]);
      double mean = first;
      for (size_t r = 1; r < weights.size(); ++r)
        if (weights[r] > 0) mean += weights[r] * (double(values[int64_t(r) * stride]) - first);
      return mean;
    });
  });
}

void Ranks::broadcast(const Tensor& x, int from) {
  const Tensor here = x.device() == Device::cuda ? x.to(Device::cpu, Category::workspace) : x;
  broadcast(here.view().data, here.bytes(), from);
  if (x.device() == Device::cuda) x.copy_from(here);
}

bool Ranks::any(bool own) {
  return std::ranges::any_of(all_of(char(own)), [](char said) { return said != 0; });
}

void Ranks::add_up(std::span<double> x) {
  std::vector<double> all(x.size() * static_cast<size_t>(count()));
  gather(all.data(), x.data(), x.size_bytes());
  std::ranges::fill(x, 0);
  for (size_t i = 0; i < all.size(); ++i) x[i % x.size()] += all[i];
}

}  // namespace accrue
