#include "kernels/detail/copy_strided.h"
#include "kernels/detail/elementwise.cuh"
#include "kernels/detail/reduce.cuh"

namespace accrue::cuda {
namespace {

// Kernels count the elements of a box in 32 bits, whose divisions are several times as fast. A
// larger box is copied in parts.
constexpr int64_t most_elements = INT32_MAX;

// A thread copies vectors of `width` neighbours, a grid apart, so that a warp writes contiguous
// memory wherever the target is. The box counts vectors, and so do its strides.
template <int width, bool accumulate, class T>
__global__ void __launch_bounds__(block_threads)
    copy_strided_kernel(T* to, const T* from, StridedBox box, int64_t count) {
  using Part = Vector<T, width>;
  for (int64_t i = first_item(); i < count; i += item_stride()) {
    const Offsets place = box.at(static_cast<uint32_t>(i));
    const Part in = reinterpret_cast<const Part*>(from)[place.from];
    Part& target = reinterpret_cast<Part*>(to)[place.to];
    Part out;
    if constexpr (accumulate) out = target;
    for (int w = 0; w < width; ++w)
      store(out.values[w], widen(in.values[w]), std::bool_constant<accumulate>{});
    target = out;
  }
}

// A tile of a matrix to transpose: a warp has a row, and a block several.
constexpr int tile_side = 32, tile_warps_high = block_threads / tile_side;

// The matrix that is transposed: element (r, c) of `rows` x `columns` lies at
// r * to_stride + c in one array and at r + c * from_stride in the other.
struct TransposedMatrix {
  int64_t rows, columns, to_stride, from_stride;
};

// A block copies tiles, a grid apart, through shared memory: warps read rows of the one array and
// write rows of the other, both contiguous. A column more puts a column into as many banks.
template <bool accumulate, class T>
__global__ void __launch_bounds__(block_threads)
    transpose_kernel(T* to, const T* from, TransposedMatrix matrix, StridedBox matrices,
                     int64_t tiles) {
  alignas(T) __shared__ T copy[tile_side][tile_side + 1];
  const int lane = threadIdx.x % tile_side, first = threadIdx.x / tile_side;
  const int64_t down = (matrix.rows + tile_side - 1) / tile_side,
                across = (matrix.columns + tile_side - 1) / tile_side;
  for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const Offsets place = matrices.at(static_cast<uint32_t>(t / (down * across)));
    const int64_t row = t / across % down * tile_side, column = t % across * tile_side;
    for (int c = first; c < tile_side && column + c < matrix.columns; c += tile_warps_high)
      if (row + lane < matrix.rows)
        copy[c][lane] = from[place.from + row + lane + (column + c) * matrix.from_stride];
    __syncthreads();
    for (int r = first; r < tile_side && row + r < matrix.rows; r += tile_warps_high)
      if (column + lane < matrix.columns)
        store(to[place.to + (row + r) * matrix.to_stride + column + lane], widen(copy[lane][r]),
              std::bool_constant<accumulate>{});
    __syncthreads();  // before the next tile
  }
}

// The dimension that is contiguous in `from`, where that of `to` is another one; -1 if both are the
// same, or if a tile would be mostly empty.
int transposed_dimension(const StridedBox& box) {
  const int last = box.rank - 1;
  if (box.to[last] != 1 || box.from[last] == 1 || box.sizes[last] < 8) return -1;
  for (int d = 0; d < last; ++d)
    if (box.from[d] == 1 && box.sizes[d] >= 8) return d;
  return -1;
}

template <bool accumulate, class T>
void copy_transposed(T* to, const T* from, const StridedBox& box, int q) {
  const int last = box.rank - 1;
  const TransposedMatrix matrix{box.sizes[q], box.sizes[last], box.to[q], box.from[last]};
  StridedBox matrices;
  matrices.to_begin = box.to_begin;
  matrices.from_begin = box.from_begin;
  for (int d = 0; d < last; ++d)
    if (d != q) matrices.add(box.sizes[d], box.to[d], box.from[d]);
  const int64_t tiles = matrices.numel() * ceil_div<int64_t>(matrix.rows, tile_side) *
                        ceil_div<int64_t>(matrix.columns, tile_side);
  enqueue(grid_over(tiles * block_threads), transpose_kernel<accumulate, T>, to, from, matrix,
          matrices, tiles);
}

// The box in vectors of `width` elements, if all of them are whole and no address is between two:
// the addresses of both arrays are multiples of a vector.
bool in_vectors(StridedBox& box, int width) {
  const int last = box.rank - 1;
  bool fits = box.to[last] == 1 && box.from[last] == 1 && box.sizes[last] % width == 0 &&
              box.to_begin % width == 0 && box.from_begin % width == 0;
  for (int d = 0; d < last; ++d) fits = fits && box.to[d] % width == 0 && box.from[d] % width == 0;
  if (!fits) return false;
  box.sizes[last] /= width;
  box.to_begin /= width;
  box.from_begin /= width;
  for (int d = 0; d < last; ++d) {
    box.to[d] /= width;
    box.from[d] /= width;
  }
  return true;
}

template <bool accumulate, class T>
void copy_box(T* to, const T* from, StridedBox box) {
  if (box.numel() > most_elements) {
    const auto [first, second] = box.halves();
    copy_box<accumulate>(to, from, first);
    return copy_box<accumulate>(to, from, second);
  }
  if (const int q = transposed_dimension(box); q >= 0)
    return copy_transposed<accumulate>(to, from, box, q);
  constexpr int most = 16 / sizeof(T);
  const bool wide = is_aligned(to, 16) && is_aligned(from, 16) && in_vectors(box, most);
  const auto kernel =
      wide ? copy_strided_kernel<most, accumulate, T> : copy_strided_kernel<1, accumulate, T>;
  enqueue(grid_over(box.numel()), kernel, to, from, box, box.numel());
}

}  // namespace

