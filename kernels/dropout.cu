#include "kernels/detail/dropout_kernels.h"
#include "kernels/detail/elementwise.cuh"

namespace accrue::cuda {
namespace {

// A thread handles groups of four elements of a row, a grid apart, because one Philox call gives
// four words. The words cost more than the memory accesses, so no word is drawn twice. `width` is
// four if every row consists of whole vectors that begin with a call, else one.
template <int width, bool accumulate, class T>
__global__ void __launch_bounds__(block_threads)
    dropout_kernel(T* y, const T* x, const int32_t* samples, int64_t N, int64_t E, Mask mask) {
  using Part = Vector<T, width>;
  const auto masked = mask.of_elements<Wide<T>>();
  const int64_t before = mask.before_row();
  const int64_t calls = (before + E + words_of_call - 1) / words_of_call;
  for (int64_t i = first_item(); i < N * calls; i += item_stride()) {
    const int64_t n = i / calls, first = i % calls * words_of_call - before;
    uint32_t word[words_of_call];
    mask.draw<1>(word, samples[n], first);
    for (int part = 0; part < words_of_call && first + part < E; part += width) {
      if (width == 1 && first + part < 0) continue;
      const Part in = *reinterpret_cast<const Part*>(x + n * E + first + part);
      Part& target = *reinterpret_cast<Part*>(y + n * E + first + part);
      Part out;
      if constexpr (accumulate) out = target;
      for (int w = 0; w < width; ++w)
        store(out.values[w], masked(widen(in.values[w]), word[part + w]),
              std::bool_constant<accumulate>{});
      target = out;
    }
  }
}

// A thread has whole vectors of a sample, a grid apart, and draws the one word that decides for
// each: less than what the memory costs.
template <int width, bool accumulate, class T>
__global__ void __launch_bounds__(block_threads)
    drop_samples_kernel(T* y, const T* x, const int32_t* samples, int64_t vectors, int64_t E,
                        Mask mask) {
  using Part = Vector<T, width>;
  const auto masked = mask.of_elements<Wide<T>>();
  for (int64_t v = first_item(); v < vectors; v += item_stride()) {
    uint32_t word[words_of_call];
    mask.draw<1>(word, samples[v / (E / width)], 0);
    const Part in = reinterpret_cast<const Part*>(x)[v];
    Part& target = reinterpret_cast<Part*>(y)[v];
    Part out;
    if constexpr (accumulate) out = target;
    for (int w = 0; w < width; ++w)
      store(out.values[w], masked(widen(in.values[w]), word[0]), std::bool_constant<accumulate>{});
    target = out;
  }
}

}  // namespace

void dropout(GradTarget y, View x, View samples, Mask mask) {
  dispatch_floating(x.dtype, [&]<class T>() {
    const int64_t N = x.shape[0], E = x.shape.numel(1, x.shape.rank());
    T* out = y.grad.as<T>();
    const T* in = x.as<T>();
    constexpr size_t vector_bytes = words_of_call * sizeof(T);
    const int64_t before = mask.before_row();
    const bool whole_vectors = before == 0 && E % words_of_call == 0 &&
                               is_aligned(out, vector_bytes) && is_aligned(in, vector_bytes);
    with_beta(y.beta, [&](auto accumulate) {
      const auto run = [&](auto width) {
        enqueue(grid_over(N * ((before + E + words_of_call - 1) / words_of_call)),
                dropout_kernel<width, accumulate.value, T>, out, in, samples.as<const int32_t>(), N,
                E, mask);
      };
      if (whole_vectors) run(std::integral_constant<int, words_of_call>{});
      else run(std::integral_constant<int, 1>{});
    });
  });
}

void drop_samples(GradTarget y, View x, View samples, Mask mask) {
  const int64_t N = x.shape[0], E = x.shape.numel(1, x.shape.rank());
  dispatch_floating(x.dtype, [&]<class T>() {
    with_beta(y.beta, [&](auto accumulate) {
      with_width<T>(E, {y.grad.data, x.data}, [&](auto width) {
        const int64_t vectors = N * (E / width);
        enqueue(grid_over(vectors), drop_samples_kernel<width.value, accumulate.value, T>,
                y.grad.as<T>(), x.as<const T>(), samples.as<const int32_t>(), vectors, E, mask);
      });
    });
  });
}

}  // namespace accrue::cuda
