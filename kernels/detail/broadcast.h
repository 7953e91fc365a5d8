#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "core/ceil_div.h"
#include "core/host_device.h"
#include "core/inside.h"
#include "core/tensor.h"
#include "kernels/backend.h"

namespace accrue {

// The shape that both are repeated to by NumPy's rules; nothing if they do not fit.
inline std::optional<Shape> broadcast_shape(const Shape& a, const Shape& b) {
  const Shape& longer = a.rank() < b.rank() ? b : a;
  const Shape& other = a.rank() < b.rank() ? a : b;
  Shape shape = longer;
  for (int d = longer.rank() - other.rank(), k = 0; d < longer.rank(); ++d, ++k) {
    if (longer[d] == 1) shape = shape.with(d, other[k]);
    else if (other[k] != 1 && other[k] != longer[d]) return std::nullopt;
  }
  return shape;
}

// Where the elements of an array lie that are read in the order of an index space: number i of the
// space, in row-major order, is element at(i) of the array. The size is fixed, so that kernels take
// it as an argument.
struct Strided {
  int rank = 1;
  int64_t sizes[Shape::max_rank] = {1}, strides[Shape::max_rank] = {1};

  Strided() = default;
  // Dimensions that one stride can go through are joined, so that as few as possible are left.
  Strided(std::span<const int64_t> all_sizes, std::span<const int64_t> all_strides) : rank(0) {
    for (size_t d = 0; d < all_sizes.size(); ++d) {
      if (all_sizes[d] == 1) continue;
      const bool joins = rank > 0 && strides[rank - 1] == all_strides[d] * all_sizes[d];
      if (!joins) sizes[rank++] = 1;
      sizes[rank - 1] *= all_sizes[d];
      strides[rank - 1] = all_strides[d];
    }
    if (rank == 0) *this = Strided();
  }
  HOST_DEVICE int64_t at(int64_t i) const {
    int64_t element = 0;
    for (int d = rank - 1; d > 0; --d) {
      const int64_t rest = i / sizes[d];
      element += (i - rest * sizes[d]) * strides[d];
      i = rest;
    }
    return element + i * strides[0];
  }
};

// The order in which the indices of a result are visited: its dimensions, outermost first.
struct IndexOrder {
  std::array<int, Shape::max_rank> dims = {0, 1, 2, 3, 4, 5, 6, 7};

  // How x, which is broadcast to `shape`, is read in this order.
  Strided of(const Shape& x, const Shape& shape) const {
    std::array<int64_t, Shape::max_rank> strides{}, sizes_in_order{}, in_order{};
    int64_t stride = 1;
    for (int d = shape.rank() - 1, k = x.rank() - 1; k >= 0; --d, --k) {
      strides[static_cast<size_t>(d)] = x[k] == 1 ? 0 : stride;
      stride *= x[k];
    }
    const auto rank = static_cast<size_t>(shape.rank());
    for (size_t d = 0; d < rank; ++d) {
      sizes_in_order[d] = shape[dims[d]];
      in_order[d] = strides[static_cast<size_t>(dims[d])];
    }
    return {std::span(sizes_in_order).first(rank), std::span(in_order).first(rank)};
  }
};

// The sums that the gradient of an operand x takes over the dimensions in which it was repeated to
// `shape`: O sums of R terms each, cut into pieces. Both follow from the shapes and the device
// alone, so that the order of each sum does, too.
struct BroadcastSums {
  int64_t O = 1, R = 1;
  // Neighbouring indices in the order belong to neighbouring sums: index r * O + o of the order is
  // term r of sum o. Otherwise they are terms of one: index o * R + r.
  bool sums_inside = false;
  IndexOrder order;
  int64_t pieces = 1;
  // On cuda: the threads of a block that share a sum.
  int members = 1;

  BroadcastSums(const Shape& x, const Shape& shape, Device device) {
    std::array<int, Shape::max_rank> kept{}, summed{};
    size_t kept_count = 0, summed_count = 0;
    for (int d = 0; d < shape.rank(); ++d) {
      const int k = d - (shape.rank() - x.rank());
      const bool is_summed = (k < 0 || x[k] == 1) && shape[d] != 1;
      (is_summed ? summed[summed_count++] : kept[kept_count++]) = d;
      (is_summed ? R : O) *= shape[d];
      if (shape[d] != 1) sums_inside = !is_summed;
    }
    const auto put = [&](const auto& dims, size_t count, size_t at) {
      std::copy_n(dims.begin(), count, order.dims.begin() + static_cast<std::ptrdiff_t>(at));
    };
    put(kept, kept_count, sums_inside ? summed_count : 0);
    put(summed, summed_count, sums_inside ? 0 : kept_count);
    if (plans_for_cuda(device)) cut_for_cuda();
    else cut_for_cpu();
  }

  bool is_none() const { return R == 1; }
  // The first term of piece p.
  HOST_DEVICE int64_t begin(int64_t p) const { return R * p / pieces; }
  Tensor scratch(Device device) const {
    return Tensor::empty({pieces > 1 ? pieces * O : 0}, DType::f64, device, Category::workspace);
  }

 private:
  // Enough to keep threads busy, of pieces that are worth a chunk.
  void cut_for_cpu() {
    constexpr int64_t enough = 64, least = 16384, side_by_side = 1024;
    const int64_t blocks = sums_inside ? ceil_div(O, side_by_side) : O;
    pieces = std::clamp<int64_t>(O * R / least / std::max<int64_t>(blocks, 1), 1, enough);
    pieces = std::clamp<int64_t>(enough / std::max<int64_t>(blocks, 1), 1, pieces);
    pieces = std::min(pieces, std::max<int64_t>(R, 1));
  }
  void cut_for_cuda() {
    constexpr int64_t threads = 256, warp = 32, worth_it = 8, enough = 1024;
    const int64_t most = sums_inside ? threads / std::min(warp, std::max<int64_t>(O, 1)) : threads;
    while (members * 2 <= most && members * worth_it <= R) members *= 2;
    const int64_t blocks = std::max<int64_t>(1, ceil_div(O, threads / members));
    pieces = std::clamp<int64_t>(R / (16 * members), 1, std::max<int64_t>(1, enough / blocks));
  }
};

}  // namespace accrue
