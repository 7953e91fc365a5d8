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

}  // namespace detail

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

  // True if exchange() moves what lies in the memory of this device, cpu or cuda; the same on all
  // ranks. If not, x passes through the host.
  virtual bool reaches(Device device) const { return device == Device::cpu; }

  // The size of the scratch for the functions below, u8, that lies on `place`, if no x has more
  // than `bytes`. A larger x goes through it in pieces, in messages of at least 16 KiB: for less, a
  // network takes as long. On a GPU each piece costs two groups of NCCL's and a kernel, some 30 us
  // in which NVLink moves 10 MB: there it is as large as x, up to 32 MiB.
  size_t scratch_bytes(Device place, size_t bytes) const;
  // Where the scratch for an x on `device` must lie: there if the ranks reach it, else on the host;
  // on a meta device, where it would be charged.
  Device scratch_device(Device device) const;

  // x[i] = sum_r x_r[i], added in float64 by ascending rank and rounded once. f32 or f64.
  void sum(detail::View x, detail::View scratch);
  // The same bits in this rank's shard of x; its other elements stay as they are.
  void sum_own_shard(detail::View x, detail::View scratch);
  // Overwrites every shard of x with that of the rank whose it is. f32 or f64.
  void share_shards(detail::View x, detail::View scratch);
  // x[i] = x_0[i] + sum_r weight_r / W * (x_r[i] - x_0[i]), W the sum of the weights. Where the
  // ranks agree, this is exactly their value. A rank of weight 0 has no influence. f32 or f64.
  void mean(detail::View x, double weight, detail::View scratch);
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
  // Begins to exchange blocks: received[s] = sent_s[r] on rank r, of any sizes, also none, in the
  // memory of the host or of a device that the ranks reach. Until that is done, blocks that are
  // sent must not change, and those that are received must not be used. They overlap no others, but
  // a rank's own may be received where it is. On cuda this is enqueued on the stream.
  using Block = std::span<std::byte>;
  virtual void begin_exchange(Device device, std::span<const Block> received,
                              std::span<const Block> sent) = 0;
  // True if all exchanges that were begun are done (on cuda: enqueued). They may make no progress
  // but in this call.
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
  // For what is exchanged while the stream does something else; made when first asked for.
  cuda::SideStream& side_stream();
  friend class detail::GradualSum;

  std::unique_ptr<cuda::SideStream> side_stream_;
};

namespace detail {

// Ranks::sum() of a flat tensor that becomes complete from its end to its beginning, as gradients
// do in backward: what is complete is exchanged meanwhile, on cuda beside the stream. The sums are
// the same bits. On a device that the ranks reach.
class GradualSum {
 public:
  // Sums the elements in these ascending ranges, which are the same on all ranks.
  GradualSum(Ranks& ranks, View x, std::vector<Parameters::Range> ranges, View scratch);

  // Says that this rank's elements from `begin` on are complete. Goes on with what is under way and
  // begins with what can be begun; does not wait.
  void complete_from(int64_t begin);
  // Says that all are, and waits for the sums.
  void finish();

 private:
  void go_on(Ranks::Wait wait);
  void advance(Ranks::Wait wait);
  bool takes_next_piece();
  void begin_to_add();
  void add_and_share();

  Ranks& ranks_;
  const View x_, scratch_;
  std::vector<Parameters::Range> ranges_;  // not begun
  const int64_t most_;                     // elements of a piece
  int64_t complete_from_;
  // The one under way, of which each rank adds up a shard.
  std::optional<Parameters::Range> piece_;
};

}  // namespace detail

}  // namespace accrue
