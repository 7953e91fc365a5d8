#include "kernels/cpu/depthwise.h"

#include <array>

#include "kernels/backend.h"
#include "kernels/cpu/bump_allocator.h"
#include "kernels/cpu/depthwise_direct.h"
#include "kernels/cpu/depthwise_passes.h"
#include "kernels/detail/formulas.h"

namespace accrue::cpu {
namespace {

using depthwise::Planes, depthwise::RowTaps, depthwise::Rows;

// A chunk is some planes of the target, or some bands of one, each worth a thread's while.
int64_t items_of_chunk(const Planes& p) {
  return std::max<int64_t>(1, 2 * parallel_grain / (p.band * p.target_step * p.target_W));
}

int64_t slots_of(const Planes& p, int64_t chunks, int64_t slot_elements) {
  const ConvGeometry& g = p.geometry;
  const int64_t planes = g.C * g.H * g.W + g.O * g.GH * g.GW;
  return std::min(chunks,
                  std::clamp<int64_t>(planes / 4 / slot_elements, 2, ConvTiling::most_slots));
}

template <class W>
struct MultiplyScratch {
  W *frames, *results, *weights;
  int64_t frame, result, stride, chunks, slots;
  size_t bytes;

  MultiplyScratch(const Planes& p, int64_t N, void* base) {
    BumpAllocator allocator(base);
    const ConvGeometry& g = p.geometry;
    const int64_t targets = p.gathers() ? g.O : g.C;
    frame = p.frame_size<W>();
    stride = round_up(p.target_W, lanes<W>);
    result = (p.band + depthwise::most_rows - 1) * stride;
    chunks = ceil_div(N * targets * p.bands, items_of_chunk(p));
    slots = slots_of(p, chunks, frame + result);
    frames = allocator.take<W>(slots * frame);
    results = allocator.take<W>(slots * result);
    weights = allocator.take<W>(slots * g.area());
    bytes = allocator.used();
  }
};

// The rows of one band of a plane, in phases.
template <class T>
class PlaneProduct {
 public:
  using W = Wide<T>;

  PlaneProduct(const ConvProduct& product, const Planes& planes, const MultiplyScratch<W>& scratch,
               int slot)
      : product_(product),
        planes_(planes),
        scratch_(scratch),
        frame_(scratch.frames + slot * scratch.frame),
        result_(scratch.results + slot * scratch.result),
        weights_(scratch.weights + slot * planes.geometry.area()) {}

  // Target channel c of image n, rows of each phase from u on.
  void compute(int64_t n, int64_t c, int64_t u) const {
    const ConvGeometry& g = planes_.geometry;
    const int64_t multiplier = g.O / g.C, count = std::min(planes_.band, planes_.steps() - u);
    const int64_t sources = planes_.gathers() ? 1 : multiplier;
    const int64_t first = planes_.gathers() ? c / multiplier : c * multiplier;
    // With several phases and one source, its frame is loaded once.
    for (const RowTaps& rows : planes_.rows) {
      for (int64_t i = 0; i < sources; ++i) {
        if (sources > 1 || &rows == planes_.rows.data()) load(n, first + i, u, count);
        multiply(rows, planes_.gathers() ? c : first + i, count,
                 i == 0 ? Result::write : Result::add);
      }
      store(n, c, u, rows.phase, count);
    }
  }

 private:
  void load(int64_t n, int64_t channel, int64_t u, int64_t count) const {
    const View& source = product_.source;
    const T* const all = source.as<const T>();
    const T* const plane =
        all + (n * source.shape[1] + channel) * planes_.source_H * planes_.source_W;
    depthwise::load_plane(frame_, plane, all + source.numel(), planes_, u, count);
  }

  void multiply(const RowTaps& rows, int64_t filter, int64_t count, Result mode) const {
    const ConvGeometry& g = planes_.geometry;
    const T* const w = product_.weights.w.as<const T>() + filter * g.area();
    for (int64_t k = 0; k < rows.count; ++k)
      std::copy_n(w + (rows.first_tap + k * rows.tap_step) * g.KW, g.KW, weights_ + k * g.KW);
    depthwise::multiply<W>({.frame = frame_ + (rows.first - planes_.first) * planes_.row_size(),
                            .row_size = planes_.row_size(),
                            .column_at = planes_.column_at.data(),
                            .taps_h = rows.count,
                            .taps_w = g.KW,
                            .source_step = planes_.source_step,
                            .apart = rows.apart,
                            .rows = count,
                            .vectors = scratch_.stride / lanes<W>},
                           {result_, scratch_.stride, weights_, mode});
  }

