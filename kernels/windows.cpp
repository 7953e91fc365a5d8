#include "kernels/windows.h"

#include <optional>

#include "kernels/backend.h"
#include "kernels/indirect_gemm.h"

namespace accrue {
namespace {

using cpu::IndirectGemm, cpu::lanes;

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t step) { return ceil_div(a, step) * step; }

enum class Direction { gather, scatter };

// One dimension of a product. Target position t = u * target_step + phase, phase < target_step,
// draws through tap i from source position u * source_step + offset(i, phase), where there is one.
struct Axis {
  int64_t source, target, source_step, target_step, taps, padding, dilation;
  int64_t first = 0, last = 0;  // the smallest and largest offset

  Axis(Direction direction, int64_t image, int64_t grid, int64_t taps, const Windows& s)
      : source(direction == Direction::gather ? image : grid),
        target(direction == Direction::gather ? grid : image),
        source_step(direction == Direction::gather ? s.stride : 1),
        target_step(direction == Direction::gather ? 1 : s.stride),
        taps(taps),
        padding(direction == Direction::gather ? s.padding : -s.padding),
        dilation(direction == Direction::gather ? s.dilation : -s.dilation) {
    std::optional<int64_t> low, high;
    for (int64_t phase = 0; phase < target_step; ++phase)
      for (int64_t i = 0; i < taps; ++i)
        if (const auto at = offset(i, phase)) {
          low = std::min(low.value_or(*at), *at);
          high = std::max(high.value_or(*at), *at);
        }
    first = *low, last = *high;
  }

  std::optional<int64_t> offset(int64_t tap, int64_t phase) const {
    const int64_t distance = phase - padding + tap * dilation;
    if (distance % target_step != 0) return std::nullopt;
    return distance / target_step;
  }
  // Target positions of one phase (of the first, which has most).
  int64_t steps() const { return ceil_div(target, target_step); }
  // The padded source is stored as one plane per phase, so that neighbours in a target row draw
  // from neighbours in a plane's row.
  int64_t phases() const { return std::min(source_step, last - first + 1); }
  int64_t phase_of(int64_t offset) const { return (offset - first) % source_step; }
  int64_t index_of(int64_t offset) const { return (offset - first) / source_step; }
  // Positions in a plane that `steps` target positions draw from.
  int64_t extent(int64_t steps) const { return steps + index_of(last); }
};

// Hands out parts of a workspace; with base null it only counts.
class Carver {
 public:
  explicit Carver(void* base) : base_(static_cast<std::byte*>(base)) {}

  template <class T>
  T* take(int64_t count) {
    const size_t at = std::exchange(
        used_,
        used_ + static_cast<size_t>(round_up(count * int64_t{sizeof(T)}, Ledger::alignment)));
    return base_ ? reinterpret_cast<T*>(base_ + at) : nullptr;
  }
  size_t used() const { return used_; }

 private:
  std::byte* base_;
  size_t used_ = 0;
};

// How one product runs: threads take parts of the N * bands bands of target rows.
struct Plan {
  Axis h, w;
  int64_t source_channels, target_channels, band, bands, parts;

  Plan(Direction direction, const Windows& s, int64_t N)
      : h(direction, s.H, s.GH, s.KH, s),
        w(direction, s.W, s.GW, s.KW, s),
        source_channels(direction == Direction::gather ? s.C : s.O),
        target_channels(direction == Direction::gather ? s.O : s.C) {
    // A band and its result stay in the second-level cache; few images make more bands.
    constexpr int64_t cache_elements = 1 << 16;
    const int64_t threads = omp_get_max_threads(), rows = h.steps();
    const int64_t fitting =
        (cache_elements - frame(0)) / (frame(1) - frame(0) + target_channels * columns());
    band = std::clamp<int64_t>(std::min(fitting, N * rows / threads), 1, rows);
    bands = ceil_div(rows, band);
    parts = std::min(threads, N * bands);
  }

