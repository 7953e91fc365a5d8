#include "kernels/windows.h"

#include "kernels/backend.h"
#include "kernels/indirect_gemm.h"
#include "kernels/windows_cuda.h"
#include "kernels/windows_plan.h"

namespace accrue {
namespace {

using cpu::IndirectGemm, cpu::lanes;

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

// The scratch of correlate, whose product is what the taps see times the transposed cells.
template <class T>
struct CorrelateScratch {
  int32_t *image_at, *cell_at, *transposed_at;
  T *frames, *cells, *partials;
  // Threads share the bands, each group of bands with a partial sum of its own. Where partial sums
  // are too large to have several, they share the image's channels instead, in slices.
  int64_t groups, slices, stride, frame_size, cells_size, partial_size;
  size_t bytes;

  CorrelateScratch(const Plan& p, const Windows& s, void* base) {
    constexpr int64_t partial_elements = 1 << 18;
    Carver carver(base);
    stride = round_up(s.O, lanes<T>);
    frame_size = p.frame(p.band);
    cells_size = p.band * s.GW * stride;
    partial_size = s.taps() * stride;
    groups = std::clamp<int64_t>(partial_elements / partial_size, 1, p.parts);
    slices = groups == 1 ? std::min<int64_t>(s.C, omp_get_max_threads()) : 1;
    image_at = carver.take<int32_t>(s.taps());
    cell_at = carver.take<int32_t>(p.band * s.GW);
    transposed_at = carver.take<int32_t>(p.band * s.GW);
    frames = carver.take<T>(groups * slices * frame_size);
    cells = carver.take<T>(groups * slices * cells_size);
    partials = carver.take<T>(groups * partial_size);
    bytes = carver.used();
  }
};

template <template <class> class AnyScratch>
Tensor workspace_of(Direction direction, const Windows& s, int64_t N, DType dtype, Device device) {
  const int64_t bytes = dispatch_floating(dtype, [&]<class T>() {
    if (plans_for_cuda(device)) return cuda::workspace_bytes(s, N, dtype);
    return static_cast<int64_t>(AnyScratch<T>(Plan(direction, s, N), s, nullptr).bytes);
  });
  return Tensor::empty({bytes}, DType::u8, device, Category::workspace);
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

// Calls body(part, begin, end) for parts of equal size of `count` things, the parts in parallel.
template <class Body>
void for_each_part(int64_t parts, int64_t count, Body body) {
  parallel_for(parts, parallel_grain, [&](int64_t first, int64_t last) {
    for (int64_t part = first; part < last; ++part)
      body(part, count * part / parts, count * (part + 1) / parts);
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
                  int64_t phase, Accumulate accumulate) {
  const int64_t h_phase = phase / p.w.target_step, w_phase = phase % p.w.target_step;
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
    const bool gather = direction == Direction::gather;
    Scratch<T> scratch(plan, s, workspace.data);
    fill_tables(scratch, plan, s, gather ? s.taps() : s.area(), gather ? s.area() : s.taps());
    const Epilogue<T> epilogue{target.grad.as<T>(), b.data ? b.as<T>() : nullptr, activation};
    for_each_part(plan.parts, N * plan.bands, [&](int64_t part, int64_t begin, int64_t end) {
      T* frame = scratch.frames + part * scratch.frame_size;
      T* result = scratch.results + part * scratch.result_size;
      std::fill_n(frame, scratch.frame_size, T(0));
      for (int64_t item = begin; item < end; ++item) {
        const Band band(plan, item);
        load_frame(frame, source.as<T>(), plan, band, 0, plan.source_channels);
        for (int64_t phase = 0; phase < scratch.phases; ++phase) {
          IndirectGemm product = scratch.products[phase];
          product.N = round_up(plan.cells(band.rows), lanes<T>);
          indirect_gemm(result, w.as<T>(), frame, product, Result::write);
          with_beta(target.beta, [&](auto accumulate) {
            store_result(epilogue, result, product.N, plan, band, phase, accumulate);
          });
        }
      }
    });
  });
}

template <class T>
void fill_tables(const CorrelateScratch<T>& x, const Plan& p, const Windows& s) {
  for (int64_t k = 0; k < s.taps(); ++k) {
    const int64_t c = k / s.area(), i = k % s.area() / s.KW, j = k % s.KW;
    x.image_at[k] =
        static_cast<int32_t>(c * p.channel() + p.offset(*p.h.offset(i, 0), *p.w.offset(j, 0)));
  }
  for (int64_t cell = 0; cell < p.band * s.GW; ++cell) {
    x.cell_at[cell] = static_cast<int32_t>(cell / s.GW * p.columns() + cell % s.GW);
    x.transposed_at[cell] = static_cast<int32_t>(cell * x.stride);
  }
}

// w[o, k] = sum_g partials[g][k, o] + beta * w[o, k].
template <class T>
void add_partials(GradTarget w, const CorrelateScratch<T>& x, const Windows& s) {
  const int64_t taps = s.taps();
  with_beta(w.beta, [&](auto accumulate) {
    parallel_for(s.O, taps * x.groups, [&](int64_t begin, int64_t end) {
      constexpr int64_t tile = 16;  // columns of the partials, rows of w: both by the cache line
      for (int64_t k_begin = 0; k_begin < taps; k_begin += tile)
        for (int64_t o = begin; o < end; ++o)
          for (int64_t k = k_begin; k < std::min(k_begin + tile, taps); ++k) {
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
    const int64_t N = grid.shape[0];
    const Plan plan(Direction::gather, s, N);
    const CorrelateScratch<T> x(plan, s, workspace.data);
    fill_tables(x, plan, s);
    for_each_part(x.groups, N * plan.bands, [&](int64_t group, int64_t begin, int64_t end) {
      for_each_part(x.slices, s.C, [&](int64_t slice, int64_t c_begin, int64_t c_end) {
        const int64_t part = group * x.slices + slice, first_tap = c_begin * s.area();
        T *frame = x.frames + part * x.frame_size, *cells = x.cells + part * x.cells_size;
        std::fill_n(frame, x.frame_size, T(0));
        for (int64_t item = begin; item < end; ++item) {
          const Band band(plan, item);
          load_frame(frame, image.as<T>(), plan, band, c_begin, c_end);
          transpose(cells, x.stride, grid.as<T>() + (band.n * s.O * s.GH + band.begin) * s.GW,
                    s.GH * s.GW, s.O, band.rows * s.GW);
          const IndirectGemm product{.M = (c_end - c_begin) * s.area(),
                                     .N = x.stride,
                                     .K = band.rows * s.GW,
                                     .a_row = x.image_at + first_tap,
                                     .a_col = x.cell_at,
                                     .b_row = x.transposed_at};
          indirect_gemm(x.partials + group * x.partial_size + first_tap * x.stride, frame, cells,
                        product, item == begin ? Result::write : Result::add);
        }
      });
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
