#include "accumulate/ranks.h"

#include <algorithm>

#include "core/ceil_div.h"
#include "core/cuda.h"
#include "core/error.h"
#include "kernels/step/combine_ranks.h"

namespace accrue {

int64_t Shards::size() const { return round_up(ceil_div(elements, int64_t(count)), int64_t(16)); }

Parameters::Range Shards::of(int rank) const { return part_of(rank, 0, size()); }

Parameters::Range Shards::part_of(int rank, int64_t first, int64_t n) const {
  const int64_t shard_end = std::min((rank + 1) * size(), elements);
  const int64_t begin = std::min(rank * size() + first, shard_end);
  return {begin, std::min(begin + n, shard_end)};
}

Device Ranks::scratch_device(Device device) const {
  if (reaches(plans_for_cuda(device) ? Device::cuda : Device::cpu)) return device;
  return is_meta(device) ? Device::meta : Device::cpu;
}

namespace {

size_t scratch_on_host(int count) {
  return std::max(size_t{1} << 20, static_cast<size_t>(count) << 15);
}

}  // namespace

size_t Ranks::scratch_bytes(Device place, size_t bytes) const {
  const size_t least = scratch_on_host(count()), most = std::max(least, size_t{32} << 20);
  return plans_for_cuda(place) ? std::clamp(bytes, least, most) : least;
}

namespace {

// copy_to_host() and copy_from_host() copy n values.
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

// Goes through x in blocks. A block has some elements of every rank's shard, one rank's after
// another, as many as fit into half of the scratch.
template <class T>
class Blocks {
 public:
  Blocks(View x, View scratch, int count)
      : x_(x.as<T>()), device_(x.device), shards_{x.numel(), count} {
    const int64_t room = scratch.numel() / 2 / int64_t(sizeof(T));
    most_ = room / count / 16 * 16;
    mine = reinterpret_cast<T*>(scratch.as<uint8_t>());
    theirs = mine + room;
    n = std::min(most_, shards_.size());
  }

  // The halves of the scratch.
  T *mine, *theirs;

  // The number of elements that this block has of each shard; 0 after the last block.
  int64_t n;

  void next() {
    first_ += most_;
    n = std::clamp(shards_.size() - first_, int64_t(0), most_);
  }
  // Copies a rank's part of this block from x to the n elements at `to`, with zeros after the end
  // of the shard; copy_from() copies back.
  void copy_to(T* to, int rank) const {
    const auto [begin, end] = shards_.part_of(rank, first_, n);
    copy_to_host(device_, to, x_ + begin, end - begin);
    std::fill(to + (end - begin), to + n, T(0));
  }
  void copy_from(const T* from, int rank) const {
    const auto [begin, end] = shards_.part_of(rank, first_, n);
    copy_from_host(device_, x_ + begin, from, end - begin);
  }
  void all_from(const T* from) const {
    for (int r = 0; r < shards_.count; ++r) copy_from(from + r * n, r);
  }