  int64_t columns() const { return w.extent(w.steps()); }
  int64_t plane(int64_t rows) const { return h.extent(rows) * columns(); }
  int64_t channel() const { return h.phases() * w.phases() * plane(band); }
  // Elements of the padded source for a band of `rows`.
  int64_t frame(int64_t rows) const {
    return source_channels * h.phases() * w.phases() * plane(rows);
  }
  // Target cells of a band, counted along the source's rows: those between the target's width and
  // the source's mean nothing.
  int64_t cells(int64_t rows) const { return (rows - 1) * columns() + w.steps(); }
  // Where the source's element for tap (i, j) of target cell 0 lies in a padded channel.
  int64_t offset(int64_t i_offset, int64_t j_offset) const {
    return (h.phase_of(i_offset) * w.phases() + w.phase_of(j_offset)) * plane(band) +
           h.index_of(i_offset) * columns() + w.index_of(j_offset);
  }
};

// The scratch of gather and scatter. `products` has one entry for each phase of the target.
template <class T>
struct Scratch {
  IndirectGemm* products;
  int32_t *weight_row, *weight_at, *source_at;
  T *frames, *results;
  int64_t frame_size, result_size, phases;
  size_t bytes;

  Scratch(const Plan& p, const Windows& s, void* base) {
    Carver carver(base);
    phases = p.h.target_step * p.w.target_step;
    frame_size = round_up(p.frame(p.band), lanes<T>) + lanes<T>;
    result_size = p.target_channels * round_up(p.cells(p.band), lanes<T>);
    products = carver.take<IndirectGemm>(phases);
    weight_row = carver.take<int32_t>(p.target_channels);
    weight_at = carver.take<int32_t>(p.source_channels * s.area());
    source_at = carver.take<int32_t>(p.source_channels * s.area());
    frames = carver.take<T>(p.parts * frame_size);
    results = carver.take<T>(p.parts * result_size);
    bytes = carver.used();
  }
};

// The scratch of correlate: `products` are image patches times cells.
template <class T>
struct CorrelateScratch {
  int32_t *image_at, *cell_at, *transposed_at;
  T *frames, *cells, *partials;
  // Threads share the bands, each group with a partial sum of its own, and then the channels.
  int64_t groups, channel_groups, stride, frame_size, cells_size, partial_size;
  size_t bytes;

  CorrelateScratch(const Plan& p, const Windows& s, void* base) {
    constexpr int64_t partial_elements = 1 << 18;
    Carver carver(base);
    stride = round_up(s.O, lanes<T>);
    frame_size = p.frame(p.band);
    cells_size = p.band * s.GW * stride;
    partial_size = s.taps() * stride;
    groups = std::clamp<int64_t>(partial_elements / partial_size, 1, p.parts);
    channel_groups = std::min<int64_t>(s.C, omp_get_max_threads() / groups);
    image_at = carver.take<int32_t>(s.taps());
    cell_at = carver.take<int32_t>(p.band * s.GW);
    transposed_at = carver.take<int32_t>(p.band * s.GW);
    frames = carver.take<T>(groups * channel_groups * frame_size);
    cells = carver.take<T>(groups * channel_groups * cells_size);
    partials = carver.take<T>(groups * partial_size);
    bytes = carver.used();
  }
};

template <template <class> class AnyScratch>
Tensor workspace_of(Direction direction, const Windows& s, int64_t N, DType dtype, Device device) {
  return dispatch_floating(dtype, [&]<class T>() {
    const AnyScratch<T> scratch(Plan(direction, s, N), s, nullptr);
    return Tensor::empty({static_cast<int64_t>(scratch.bytes)}, DType::u8, device,
                         Category::workspace);
  });
}

}  // namespace

