#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/cuda.h"
#include "core/parameters.h"

namespace accrue {

namespace detail {
class GradualSum;
}  // namespace detail

namespace detail {

// The shards of a flat tensor, one for each rank: consecutive ranges of the same whole number of
// cache lines, except that the last ones may be short or empty.
struct Shards {
  int64_t elements;  // of the tensor
  int count;         // of the ranks

  int64_t size() const;
  Parameters::Range of(int rank) const;
  // At most n elements of a rank's shard, from offset `first` in the shard on.
  Parameters::Range part_of(int rank, int64_t first, int64_t n) const;
};

}  // namespace detail

// Processes, numbered from 0, that share the micro-batches of every window. To a window, other
// ranks just mean more micro-batches. A subclass moves bytes between ranks. This class decides the
// numbers to add and their order, so that all ranks get the same bits, in every run and for every
// transport.
//
// Call every function here on all ranks, in the same order; each call waits for the others.
class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual int rank() const = 0;
  virtual int count() const = 0;

  // True if exchange() can move memory of this device, cpu or cuda; the same on all ranks. If not,
  // x is copied through the host.
  virtual bool reaches(Device device) const { return device == Device::cpu; }

  // The bytes of scratch, u8, that the functions below need on `place` if no x has more than
  // `bytes`. A larger x goes through the scratch in pieces. Messages are at least 16 KiB, because
  // smaller ones take a network as long. On a GPU each piece costs two NCCL groups and a kernel:
  // some 30 us, in which NVLink moves 10 MB. There the scratch is as large as x, up to 32 MiB.
  size_t scratch_bytes(Device place, size_t bytes) const;
  // Where the scratch for an x on `device` must lie: on that device if the ranks reach it, else on
  // the host; for a meta device, on meta, where its bytes are charged.
  Device scratch_device(Device device) const;

  // x[i] = sum_r x_r[i], added in float64 in order of rank and rounded once. f32 or f64.
  void sum(detail::View x, detail::View scratch);
  // The same bits, but only in this rank's shard of x; its other elements stay unchanged.
  void sum_own_shard(detail::View x, detail::View scratch);
  // Overwrites each shard of x with the values of the rank that owns the shard. f32 or f64.
  void share_shards(detail::View x, detail::View scratch);
  // x[i] = x_0[i] + sum_r weight_r / W * (x_r[i] - x_0[i]), W the sum of the weights. Elements that
  // are equal on all ranks keep exactly their value. A rank of weight 0 has no influence. f32 or
  // f64.
  void mean(detail::View x, double weight, detail::View scratch);
  // Each rank's `own`, in order of rank.
  template <class T>
  std::vector<T> all_of(const T& own) {
    std::vector<T> all(static_cast<size_t>(count()));
    gather(all.data(), &own, sizeof(T));
    return all;
  }
  // True if `own` is true on any rank.
  bool any(bool own);
  // x[i] = sum_r x_r[i], added in order of rank. For a few numbers.
  void add_up(std::span<double> x);

  // all[r] = own_r, each of `bytes` bytes.
  virtual void gather(void* all, const void* own, size_t bytes) = 0;
  // Overwrites x, on any device, with x of rank `from`.
  void broadcast(const Tensor& x, int from);
  // Overwrites the `bytes` bytes at `data` with the same bytes of rank `from`.
  virtual void broadcast(void* data, size_t bytes, int from) = 0;

 protected:
  // Begins to exchange blocks: received[s] = sent_s[r] on rank r. Blocks have any size, also 0, and
  // lie in the memory of the host or of a device that the ranks reach. Until the exchange is done,
  // do not change sent blocks or use received ones. Blocks do not overlap, except that a rank may
  // receive its own block in place. On cuda the exchange is enqueued on the stream.
  using Block = std::span<std::byte>;
  virtual void begin_exchange(Device device, std::span<const Block> received,
                              std::span<const Block> sent) = 0;
  // True if all exchanges begun so far are done (on cuda: enqueued). An exchange need not progress
  // outside this call.
  enum class Wait { no, yes };
  virtual bool exchanged(Wait wait) = 0;

 private:
  enum class To { owner, everyone };
  void combine(detail::View x, detail::View scratch, To to, std::span<const double> weights);
  template <class T>
  void combine_on_host(detail::View x, detail::View scratch, To to, detail::View weights);
  void combine_in_place(detail::View x, detail::View scratch, detail::View weights);
  void share_in_place(detail::View x);
  void exchange(Device device, std::span<const Block> received, std::span<const Block> sent) {
    begin_exchange(device, received, sent);
    exchanged(Wait::yes);
  }
  // For exchanges that run beside the stream's other work; made on first use.
  cuda::SideStream& side_stream();
  friend class detail::GradualSum;

  std::unique_ptr<cuda::SideStream> side_stream_;
};

namespace detail {

// Ranks::sum() for a flat tensor that becomes complete from its end to its beginning, as gradients
// do in backward. Exchanges the completed part meanwhile, on cuda beside the stream. Gives the same
// bits. Needs a device that the ranks reach.
class GradualSum {
 public:
  // Sums the elements in these ranges, which ascend and are the same on all ranks.
  GradualSum(Ranks& ranks, View x, std::vector<Parameters::Range> ranges, View scratch);

  // Says that this rank's elements from `begin` on are complete. Advances pending exchanges and
  // begins new ones where possible; does not wait.
  void complete_from(int64_t begin);
  // Says that all elements are complete, and waits for the sums.
  void finish();

 private:
  void go_on(Ranks::Wait wait);
  void advance(Ranks::Wait wait);
  bool takes_next_piece();
  void begin_to_add();
  void add_and_share();

  Ranks& ranks_;
  const View x_, scratch_;
  std::vector<Parameters::Range> ranges_;  // not yet begun
  const int64_t most_;                     // elements of a piece
  int64_t complete_from_;
  // The piece in progress; each rank adds up a shard of it.
  std::optional<Parameters::Range> piece_;
};

}  // namespace detail

}  // namespace accrue
