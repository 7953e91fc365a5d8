// Gather and scatter, computed by the products of indirect_gemm.h.

#include <array>

#include "kernels/backend.h"
#include "kernels/cpu/bump_allocator.h"
#include "kernels/cpu/conv_frames.h"
#include "kernels/cpu/conv_tiling.h"
#include "kernels/cpu/convolution.h"
#include "kernels/cpu/depthwise.h"
#include "kernels/cpu/indirect_gemm.h"
#include "kernels/cpu/winograd.h"

namespace accrue::cpu {
namespace {

// The scratch of gather and scatter on elements of type T, multiplied as F. `products` has one
// entry for each phase of the target; `weights` has elements only if w must be widened or paired
// first.
template <class T, class F>
struct MultiplyScratch {
  using W = Wide<T>;
  using Weight = typename Arithmetic<F>::Left;
  static constexpr int64_t elements = elements_in<F>;
  PackedTiling packed;
  IndirectGemm* products;
  int32_t *weight_row, *weight_at, *source_at, *column_at;
  Weight* weights;
  F *frames, *columns;
  W* results;
  int64_t frame_size, columns_size, result_size, phases, slots;
  size_t bytes;

  MultiplyScratch(const ConvTiling& t, const ConvGeometry& g, int64_t N, void* base)
      : packed(t, N, lanes<W>) {
    BumpAllocator allocator(base);
    const bool packs = packed.pays;
    phases = t.h.target_step * t.w.target_step;
    slots = packs ? packed.slots : t.slots;
    frame_size =
        round_up(packs ? packed.images * packed.frame() : t.frame(t.band), lanes<W>) + lanes<W>;
    columns_size = packs ? packed.phases * packed.depth * packed.columns + lanes<W> : 0;
    result_size = packs ? packed.phases * packed.rows * packed.columns
                        : t.target_channels * round_up(t.cells(t.band), lanes<W>);
    products = allocator.take<IndirectGemm>(phases);
    weight_row = allocator.take<int32_t>(t.target_channels);
    weight_at = allocator.take<int32_t>(t.frame_channels * g.area());
    source_at = allocator.take<int32_t>(t.frame_channels * g.area());
    column_at = allocator.take<int32_t>(packs ? packed.depth : 0);
    const int64_t pairs = t.target_channels * t.frame_channels * g.area();
    weights = allocator.take<Weight>(in_pairs<F> ? 2 * pairs : is_16_bit<T> ? g.w_extent() : 0);
    frames = allocator.take<F>(slots * frame_size);
    columns = allocator.take<F>(slots * columns_size);
    results = allocator.take<W>(slots * result_size);
    bytes = allocator.used();
  }
};

// Where a product's result goes, and the bias that is added to it.
template <class T>
struct Epilogue {
  T* target;
  const T* bias;
};

// Where a product's result lies in the scratch, for channels [m_begin, m_end) of the target.
template <class W>
struct ResultPlanes {
  const W* data;
  int64_t stride, row_stride, m_begin, m_end;
};

template <class T, class F, class Accumulate>
void store_result(const Epilogue<T>& e, const ResultPlanes<Wide<T>>& result, const ConvTiling& t,
                  Band band, int64_t phase, F f, Accumulate accumulate) {
  const int64_t h_phase = phase / t.w.target_step, w_phase = phase % t.w.target_step;
  const int64_t h_step = t.h.target_step, w_step = t.w.target_step, W = t.w.target;
  const int64_t width = ceil_div(W - w_phase, w_step);
  // Whole vectors where possible: each row overwrites what the row before it wrote past its end.
  const int64_t vectors =
      accumulate || h_step > 1 || w_step > 1 ? width : round_up(width, lanes<Wide<T>>);
  for (int64_t m = result.m_begin; m < result.m_end; ++m) {
    const Wide<T> shift = e.bias ? widen(e.bias[m]) : Wide<T>(0);
    T* plane = e.target + (band.n * t.target_apart + m) * t.h.target * W;
    const int64_t rows = std::min(band.rows, ceil_div(t.h.target - h_phase, h_step) - band.begin);
    for (int64_t r = 0; r < rows; ++r)
      store_row(plane + ((band.begin + r) * h_step + h_phase) * W + w_phase,
                result.data + (m - result.m_begin) * result.stride + r * result.row_stride,
                std::min(vectors, (rows - r) * width), w_step, shift, f, accumulate);
  }
}

// The place of weights in memory: w[o, c, i, j], or the pair that begins with it, is at (the
// target's channel) * target + (the source's channel) * source + tap.
struct WeightSteps {
  int64_t target, source;