Tensor gather_workspace(const Windows& s, int64_t N, DType dtype, Device device) {
  return workspace_of<Scratch>(Direction::gather, s, N, dtype, device);
}
Tensor scatter_workspace(const Windows& s, int64_t N, DType dtype, Device device) {
  return workspace_of<Scratch>(Direction::scatter, s, N, dtype, device);
}
Tensor correlate_workspace(const Windows& s, int64_t N, DType dtype, Device device) {
  return workspace_of<CorrelateScratch>(Direction::gather, s, N, dtype, device);
}

namespace cpu {
namespace {

// The rows of one image that a plan's band covers.
struct Band {
  int64_t n, begin, rows;

  Band(const Plan& p, int64_t item)
      : n(item / p.bands),
        begin(item % p.bands * p.band),
        rows(std::min(p.band, p.h.steps() - begin)) {}
};

// Calls body(part, band) for all bands of N images, the parts in parallel.
template <class Body>
void for_each_band(const Plan& p, int64_t N, int64_t parts, Body body) {
  const int64_t bands = N * p.bands;
  parallel_for(parts, parallel_grain, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part)
      for (int64_t item = bands * part / parts; item < bands * (part + 1) / parts; ++item)
        body(part, Band(p, item));
  });
}

// frame = channels [c_begin, c_end) of the source [N, channels, H, W] as a band sees them, one
// plane for each phase. The frame starts as zeros; those left and right of the source stay.
template <class T>
void load_frame(T* frame, const T* source, const Plan& p, Band band, int64_t c_begin,
                int64_t c_end) {
  const int64_t columns = p.columns(), planes = p.h.phases() * p.w.phases();
  for (int64_t plane = c_begin * planes; plane < c_end * planes; ++plane) {
    const int64_t c = plane / planes, h_phase = plane % planes / p.w.phases();
    const int64_t w0 = p.w.first + plane % p.w.phases(), step = p.w.source_step;
    const int64_t begin = std::clamp<int64_t>(ceil_div(-w0, step), 0, columns);
    const int64_t size =
        std::clamp<int64_t>(ceil_div(p.w.source - w0, step), begin, columns) - begin;
    const T* in =
        source + (band.n * p.source_channels + c) * p.h.source * p.w.source + w0 + begin * step;
    T* out = frame + plane * p.plane(p.band) + begin;
    for (int64_t r = 0; r < p.h.extent(band.rows); ++r, out += columns) {
      const int64_t h = (band.begin + r) * p.h.source_step + p.h.first + h_phase;
      if (h < 0 || h >= p.h.source) std::fill_n(out, size, T(0));
      else if (step == 1) std::copy_n(in + h * p.w.source, size, out);
      else
        for (int64_t v = 0; v < size; ++v) out[v] = in[h * p.w.source + v * step];
    }
  }
}

// What becomes of a product's result on its way to the target.
template <class T>
struct Epilogue {
  T* target;
  const T* bias;
  Activation activation;
};

template <class T, class Accumulate>
void store_row(T* out, const T* in, int64_t count, int64_t step, T shift, T low,
               Accumulate accumulate) {
  if (step == 1) {
#pragma omp simd
    for (int64_t v = 0; v < count; ++v) {
      const T value = in[v] + shift;
      store(out[v], value < low ? low : value, accumulate);
    }
  } else {
    for (int64_t v = 0; v < count; ++v) {
      const T value = in[v] + shift;
      store(out[v * step], value < low ? low : value, accumulate);
    }
  }
}

template <class T, class Accumulate>
void store_result(const Epilogue<T>& e, const T* result, int64_t stride, const Plan& p, Band band,
                  int64_t h_phase, int64_t w_phase, Accumulate accumulate) {
  const int64_t h_step = p.h.target_step, w_step = p.w.target_step, W = p.w.target;
  const int64_t width = ceil_div(W - w_phase, w_step);
  // Whole vectors where possible: what they write past a row's end, the next row overwrites.
  const int64_t vectors =
      accumulate || h_step > 1 || w_step > 1 ? width : round_up(width, lanes<T>);
  const T low = e.activation == Activation::relu ? T(0) : -std::numeric_limits<T>::infinity();
  for (int64_t m = 0; m < p.target_channels; ++m) {
    const T shift = e.bias ? e.bias[m] : T(0);
    T* plane = e.target + (band.n * p.target_channels + m) * p.h.target * W;
    const int64_t rows = std::min(band.rows, ceil_div(p.h.target - h_phase, h_step) - band.begin);
    for (int64_t r = 0; r < rows; ++r)
      store_row(plane + ((band.begin + r) * h_step + h_phase) * W + w_phase,
                result + m * stride + r * p.columns(), std::min(vectors, (rows - r) * width),
                w_step, shift, low, accumulate);
  }
}