  // target = act(result + b) + beta * target.
  void store(int64_t n, int64_t c, int64_t u, int64_t phase, int64_t count) const {
    const View& target = product_.target.grad;
    const int64_t H = planes_.target_H, width = planes_.target_W, step = planes_.target_step;
    T* const plane = target.as<T>() + (n * target.shape[1] + c) * H * width;
    const W shift = product_.bias.data ? widen(product_.bias.as<const T>()[c]) : W(0);
    with_formula(product_.activation, [&](auto f) {
      with_beta(product_.target.beta, [&](auto accumulate) {
        for (int64_t r = 0; r < count; ++r) {
          const int64_t h = (u + r) * step + phase;
          if (h >= H) break;
          // Whole vectors where the next row, which is still to come, lies behind this one.
          const int64_t room =
              accumulate || step > 1 ? width : (std::min(count, H - u) - r) * width;
          store_row(plane + h * width, result_ + r * scratch_.stride,
                    std::min(scratch_.stride, room), 1, shift, f, accumulate);
        }
      });
    });
  }

  const ConvProduct& product_;
  const Planes& planes_;
  const MultiplyScratch<W>& scratch_;
  W *frame_, *result_, *weights_;
};

template <class W>
struct CorrelateScratch {
  W *frames, *cells;
  Lanes<W>* sums;
  int64_t frame, grid, stride, slots;
  size_t bytes;