 private:
  T* const x_;
  const Device device_;
  const Shards shards_;
  int64_t most_ = 0, first_ = 0;
};

View part(const View& x, Parameters::Range range) { return x.part(range.begin, range.end); }
std::span<std::byte> bytes_in(const View& x) {
  return {static_cast<std::byte*>(x.data), static_cast<size_t>(x.numel()) * size_of(x.dtype)};
}

// The rows of x [R, n].
std::vector<std::span<std::byte>> rows_of(const View& x) {
  const int64_t R = x.shape[0], n = x.numel() / R;
  std::vector<std::span<std::byte>> rows;
  for (int64_t r = 0; r < R; ++r) rows.push_back(bytes_in(part(x, {r * n, (r + 1) * n})));
  return rows;
}

// At most n elements of each shard of x, from offset `first` in the shard on.
std::vector<std::span<std::byte>> parts_of_shards(const View& x, const Shards& shards,
                                                  int64_t first, int64_t n) {
  std::vector<std::span<std::byte>> parts;
  for (int r = 0; r < shards.count; ++r)
    parts.push_back(bytes_in(part(x, shards.part_of(r, first, n))));
  return parts;
}
std::vector<std::span<std::byte>> shards_of(const View& x, const Shards& shards) {
  return parts_of_shards(x, shards, 0, shards.size());
}

// y = the combination of the rows of x [R, n], one row from each rank: the mean with these weights,
// or without weights the sum.
void combine_rows(const View& y, const View& x, const View& weights) {
  if (weights.data) mean_ranks(y, x, weights);
  else sum_ranks(y, x);
}

}  // namespace

// Each rank receives all ranks' blocks of its shard and combines them. If the result is for
// everyone, it sends the result to all. So each element crosses the network twice, whatever the
// number of ranks.
template <class T>
void Ranks::combine_on_host(View x, View scratch, To to, View weights) {
  const int R = count();
  for (Blocks<T> blocks(x, scratch, R); blocks.n > 0; blocks.next()) {
    const int64_t n = blocks.n;
    T *const mine = blocks.mine, *const theirs = blocks.theirs;
    for (int r = 0; r < R; ++r) blocks.copy_to(mine + r * n, r);
    exchange(Device::cpu, rows_of({theirs, {R, n}, x.dtype}), rows_of({mine, {R, n}, x.dtype}));
    combine_rows({theirs, {n}, x.dtype}, {theirs, {R, n}, x.dtype}, weights);
    if (to == To::owner) {
      blocks.copy_from(theirs, rank());
    } else {
      gather(mine, theirs, static_cast<size_t>(n) * sizeof(T));
      blocks.all_from(mine);
    }
  }
}

// Does the same without copying blocks. They go from each rank's x to the scratch of the rank that
// owns the shard, which combines them into its x.
void Ranks::combine_in_place(View x, View scratch, View weights) {
  const int R = count();
  const Shards shards{x.numel(), R};
  const int64_t most = scratch.numel() / int64_t(size_of(x.dtype)) / R / 16 * 16;
  for (int64_t first = 0; first < shards.size(); first += most) {
    const View own = part(x, shards.part_of(rank(), first, most));
    const View rows{scratch.data, {R, own.numel()}, x.dtype, x.device};
    exchange(x.device, rows_of(rows), parts_of_shards(x, shards, first, most));
    combine_rows(own, rows, weights);
  }
}

// On the host, messages are sent eagerly, not when the receiver asks for them (apps/cli/mpi.cpp).
// There are so few of them that MPI buffers at most a scratch's worth for a receiver that is late.
void Ranks::share_in_place(View x) {
  const Shards shards{x.numel(), count()};
  const int64_t at_once = int64_t(scratch_on_host(count()) / size_of(x.dtype)) / count() / 16 * 16;
  const int64_t most = x.device == Device::cpu ? at_once : shards.size();
  for (int64_t first = 0; first < shards.size(); first += most) {
    const auto all = parts_of_shards(x, shards, first, most);
    exchange(x.device, all, std::vector(all.size(), all[size_t(rank())]));
  }
}

void Ranks::combine(View x, View scratch, To to, std::span<const double> weights) {
  check(scratch.device == scratch_device(x.device),
        "the scratch of ranks is on {}, but {} is exchanged through {}", name(scratch.device),
        name(x.device), name(scratch_device(x.device)));
  const View on_host{const_cast<double*>(weights.data()), {count()}, DType::f64};
  if (!reaches(x.device)) {
    dispatch_wide(x.dtype, [&]<class T>() { combine_on_host<T>(x, scratch, to, on_host); });
    return;
  }
  if (weights.empty()) {
    combine_in_place(x, scratch, {});
  } else {  // at the scratch's end
    const auto bytes = round_up(int64_t(weights.size_bytes()), int64_t(64));
    const int64_t rest = scratch.numel() - bytes;
    const View there{part(scratch, {rest, scratch.numel()}).data, {count()}, DType::f64, x.device};
    copy_from_host(x.device, there.as<double>(), weights.data(), count());
    combine_in_place(x, part(scratch, {0, rest}), there);
  }
  if (to == To::everyone) share_in_place(x);
}

void Ranks::share_shards(View x, View scratch) {
  if (reaches(x.device)) return share_in_place(x);
  dispatch_wide(x.dtype, [&]<class T>() {
    for (Blocks<T> blocks(x, scratch, count()); blocks.n > 0; blocks.next()) {
      blocks.copy_to(blocks.theirs, rank());
      gather(blocks.mine, blocks.theirs, static_cast<size_t>(blocks.n) * sizeof(T));
      blocks.all_from(blocks.mine);
    }
  });
}

void Ranks::sum(View x, View scratch) {
  if (x.device == Device::cpu && reaches(x.device))
    GradualSum(*this, x, {{0, x.numel()}}, scratch).finish();
  else combine(x, scratch, To::everyone, {});
}
void Ranks::sum_own_shard(View x, View scratch) { combine(x, scratch, To::owner, {}); }

void Ranks::mean(View x, double weight, View scratch) {
  std::vector<double> weights = all_of(weight);
  double total = 0;
  for (const double w : weights) total += w;
  for (double& w : weights) w = total > 0 ? w / total : 0;
  combine(x, scratch, To::everyone, weights);
}

cuda::SideStream& Ranks::side_stream() {
  if (!side_stream_) side_stream_ = std::make_unique<cuda::SideStream>();
  return *side_stream_;
}

void Ranks::broadcast(const Tensor& x, int from) {
  const Tensor here = x.device() == Device::cuda ? x.to(Device::cpu, Category::workspace) : x;
  broadcast(here.host_bytes().data(), here.bytes(), from);
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

namespace {

constexpr int64_t pieces_wanted = 8;

// A gradual sum has at least a few pieces, so that most are exchanged before the end. A piece has
// at least 16 KiB for each rank, and fits into the scratch.
int64_t piece_elements(const View& x, const View& scratch, int count) {
  const auto size = int64_t(size_of(x.dtype));
  const int64_t most = scratch.numel() / size, least = std::min(most, count * (16 << 10) / size);
  const int64_t step = int64_t{16} * count;  // whole cache lines for each rank
  return std::max(step, std::clamp(x.numel() / pieces_wanted, least, most) / step * step);
}

}  // namespace

GradualSum::GradualSum(Ranks& ranks, View x, std::vector<Parameters::Range> ranges, View scratch)
    : ranks_(ranks),
      x_(x),
      scratch_(scratch),
      ranges_(std::move(ranges)),
      most_(piece_elements(x, scratch, ranks.count())),
      complete_from_(x.numel()) {
  check(ranks.reaches(x.device) && scratch.device == x.device,
        "a gradual sum on {} with its scratch on {}: expected one device that the ranks reach",
        name(x.device), name(scratch.device));
}

void GradualSum::complete_from(int64_t begin) {
  complete_from_ = std::min(complete_from_, begin);
  go_on(Ranks::Wait::no);
}

void GradualSum::finish() {
  complete_from_ = 0;
  go_on(Ranks::Wait::yes);
  if (x_.device == Device::cuda) ranks_.side_stream().join();
}

void GradualSum::go_on(Ranks::Wait wait) {
  if (x_.device == Device::cuda) ranks_.side_stream().run([&] { advance(wait); });
  else advance(wait);
}

// While the sums of one piece travel to all ranks, so do the terms of the next piece.
void GradualSum::advance(Ranks::Wait wait) {
  while (ranks_.exchanged(wait)) {
    const bool shares = piece_.has_value();
    if (shares) add_and_share();
    if (takes_next_piece()) begin_to_add();
    else if (!shares) return;
  }
}

bool GradualSum::takes_next_piece() {
  piece_.reset();
  if (ranges_.empty()) return false;
  auto& [begin, end] = ranges_.back();
  const Parameters::Range piece{std::max(begin, end - most_), end};
  if (piece.begin < complete_from_) return false;
  piece_ = piece;
  end = piece.begin;
  if (begin == end) ranges_.pop_back();
  return true;
}

// Each rank sends its elements of this rank's shard of the piece to the scratch.
void GradualSum::begin_to_add() {
  const View x = part(x_, *piece_);
  const Shards shards{x.numel(), ranks_.count()};
  const auto [begin, end] = shards.of(ranks_.rank());
  ranks_.begin_exchange(x.device,
                        rows_of({scratch_.data, {ranks_.count(), end - begin}, x.dtype, x.device}),
                        shards_of(x, shards));
}

void GradualSum::add_and_share() {
  const View x = part(x_, *piece_);
  const Shards shards{x.numel(), ranks_.count()};
  const View own = part(x, shards.of(ranks_.rank()));
  sum_ranks(own, {scratch_.data, {ranks_.count(), own.numel()}, x.dtype, x.device});
  const auto all = shards_of(x, shards);
  ranks_.begin_exchange(x.device, all, std::vector(all.size(), bytes_in(own)));
}

}  // namespace accrue