// The tables of Scratch. Weight w[o, c, i, j] is at target * target_step + source * source_step +
// tap.
template <class T>
void fill_tables(Scratch<T>& x, const Plan& p, const Windows& s, int64_t target_step,
                 int64_t source_step) {
  for (int64_t m = 0; m < p.target_channels; ++m)
    x.weight_row[m] = static_cast<int32_t>(m * target_step);
  int64_t k = 0;
  for (int64_t phase = 0; phase < x.phases; ++phase) {
    const int64_t k_begin = k;
    for (int64_t c = 0; c < p.source_channels; ++c)
      for (int64_t i = 0; i < s.KH; ++i)
        for (int64_t j = 0; j < s.KW; ++j) {
          const auto h = p.h.offset(i, phase / p.w.target_step);
          const auto w = p.w.offset(j, phase % p.w.target_step);
          if (!h || !w) continue;
          x.weight_at[k] = static_cast<int32_t>(c * source_step + i * s.KW + j);
          x.source_at[k++] = static_cast<int32_t>(c * p.channel() + p.offset(*h, *w));
        }
    x.products[phase] = {.M = p.target_channels,
                         .N = 0,
                         .K = k - k_begin,
                         .a_row = x.weight_row,
                         .a_col = x.weight_at + k_begin,
                         .b_row = x.source_at + k_begin};
  }
}

// target = act(sum over taps and source channels of weight * source + b) + beta * target.
void multiply(Direction direction, GradTarget target, View source, View w, View b,
              Activation activation, const Windows& s, View workspace) {
  dispatch_floating(source.dtype, [&]<class T>() {
    const int64_t N = source.shape[0];
    const Plan plan(direction, s, N);
    Scratch<T> scratch(plan, s, workspace.data);
    const bool gather = direction == Direction::gather;
    fill_tables(scratch, plan, s, gather ? s.taps() : s.area(), gather ? s.area() : s.taps());
    const Epilogue<T> epilogue{target.grad.as<T>(), b.data ? b.as<T>() : nullptr, activation};
    std::fill_n(scratch.frames, plan.parts * scratch.frame_size, T(0));
    for_each_band(plan, N, plan.parts, [&](int64_t part, Band band) {
      T* frame = scratch.frames + part * scratch.frame_size;
      T* result = scratch.results + part * scratch.result_size;
      load_frame(frame, source.as<T>(), plan, band, 0, plan.source_channels);
      for (int64_t phase = 0; phase < scratch.phases; ++phase) {
        IndirectGemm product = scratch.products[phase];
        product.N = round_up(plan.cells(band.rows), lanes<T>);
        indirect_gemm(result, w.as<T>(), frame, product, Result::write);
        with_beta(target.beta, [&](auto accumulate) {
          store_result(epilogue, result, product.N, plan, band, phase / plan.w.target_step,
                       phase % plan.w.target_step, accumulate);
        });
      }
    });
  });
}

// w[o, k] = sum_g partials[g][k, o] + beta * w[o, k].
template <class T>
void add_partials(GradTarget w, const CorrelateScratch<T>& x, const Windows& s) {
  const int64_t taps = s.taps();
  with_beta(w.beta, [&](auto accumulate) {
    parallel_for(s.O, taps * x.groups, [&](int64_t begin, int64_t end) {
      for (int64_t k = 0; k < taps; ++k)
        for (int64_t o = begin; o < end; ++o) {
          T sum = 0;
          for (int64_t g = 0; g < x.groups; ++g)
            sum += x.partials[g * x.partial_size + k * x.stride + o];
          store(w.grad.as<T>()[o * taps + k], sum, accumulate);
        }
    });
  });
}

}  // namespace