void copy_strided(GradTarget to, View from, const StridedBox& box) {
  if (to.beta == 0)
    dispatch_bits(from.dtype, [&]<class Bits>() {
      copy_box<false>(bits_of<Bits>(to.grad), bits_of<const Bits>(from), box);
    });
  else
    dispatch_floating(from.dtype,
                      [&]<class T>() { copy_box<true>(to.grad.as<T>(), from.as<const T>(), box); });
}

namespace {

// A thread has elements of the target a grid apart, so that a warp writes contiguous memory, and
// reads it where rows are longer than a warp.
template <class T>
__global__ void __launch_bounds__(block_threads)
    place_kernel(T* to, const T* from, Placement placement, int64_t count, T value) {
  for (int64_t i = first_item(); i < count; i += item_stride()) {
    int64_t source = placement.from_begin, rest = i;
    bool has_source = true;
    for (int d = placement.rank - 1; d >= 0; --d) {
      const PlacedDimension& dimension = placement.dimensions[d];
      const int64_t next = d == 0 ? 0 : rest / dimension.size;
      const int64_t k = dimension.source(rest - next * dimension.size);
      has_source = has_source && 0 <= k && k < dimension.count;
      source += k * dimension.from;
      rest = next;
    }
    to[i] = has_source ? from[source] : value;
  }
}

}  // namespace

void place(View to, View from, const Placement& placement, double value) {
  const auto enqueue_placement = [&]<class T>(T other) {
    enqueue(grid_over(to.numel()), place_kernel<T>, static_cast<T*>(to.data),
            static_cast<const T*>(from.data), placement, to.numel(), other);
  };
  check((to.data || to.numel() == 0) && (from.data || placement.numel_copied() == 0),
        "place() of tensors without elements");
  if (to.dtype == DType::i32) return enqueue_placement(static_cast<int32_t>(value));
  if (to.dtype == DType::u8) return enqueue_placement(static_cast<uint8_t>(value));
  dispatch_floating(to.dtype,
                    [&]<class T>() { enqueue_placement(T(static_cast<Wide<T>>(value))); });
}

namespace {

// A thread has an output and adds its terms in order. Neighbours read neighbouring terms. With the
// second bound, registers do not spill for the sake of more blocks.
template <class T>
__global__ void __launch_bounds__(block_threads, 2)
    sum_by_thread_kernel(T* to, float beta, const T* from, StridedBox box, StridedBox terms,
                         int64_t outputs, int64_t count) {
  const int64_t in_row = terms.sizes[terms.rank - 1], step = terms.from[terms.rank - 1];
  for (int64_t i = first_item(); i < outputs; i += item_stride()) {
    const Offsets place = box.at(static_cast<uint32_t>(i));
    RunningSum<Wide<T>> sum;
    for (int64_t r = 0; r < count; r += in_row) {
      const T* const x = from + place.from + terms.at(r).from;
      for (int64_t k = 0; k < in_row; ++k) sum.add(x[k * step]);
    }
    to[place.to] = blend(sum.total(), beta, to[place.to]);
  }
}

// A block has an output, a grid apart, and a thread every 256th of its terms.
template <class T>
__global__ void __launch_bounds__(block_threads)
    sum_by_block_kernel(T* to, float beta, const T* from, StridedBox box, StridedBox terms,
                        int64_t outputs, int64_t count) {
  for (int64_t i = blockIdx.x; i < outputs; i += gridDim.x) {
    const Offsets place = box.at(static_cast<uint32_t>(i));
    RunningSum<Wide<T>> sum;
    for (int64_t r = threadIdx.x; r < count; r += block_threads)
      sum.add(from[place.from + terms.at(r).from]);
    const Wide<T> total = block_sum<block_threads>(sum.total());
    if (threadIdx.x == 0) to[place.to] = blend(total, beta, to[place.to]);
  }
}

template <class T>
void sum_box(T* to, float beta, const T* from, const StridedBox& box, const StridedBox& terms) {
  const int64_t outputs = box.numel(), count = terms.numel();
  if (outputs > most_elements) {
    const auto [first, second] = box.halves();
    sum_box(to, beta, from, first, terms);
    return sum_box(to, beta, from, second, terms);
  }
  // Threads that each have an output fill a device if there are so many.
  if (count <= 32 || (outputs >= 16384 && terms.from[terms.rank - 1] != 1))
    enqueue(grid_over(outputs), sum_by_thread_kernel<T>, to, beta, from, box, terms, outputs,
            count);
  else
    enqueue(grid_over(outputs * block_threads), sum_by_block_kernel<T>, to, beta, from, box, terms,
            outputs, count);
}

}  // namespace

void sum_strided(GradTarget to, View from, const StridedBox& box, const StridedBox& terms) {
  dispatch_floating(from.dtype, [&]<class T>() {
    sum_box(to.grad.as<T>(), to.beta, from.as<const T>(), box, terms);
  });
}

}  // namespace accrue::cuda