  template <class F>
  static WeightSteps of(Direction direction, const ConvTiling& t, const ConvGeometry& g) {
    const bool gather = direction == Direction::gather;
    const int64_t filter = !in_pairs<F> ? g.filter_step()
                           : gather     ? t.frame_channels * g.area()
                                        : g.taps();
    return gather ? WeightSteps{filter, g.area()} : WeightSteps{g.area(), filter};
  }
};

// Fills the tables of a scratch.
template <class T, class F>
void fill_tables(const MultiplyScratch<T, F>& x, const ConvTiling& t, const ConvGeometry& g,
                 WeightSteps steps) {
  for (int64_t m = 0; m < t.target_channels; ++m)
    x.weight_row[m] = static_cast<int32_t>(m * steps.target * x.elements);
  int64_t k = 0;
  for (int64_t phase = 0; phase < x.phases; ++phase) {
    const int64_t k_begin = k;
    for (int64_t c = 0; c < t.frame_channels; ++c)
      for (int64_t i = 0; i < g.KH; ++i)
        for (int64_t j = 0; j < g.KW; ++j) {
          const auto h = t.h.offset(i, phase / t.w.target_step);
          const auto w = t.w.offset(j, phase % t.w.target_step);
          if (!h || !w || !t.h.sees_source(*h) || !t.w.sees_source(*w)) continue;
          x.weight_at[k] = static_cast<int32_t>((c * steps.source + i * g.KW + j) * x.elements);
          x.source_at[k++] = static_cast<int32_t>(c * t.channel() + t.offset(*h, *w));
        }
    x.products[phase] = {.M = t.target_channels,
                         .N = 0,
                         .K = k - k_begin,
                         .a_row = x.weight_row,
                         .a_col = x.weight_at + k_begin,
                         .b_row = x.source_at + k_begin};
  }
  for (int64_t i = 0; i < (x.packed.pays ? x.packed.depth : 0); ++i)
    x.column_at[i] = static_cast<int32_t>(i * x.packed.columns);
}

// Joins w in pairs of source channels. If their number is odd, a zero completes the last pair.
void pair_weights(BFloat16Pair* out, const BFloat16* w, Direction direction, const ConvTiling& t,
                  const ConvGeometry& g) {
  // A pair is two of a filter's channels, or two whole filters.
  const bool gather = direction == Direction::gather;
  const int64_t rows = gather ? g.O : 1, row_step = gather ? g.filter_step() : 0;
  const int64_t size = gather ? g.area() : g.taps(), step = gather ? g.area() : g.filter_step();
  parallel_each(rows * t.frame_channels, size, [&](int64_t at) {
    const int64_t channel = at % t.frame_channels * 2;
    const BFloat16* first = w + at / t.frame_channels * row_step + channel * step;
    interleave(out + at * size, first, channel + 1 < t.source_channels ? first + step : nullptr,
               size);
  });
}

template <class T, class F>
const typename Arithmetic<F>::Left* prepared_weights(const MultiplyScratch<T, F>& x, const T* w,
                                                     Direction direction, const ConvTiling& t,
                                                     const ConvGeometry& g) {
  if constexpr (in_pairs<F>) {
    pair_weights(reinterpret_cast<BFloat16Pair*>(x.weights), w, direction, t, g);
    return x.weights;
  } else {
    return widened(w, x.weights, g.w_extent());
  }
}

// The arguments that all chunks of a product share.
template <class T, class F>
struct Multiplication {
  const MultiplyScratch<T, F>& scratch;
  const ConvTiling& tiling;
  const T* source;
  const typename Arithmetic<F>::Left* weights;
  Epilogue<T> epilogue;
  Activation activation;
  float beta;