void gather_windows(GradTarget grid, View image, View w, View b, Activation activation,
                    const Windows& s, View workspace) {
  multiply(Direction::gather, grid, image, w, b, activation, s, workspace);
}

void scatter_windows(GradTarget image, View grid, View w, View b, const Windows& s,
                     View workspace) {
  multiply(Direction::scatter, image, grid, w, b, Activation::none, s, workspace);
}

void correlate_windows(GradTarget w, View grid, View image, const Windows& s, View workspace) {
  dispatch_floating(grid.dtype, [&]<class T>() {
    const int64_t N = grid.shape[0], area = s.area();
    const Plan plan(Direction::gather, s, N);
    const CorrelateScratch<T> x(plan, s, workspace.data);
    for (int64_t k = 0; k < s.taps(); ++k)
      x.image_at[k] = static_cast<int32_t>(
          k / area * plan.channel() +
          plan.offset(*plan.h.offset(k % area / s.KW, 0), *plan.w.offset(k % s.KW, 0)));
    for (int64_t p = 0; p < plan.band * s.GW; ++p) {
      x.cell_at[p] = static_cast<int32_t>(p / s.GW * plan.columns() + p % s.GW);
      x.transposed_at[p] = static_cast<int32_t>(p * x.stride);
    }
    std::fill_n(x.frames, x.groups * x.channel_groups * x.frame_size, T(0));
    const int64_t bands = N * plan.bands;
    parallel_for(x.groups * x.channel_groups, parallel_grain, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        const int64_t group = part / x.channel_groups, slice = part % x.channel_groups;
        const int64_t c_begin = s.C * slice / x.channel_groups;
        const int64_t c_end = s.C * (slice + 1) / x.channel_groups;
        T *frame = x.frames + part * x.frame_size, *cells = x.cells + part * x.cells_size;
        const int64_t item_begin = bands * group / x.groups;
        for (int64_t item = item_begin; item < bands * (group + 1) / x.groups; ++item) {
          const Band band(plan, item);
          load_frame(frame, image.as<T>(), plan, band, c_begin, c_end);
          transpose(cells, x.stride, grid.as<T>() + (band.n * s.O * s.GH + band.begin) * s.GW,
                    s.GH * s.GW, s.O, band.rows * s.GW);
          const IndirectGemm product{.M = (c_end - c_begin) * area,
                                     .N = x.stride,
                                     .K = band.rows * s.GW,
                                     .a_row = x.image_at + c_begin * area,
                                     .a_col = x.cell_at,
                                     .b_row = x.transposed_at};
          indirect_gemm(x.partials + group * x.partial_size + c_begin * area * x.stride, frame,
                        cells, product, item == item_begin ? Result::write : Result::add);
        }
      }
    });
    add_partials(w, x, s);
  });
}

void channel_sum(GradTarget db, View dy) {
  dispatch_floating(dy.dtype, [&]<class T>() {
    const int64_t N = dy.shape[0], C = dy.shape[1], P = dy.shape.numel(2, dy.shape.rank());
    parallel_for(C, N * P, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        T sum = 0;
        for (int64_t n = 0; n < N; ++n) {
          const T* plane = dy.as<T>() + (n * C + c) * P;
          T plane_sum = 0;
#pragma omp simd reduction(+ : plane_sum)
          for (int64_t p = 0; p < P; ++p) plane_sum += plane[p];
          sum += plane_sum;
        }
        T& out = db.grad.as<T>()[c];
        out = blend(sum, db.beta, out);
      }
    });
  });
}

}  // namespace cpu
}  // namespace accrue
