#include "optim/ranks.h"

#include <algorithm>

#include "core/ceil_div.h"
#include "core/error.h"
#include "kernels/parallel.h"

namespace accrue {

// Of a piece of x, rank r gets the r-th block from everyone, combines the blocks and sends the
// result to everyone: each element crosses the network twice, whatever the number of ranks.
// add(values, R, stride): one element of all ranks into one.
template <class T, class Add>
void Ranks::combine(View x, View scratch, Add add) {
  const int64_t R = count();
  const int64_t room = int64_t(scratch_bytes) / 2 / int64_t(sizeof(T));
  const int64_t most = room / R / 16 * 16;  // elements of a block, on a cache line
  check(most > 0, "{} ranks: expected at most {}", R, room / 16);
  T *const mine = reinterpret_cast<T*>(scratch.as<uint8_t>()), *const theirs = mine + room;
  for (int64_t begin = 0; begin < x.numel(); begin += R * most) {
    const int64_t n = std::min(R * most, x.numel() - begin);
    const int64_t block = ceil_div(n, R);
    T* const piece = x.as<T>() + begin;
    std::copy_n(piece, n, mine);
    std::fill(mine + n, mine + R * block, T(0));
    exchange(theirs, mine, static_cast<size_t>(block) * sizeof(T));
    parallel_for(block, R, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) theirs[i] = static_cast<T>(add(theirs + i, block));
    });
    gather(mine, theirs, static_cast<size_t>(block) * sizeof(T));
    std::copy_n(mine, n, piece);
  }
}

void Ranks::sum(View x, View scratch) {
  dispatch_wide(x.dtype, [&]<class T>() {
    combine<T>(x, scratch, [R = count()](const T* values, int64_t stride) {
      double sum = double(values[0]);
      for (int r = 1; r < R; ++r) sum += double(values[r * stride]);
      return sum;
    });
  });
}

void Ranks::mean(View x, double weight, View scratch) {
  std::vector<double> weights = all_of(weight);
  double total = 0;
  for (const double w : weights) total += w;
  for (double& w : weights) w = total > 0 ? w / total : 0;
  dispatch_wide(x.dtype, [&]<class T>() {
    combine<T>(x, scratch, [&weights](const T* values, int64_t stride) {
      const double first = double(values[0]);
      double mean = first;
      for (size_t r = 1; r < weights.size(); ++r)
        if (weights[r] > 0) mean += weights[r] * (double(values[int64_t(r) * stride]) - first);
      return mean;
    });
  });
}

// By gather(), which sends each rank's bytes: for what is done once a run.
void Ranks::copy_from_first(void* data, size_t bytes) {
  constexpr size_t most = size_t{1} << 16;
  std::vector<std::byte> all(std::min(bytes, most) * static_cast<size_t>(count()));
  auto* const own = static_cast<std::byte*>(data);
  for (size_t begin = 0; begin < bytes; begin += most) {
    const size_t n = std::min(most, bytes - begin);
    gather(all.data(), own + begin, n);
    std::copy_n(all.begin(), n, own + begin);
  }
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