  void store(const ResultPlanes<Wide<T>>& result, Band band, int64_t phase) const {
    with_formula(activation, [&](auto f) {
      with_beta(beta, [&](auto accumulate) {
        store_result(epilogue, result, tiling, band, phase, f, accumulate);
      });
    });
  }
};

template <class T, class F>
void multiply_band(const Multiplication<T, F>& x, Band band, int slot) {
  using W = Wide<T>;
  const MultiplyScratch<T, F>& scratch = x.scratch;
  F* const frame = scratch.frames + slot * scratch.frame_size;
  W* const result = scratch.results + slot * scratch.result_size;
  load_frame(frame, x.source, x.tiling, band, 0, x.tiling.frame_channels);
  for (int64_t phase = 0; phase < scratch.phases; ++phase) {
    IndirectGemm product = scratch.products[phase];
    product.N = round_up(x.tiling.cells(band.rows), lanes<W>);
    indirect_gemm<F>(result, x.weights, frame, product, Result::write);
    x.store({result, product.N, x.tiling.columns(), 0, x.tiling.target_channels}, band, phase);
  }
}

template <class T, class F>
void multiply_packed(const Multiplication<T, F>& x, int64_t N, int64_t chunk, int slot) {
  using W = Wide<T>;
  const MultiplyScratch<T, F>& scratch = x.scratch;
  const PackedTiling& p = scratch.packed;
  const int64_t n_begin = chunk / p.row_groups * p.images;
  const int64_t m_begin = chunk % p.row_groups * p.rows;
  const int64_t m_end = std::min(m_begin + p.rows, p.whole.target_channels);
  const int64_t channels = p.whole.frame_channels;
  const Frames<F> frames{scratch.frames + slot * scratch.frame_size, p.frame(),
                         std::min(p.images, N - n_begin)};
  F* const columns = scratch.columns + slot * scratch.columns_size;
  W* const results = scratch.results + slot * scratch.result_size;
  const auto columns_of = [&](int64_t phase) { return columns + phase * p.depth * p.columns; };
  const Partition blocks(m_end - m_begin, block_rows);
  for (int64_t c = 0; c < channels; c += p.channels) {
    const int64_t size = std::min(p.channels, channels - c);
    load_frames(frames, x.source, p.whole, n_begin, c, c + size);
    for (int64_t phase = 0; phase < p.phases; ++phase) {
      const IndirectGemm& all = scratch.products[phase];
      pack_columns<F>({columns_of(phase), p.columns, p.cells}, frames, all.b_row,
                      all.K / channels * size, p.whole);
    }
    for (int64_t block = 0; block < blocks.parts; ++block) {
      const int32_t* const row = scratch.weight_row + m_begin + blocks.begin(block);
      for (int64_t phase = 0; phase < p.phases; ++phase) {
        const IndirectGemm& all = scratch.products[phase];
        const int64_t taps = all.K / channels;
        const IndirectGemm product{.M = blocks.size(block),
                                   .N = p.columns,
                                   .K = size * taps,
                                   .a_row = row,
                                   .a_col = all.a_col + c * taps,
                                   .b_row = scratch.column_at};
        indirect_gemm<F>(results + (phase * p.rows + blocks.begin(block)) * p.columns, x.weights,
                         columns_of(phase), product, c == 0 ? Result::write : Result::add);
      }
    }
  }
  for (int64_t phase = 0; phase < p.phases; ++phase)
    for (int64_t i = 0; i < frames.images; ++i)
      x.store({results + phase * p.rows * p.columns + i * p.cells, p.columns, p.whole.w.steps(),
               m_begin, m_end},
              Band(p.whole, n_begin + i), phase);
}

// target = act(sum over taps and source channels of weight * source + b) + beta * target, of all
// channels or of one group's, in bands or packed.
void multiply_directly(const ConvProduct& p) {
  dispatch_factors(p.source.dtype, [&]<class T, class F>() {
    const Direction direction = p.direction;
    const ConvGeometry& g = p.geometry;
    const int64_t N = p.N();
    ConvTiling banded(direction, g, N, elements_in<F>);
    banded.source_apart = p.source.shape[1], banded.target_apart = p.target.grad.shape[1];
    const MultiplyScratch<T, F> scratch(banded, g, N, p.workspace.data);
    const bool packs = scratch.packed.pays;
    const ConvTiling& tiling = packs ? scratch.packed.whole : banded;
    fill_tables(scratch, tiling, g, WeightSteps::of<F>(direction, tiling, g));
    const Multiplication<T, F> x{
        .scratch = scratch,
        .tiling = tiling,
        .source = p.source.as<const T>(),
        .weights = prepared_weights(scratch, p.weights.w.as<const T>(), direction, tiling, g),
        .epilogue = {p.target.grad.as<T>(), p.bias.data ? p.bias.as<T>() : nullptr},
        .activation = p.activation,
        .beta = p.target.beta};
    std::array<bool, ConvTiling::most_slots> prepared{};
    parallel_chunks(
        packs ? scratch.packed.chunks : N * banded.bands, static_cast<int>(scratch.slots),
        [&](int64_t chunk, int slot) {
          if (!std::exchange(prepared[static_cast<size_t>(slot)], true)) {
            std::fill_n(scratch.frames + slot * scratch.frame_size, scratch.frame_size, F{});
            std::fill_n(scratch.columns + slot * scratch.columns_size, scratch.columns_size, F{});
          }
          if (packs) multiply_packed(x, N, chunk, slot);
          else multiply_band(x, Band(banded, chunk), slot);
        });
  });
}

// Groups one after the other, each with threads and scratch of its own.
void multiply_groups(const ConvProduct& p) {
  const ConvGeometry& g = p.geometry;
  const ConvGeometry one = g.of_group();
  const bool gathers = p.direction == Direction::gather;
  const int64_t sources = gathers ? one.C : one.O, targets = gathers ? one.O : one.C;
  const int64_t filters = one.O * g.filter_step();
  for (int64_t group = 0; group < g.groups; ++group) {
    const auto plane = [](const View& images) { return images.shape.numel(2, 4); };
    const View bias = p.bias.data ? behind(p.bias, group * targets) : View{};
    multiply_directly(
        {p.direction,
         one,
         {behind(p.target.grad, group * targets * plane(p.target.grad)), p.target.beta},
         behind(p.source, group * sources * plane(p.source)),
         {behind(p.weights.w, group * filters), {}},
         bias,
         p.activation,
         p.workspace});
  }
}

void multiply(const ConvProduct& p) {
  if (p.geometry.is_depthwise()) return depthwise_multiply(p);
  if (p.geometry.groups > 1) return multiply_groups(p);
  dispatch_floating(p.source.dtype, [&]<class T>() {
    if constexpr (!is_16_bit<T>)
      if (winograd_pays(p.direction, p.geometry)) return winograd_multiply<T>(p);
    multiply_directly(p);
  });
}

}  // namespace

int64_t multiply_bytes(Direction direction, const ConvGeometry& all, int64_t N, DType dtype) {
  if (all.is_depthwise()) return depthwise_bytes(direction, all, N, dtype);
  const ConvGeometry g = all.of_group();
  return dispatch_factors(dtype, [&]<class T, class F>() {
    if constexpr (!is_16_bit<T>)
      if (winograd_pays(direction, all)) return winograd_bytes<T>(direction, all, N);
    const ConvTiling tiling(direction, g, N, elements_in<F>);
    return static_cast<int64_t>(MultiplyScratch<T, F>(tiling, g, N, nullptr).bytes);
  });
}

void pack_weights(View packed, View w, Direction direction, const ConvGeometry& g) {
  dispatch_wide(w.dtype,
                [&]<class T>() { winograd_pack(packed.as<T>(), w.as<const T>(), direction, g); });
}

void conv_gather(GradTarget grid, View image, const ConvWeights& w, View b, Activation activation,
                 const ConvGeometry& g, View workspace) {
  multiply({Direction::gather, g, grid, image, w, b, activation, workspace});
}

void conv_scatter(GradTarget image, View grid, const ConvWeights& w, View b, const ConvGeometry& g,
                  View workspace) {
  multiply({Direction::scatter, g, image, grid, w, b, Activation::none, workspace});
}

}  // namespace accrue::cpu
