#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "core/parameters.h"

namespace accrue {

// The shares in which ranks hold a flat tensor: one range after another, each of the same whole
// number of cache lines, except that the last ones may be short or empty.
struct Shards {
  int64_t elements;  // of the tensor
  int count;         // of the ranks

  int64_t size() const;
  Parameters::Range of(int rank) const;
  // At most n elements of a shard, from its `first` on.
  Parameters::Range part_of(int rank, int64_t first, int64_t n) const;
};

// Processes, numbered from 0, that share the micro-batches of every window. To a window, a rank is
// nothing but more micro-batches. An implementation moves bytes between them; this class decides
// what is added and in which order, so that all ranks have the same bits, and the same in every
// run, whichever way the bytes take.
//
// Call every function here on all ranks, in the same order; each call waits for the others.
class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual int rank() const = 0;
  virtual int count() const = 0;

  // True if exchange_blocks() moves what lies in the memory of this device, cpu or cuda; the same
  // on all ranks. If not, x passes through the host.
  virtual bool reaches(Device) const { return false; }

  // The size of the scratch for the functions below, u8. A larger x goes through it in pieces, in
  // messages of at least 16 KiB: for less, a network takes as long.
  size_t scratch_bytes() const {
    return std::max(size_t{1} << 20, static_cast<size_t>(count()) << 15);
  }
  // Where the scratch for an x on `device` must lie: there if the ranks reach it, else on the host;
  // on a meta device, where it would be charged.
  Device scratch_device(Device device) const;

  // x[i] = sum_r x_r[i], added in float64 by ascending rank and rounded once. f32 or f64.
  void sum(View x, View scratch);
  // The same bits in this rank's shard of x; its other elements stay as they are.
  void sum_own_shard(View x, View scratch);
  // Overwrites every shard of x with that of the rank whose it is. f32 or f64.
  void share_shards(View x, View scratch);
  // x[i] = x_0[i] + sum_r weight_r / W * (x_r[i] - x_0[i]), W the sum of the weights. Where the
  // ranks agree, this is exactly their value. A rank of weight 0 has no influence. f32 or f64.
  void mean(View x, double weight, View scratch);
  // Each rank's `own`, in their order.
  template <class T>
  std::vector<T> all_of(const T& own) {
    std::vector<T> all(static_cast<size_t>(count()));
    gather(all.data(), &own, sizeof(T));
    return all;
  }
  // True if `own` is true on any rank.
  bool any(bool own);
  // x[i] = sum_r x_r[i], added by ascending rank: for a few numbers.
  void add_up(std::span<double> x);

  // all[r] = own_r, `bytes` of each.
  virtual void gather(void* all, const void* own, size_t bytes) = 0;
  // Overwrites x, on any device, with that of rank `from`.
  void broadcast(const Tensor& x, int from);
  // Overwrites the `bytes` bytes at `data` with those of rank `from`.
  virtual void broadcast(void* data, size_t bytes, int from) = 0;

 protected:
  // received[s] = sent_s[r] on rank r, `bytes` of each.
  virtual void exchange(void* received, const void* sent, size_t bytes) = 0;
  // received[s] = sent_s[r] on rank r, blocks of any sizes, also none, in the memory of a device
  // that the ranks reach. On cuda this is enqueued on the stream. Blocks that are received overlap
  // no others, but a rank's own may be received where it is.
  using Block = std::span<std::byte>;
  virtual void exchange_blocks(Device device, std::span<const Block> received,
                               std::span<const Block> sent);

 private:
  enum class To { owner, everyone };
  void combine(View x, View scratch, To to, std::span<const double> weights);
  template <class T>
  void combine_on_host(View x, View scratch, To to, View weights);
  void combine_in_place(View x, View scratch, View weights);
  void share_in_place(View x);
};

}  // namespace accrue