  CorrelateScratch(const Planes& p, void* base) {
    BumpAllocator allocator(base);
    const ConvGeometry& g = p.geometry;
    frame = p.frame_size<W>();
    stride = round_up(g.GW, lanes<W>);
    grid = (p.band + depthwise::correlated_rows) * stride;
    slots = slots_of(p, g.O, frame + grid);
    frames = allocator.take<W>(slots * frame);
    cells = allocator.take<W>(slots * grid);
    sums = allocator.take<Lanes<W>>(slots * g.area());
    bytes = allocator.used();
  }
};

// cells = rows [u, u + count) of a plane of the grid, with zeros up to whole vectors and behind the
// last row.
template <class W, class T>
void load_cells(W* cells, const T* plane, const T* end, const Planes& p, int64_t u, int64_t count,
                int64_t stride) {
  const int64_t width = p.target_W;
  for (int64_t r = 0; r < count; ++r) {
    W* const out = cells + r * stride;
    const T* const in = plane + (u + r) * width;
    if constexpr (std::is_same_v<W, T>) {
      if (end - in >= stride) {
        depthwise::copy_row(out, in, width);
        continue;
      }
    }
    std::copy_n(in, width, out);
    std::fill_n(out + width, stride - width, W(0));
  }
  std::fill_n(cells + count * stride, depthwise::correlated_rows * stride, W(0));
}

// The gradient of filter o is the sum over lanes.
template <class W>
void store_filter(const GradTarget& w, const Lanes<W>* sums, const ConvGeometry& g, int64_t o) {
  W* const out = w.grad.as<W>() + o * g.area();
  with_beta(w.beta, [&](auto accumulate) {
    for (int64_t k = 0; k < g.area(); ++k) {
      W sum = 0;
      for (int64_t lane = 0; lane < lanes<W>; ++lane) sum += sums[k][lane];
      accrue::store(out[k], sum, accumulate);
    }
  });
}

// The gradient of filter o: the sum over images, bands and rows in their order, lane by lane, then
// over lanes.
template <class T>
void correlate_filter(const GradTarget& w, const View& grid, const View& image, const Planes& p,
                      const CorrelateScratch<Wide<T>>& x, int64_t o, int slot) {
  using W = Wide<T>;
  const ConvGeometry& g = p.geometry;
  W *const frame = x.frames + slot * x.frame, *const cells = x.cells + slot * x.grid;
  Lanes<W>* const sums = x.sums + slot * g.area();
  std::fill_n(sums, g.area(), Lanes<W>{});
  const T *const all_pixels = image.as<const T>(), *const all_cells = grid.as<const T>();
  const RowTaps& rows = p.rows[0];
  for (int64_t n = 0; n < grid.shape[0]; ++n)
    for (int64_t u = 0; u < p.target_H; u += p.band) {
      const int64_t count = std::min(p.band, p.target_H - u);
      depthwise::load_plane(frame, all_pixels + (n * g.C + o / (g.O / g.C)) * g.H * g.W,
                            all_pixels + image.numel(), p, u, count);
      load_cells(cells, all_cells + (n * g.O + o) * g.GH * g.GW, all_cells + grid.numel(), p, u,
                 count, x.stride);
      depthwise::correlate<W>({.frame = frame,
                               .row_size = p.row_size(),
                               .column_at = p.column_at.data(),
                               .taps_h = rows.count,
                               .taps_w = g.KW,
                               .source_step = p.source_step,
                               .apart = rows.apart,
                               .rows = count,
                               .vectors = x.stride / lanes<W>},
                              {sums, cells, x.stride});
    }
  store_filter<W>(w, sums, g, o);
}

// The same products of planes that are read where they lie. A filter is turned round to scatter.
void multiply_directly(const ConvProduct& product) {
#if defined(__AVX512F__)
  const ConvGeometry& g = product.geometry;
  const depthwise::DirectPlanes planes(product.direction, g);
  const float *const source = product.source.as<const float>(), *const w = product.weights.w
                                                                               .as<const float>();
  float* const target = product.target.grad.as<float>();
  const float* const bias = product.bias.data ? product.bias.as<const float>() : nullptr;
  const int64_t of_source = planes.source_H * planes.source_W,
                of_target = planes.target_H * planes.target_W;
  parallel_each(product.N() * g.C, of_target, [&](int64_t i) {
    const int64_t c = i % g.C;
    float weights[depthwise::direct_taps * depthwise::direct_taps];
    std::copy_n(w + c * g.area(), g.area(), weights);
    if (product.direction == Direction::scatter) std::reverse(weights, std::end(weights));
    depthwise::multiply_directly(target + i * of_target, source + i * of_source, weights,
                                 bias ? bias[c] : 0.0f, product.target.beta != 0, planes);
  });
#else
  static_cast<void>(product);
#endif
}

void correlate_directly(GradTarget w, View grid, View image, const ConvGeometry& g) {
#if defined(__AVX512F__)
  const depthwise::DirectPlanes planes(Direction::gather, g);
  const float *const cells = grid.as<const float>(), *const pixels = image.as<const float>();
  parallel_each(g.C, grid.shape[0] * g.GH * g.GW, [&](int64_t c) {
    Lanes<float> sums[depthwise::direct_taps * depthwise::direct_taps] = {};
    for (int64_t n = 0; n < grid.shape[0]; ++n)
      depthwise::correlate_directly(sums, cells + (n * g.C + c) * g.GH * g.GW,
                                    pixels + (n * g.C + c) * g.H * g.W, planes);
    store_filter<float>(w, sums, g, c);
  });
#else
  static_cast<void>(w), static_cast<void>(grid), static_cast<void>(image), static_cast<void>(g);
#endif
}

}  // namespace

int64_t depthwise_bytes(Direction direction, const ConvGeometry& g, int64_t N, DType dtype) {
  return dispatch_wide(wide(dtype), [&]<class W>() {
    return static_cast<int64_t>(MultiplyScratch<W>(Planes(direction, g), N, nullptr).bytes);
  });
}

int64_t depthwise_correlate_bytes(const ConvGeometry& g, int64_t, DType dtype) {
  return dispatch_wide(wide(dtype), [&]<class W>() {
    return static_cast<int64_t>(CorrelateScratch<W>(Planes(Direction::gather, g), nullptr).bytes);
  });
}

void depthwise_multiply(const ConvProduct& product) {
  if (depthwise::is_direct(product.geometry, product.source.dtype) &&
      product.activation == Activation::none)
    return multiply_directly(product);
  const Planes planes(product.direction, product.geometry);
  const int64_t N = product.N(), targets = product.target.grad.shape[1];
  dispatch_floating(product.source.dtype, [&]<class T>() {
    using W = Wide<T>;
    const MultiplyScratch<W> scratch(planes, N, product.workspace.data);
    const int64_t items = N * targets * planes.bands, at_once = items_of_chunk(planes);
    std::array<bool, ConvTiling::most_slots> prepared{};
    parallel_chunks(scratch.chunks, static_cast<int>(scratch.slots), [&](int64_t chunk, int slot) {
      if (!std::exchange(prepared[static_cast<size_t>(slot)], true))
        std::fill_n(scratch.frames + slot * scratch.frame, scratch.frame, W(0));
      const PlaneProduct<T> product_of_plane(product, planes, scratch, slot);
      const int64_t end = std::min((chunk + 1) * at_once, items);
      for (int64_t item = chunk * at_once; item < end; ++item) {
        const int64_t plane = item / planes.bands, u = item % planes.bands * planes.band;
        product_of_plane.compute(plane / targets, plane % targets, u);
      }
    });
  });
}

void depthwise_correlate(GradTarget w, View grid, View image, const ConvGeometry& g,
                         View workspace) {
  if (depthwise::is_direct(g, grid.dtype)) return correlate_directly(w, grid, image, g);
  const Planes planes(Direction::gather, g);
  dispatch_floating(grid.dtype, [&]<class T>() {
    using W = Wide<T>;
    const CorrelateScratch<W> scratch(planes, workspace.data);
    std::array<bool, ConvTiling::most_slots> prepared{};
    parallel_chunks(g.O, static_cast<int>(scratch.slots), [&](int64_t o, int slot) {
      if (!std::exchange(prepared[static_cast<size_t>(slot)], true))
        std::fill_n(scratch.frames + slot * scratch.frame, scratch.frame, W(0));
      correlate_filter<T>(w, grid, image, planes, scratch, o, slot);
    });
  });
}

}  // namespace accrue::cpu
