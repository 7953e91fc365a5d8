#include "kernels/spectral_norm.h"

#include <cmath>

#include "kernels/detail/row_products.h"
#include "kernels/detail/spectral_gradient.h"

namespace accrue {
namespace {

RowPieces rows_of(const Shape& w) { return {w[0], w.numel(1, w.rank())}; }

}  // namespace

namespace cpu {
namespace {

// x[o] = the sum of row o's pieces, then x = x / max(|x|, eps).
template <class T>
void normalize_sums(T* x, const double* partials, int64_t n, int64_t pieces, double eps) {
  double squares = 0;
  for (int64_t i = 0; i < n; ++i) {
    double sum = 0;
    for (int64_t p = 0; p < pieces; ++p) sum += partials[i * pieces + p];
    squares += sum * sum;
    x[i] = static_cast<T>(sum);
  }
  const double norm = std::max(std::sqrt(squares), eps);
  for (int64_t i = 0; i < n; ++i) x[i] = static_cast<T>(x[i] / norm);
}

}  // namespace

// y = w / sigma. partials [count] hold the pieces' sums.
void spectral_normalize(View y, View sigma, View partials, View w, View u, View v) {
  dispatch_floating(
      y.dtype, [&]<class T, class W = Wide<T>>() {
        const RowPieces cut = rows_of(w.shape);
        const W *in = w.as<W>(), *left = u.as<W>();
        double* sums = partials.as<double>();
        row_products(sums, in, v.as<const W>(), 0, cut);
        double sum = 0;
        for (int64_t i = 0; i < cut.count(); ++i) sum += left[i / cut.pieces] * sums[i];
        const W divisor = *sigma.as<W>() = static_cast<W>(sum);
        T* out = y.as<T>();
        parallel_each(w.numel(), 1, [&](int64_t i) { out[i] = T(in[i] / divisor); });
      });
}

// dw may be dy.
void spectral_normalize_backward(GradTarget dw, View partials, View dy, View w, View sigma, View u,
                                 View v) {
  dispatch_wide(w.dtype, [&]<class T>() {
    const RowPieces cut = rows_of(w.shape);
    const T *d = dy.as<T>(), *left = u.as<T>(), *right = v.as<T>();
    double* sums = partials.as<double>();
    row_products(sums, d, w.as<const T>(), cut.K, cut);
    double sum = 0;
    for (int64_t i = 0; i < cut.count(); ++i) sum += sums[i];
    const T divisor = *sigma.as<T>(), s = static_cast<T>(sum / divisor);
    with_beta(dw.beta, [&](auto accumulate) {
      for_each_row_piece(cut, [&](int64_t, int64_t o, int64_t begin, int64_t end) {
        T* out = dw.grad.as<T>() + o * cut.K;
        const T* d_row = d + o * cut.K;
        for (int64_t k = begin; k < end; ++k)
          store(out[k], spectral_gradient(d_row[k], s, left[o], right[k], divisor), accumulate);
      });
    });
  });
}

// partials: max(K, count) elements.
void power_iteration(View u, View v, View partials, View w, double eps) {
  dispatch_wide(w.dtype, [&]<class T>() {
    const RowPieces cut = rows_of(w.shape);
    const T* in = w.as<T>();
    T *left = u.as<T>(), *right = v.as<T>();
    double* sums = partials.as<double>();
    // Each column is summed in the order of rows, wherever the columns are cut.
    parallel_for(cut.K, cut.O, [&](int64_t begin, int64_t end) {
      std::fill(sums + begin, sums + end, 0.0);
      for (int64_t o = 0; o < cut.O; ++o)
        for (int64_t k = begin; k < end; ++k) sums[k] += double(in[o * cut.K + k]) * left[o];
    });
    normalize_sums(right, sums, cut.K, 1, eps);
    row_products<T>(sums, in, right, 0, cut);
    normalize_sums(left, sums, cut.O, cut.pieces, eps);
  });
}

}  // namespace cpu

template <>
struct detail::WorkOf<cpu::spectral_normalize> {
  Work operator()(const View& y, const View&, const View&, const View& w, const View&,
                  const View&) const {
    return {.flops = 2 * double(w.numel()), .bytes = bytes_of(y) + 2 * bytes_of(w)};
  }
};

template <>
struct detail::WorkOf<cpu::spectral_normalize_backward> {
  Work operator()(const GradTarget& dw, const View&, const View& dy, const View& w, const View&,
                  const View&, const View&) const {
    return {.flops = 2 * double(w.numel()), .bytes = bytes_of(dw) + 2 * bytes_of(dy) + bytes_of(w)};
  }
};

template <>
struct detail::WorkOf<cpu::power_iteration> {
  Work operator()(const View&, const View&, const View&, const View& w, double) const {
    return {.flops = 4 * double(w.numel()), .bytes = 2 * bytes_of(w)};
  }
};

namespace cuda {
decltype(cpu::spectral_normalize) spectral_normalize;
decltype(cpu::spectral_normalize_backward) spectral_normalize_backward;
decltype(cpu::power_iteration) power_iteration;
}  // namespace cuda

namespace {

RowPieces check_vectors(std::string_view op, const Tensor& w, const Tensor& u, const Tensor& v) {
  check_same(op, {&w, &u, &v});
  check(!is_16_bit_dtype(w.dtype()) && w.shape().rank() >= 2 && w.numel() > 0 &&
            u.shape() == Shape{w.size(0)} && v.shape() == Shape{w.numel() / w.size(0)},
        "[{}] w {} {}, u {} and v {}: expected w [O, ...] of float32 or float64, u [O] and v [K], "
        "K elements in a row of w",
        op, name(w.dtype()), w.shape(), u.shape(), v.shape());
  return rows_of(w.shape());
}

}  // namespace

Tensor detail::spectral_normalize(const Tensor& w, const Tensor& u, const Tensor& v) {
  const RowPieces cut = check_vectors("spectral_normalize", w, u, v);
  const bool has_copy = w.variable() && w.variable()->copy.defined();
  const DType dtype = has_copy ? w.variable()->copy.dtype() : w.dtype();
  const Device device = w.device();
  Tensor y = Tensor::empty(w.shape(), dtype, device);
  const Tensor sigma = Tensor::empty({}, w.dtype(), device);
  launch<cpu::spectral_normalize, cuda::spectral_normalize>(
      device, y.view(), sigma.view(), row_products_scratch(cut.count(), device).view(), w.view(),
      u.view(), v.view());

  const Edge edge = w;
  record("spectral_normalize", y, {edge},
         [=, w = w.saved(), u = u.saved(), v = v.saved()](Tensor& dy) {
           const Tensor partials = row_products_scratch(cut.count(), device);
           if (auto dw = claim_grad_over(edge, dy))
             launch<cpu::spectral_normalize_backward, cuda::spectral_normalize_backward>(
                 device, *dw, partials.view(), dy.view(), w.view(), sigma.view(), u.view(),
                 v.view());
         });
  // Unlike y, its gradient is not rounded to 16 bits.
  if (y.variable()) y.variable()->dtype = w.dtype();
  return y;
}

void detail::power_iteration(const Tensor& u, const Tensor& v, const Tensor& w, double eps) {
  const RowPieces cut = check_vectors("power_iteration", w, u, v);
  const Device device = w.device();
  launch<cpu::power_iteration, cuda::power_iteration>(
      device, u.view(), v.view(), row_products_scratch(std::max(cut.K, cut.count()), device).view(),
      w.view(), eps);
}

}  // namespace accrue
