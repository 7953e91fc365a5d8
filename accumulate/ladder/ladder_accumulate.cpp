#include "accrue/eigen.h"
#include "accumulate/accumulate.h"
#include "accumulate/ladder/ladders.h"
#include "accumulate/ladder/scalar_ops.h"
#include "kernels/linear.h"

namespace accrue::ladder {
namespace {

constexpr double scale = 1.0 / 4;  // 1/K

// The bound covers three roundings: of scale, of the product, of the sum.
template <class G>
double error_of_sum(const Arrays& a, const Array& g) {
  const auto before = a.sum.initial.span<float>();
  const G* in = g.initial.view().as<const G>();
  return worst_error(a.sum.on_host().span<float>(), [=](size_t i) -> Expected {
    const double old = before[i], added = scale * widen(in[i]);
    return {old + added, 3 * rounding * (std::abs(old) + std::abs(added))};
  });
}

// The weight gradient of one layer: a sum of as many terms as there are samples, none above 1.
struct WeightGradient {
  View dw;
  Tensor x, dz;
  size_t offset;

  double error(const Arrays& a, const Tensor& after, float beta) const {
    const int64_t N = x.size(0), O = dz.size(1), I = x.size(1);
    const Tensor x_host = x.to(Device::cpu), dz_host = dz.to(Device::cpu);
    const auto xs = as_matrix<const float>(x_host), dzs = as_matrix<const float>(dz_host);
    const auto count = static_cast<size_t>(O * I);
    const auto before = a.sum.initial.span<float>().subspan(offset, count);
    return worst_error(after.span<float>().subspan(offset, count), [=](size_t at) -> Expected {
      const auto o = static_cast<int64_t>(at) / I, i = static_cast<int64_t>(at) % I;
      const double old = beta == 0 ? 0 : double(before[at]);
      return {old + dzs.col(o).cast<double>().dot(xs.col(i).cast<double>()),
              double(N + 2) * rounding * (double(N) + std::abs(old))};
    });
  }
};

// A matrix from the elements of g, random numbers below 1: x or dz.
Tensor random_rows(const Arrays& a, int64_t rows, int64_t columns) {
  Tensor x = Tensor::empty({rows, columns}, DType::f32, Device::cpu, Category::workspace);
  const auto from = a.g.initial.span<float>();
  size_t i = 0;
  for (float& value : x.span<float>()) value = from[i++ % from.size()];
  return x.to(a.device, Category::workspace);
}

std::vector<WeightGradient> products_of(const Arrays& a, int64_t N) {
  std::vector<WeightGradient> products;
  for (size_t p = 0; p < a.layout.size(); ++p) {
    const Shape& shape = a.layout[p].tensor.shape();
    if (shape.rank() != 2) continue;
    View dw = a.sum.parameters[p];
    dw.shape = shape;
    products.push_back({dw, random_rows(a, N, shape[1]), random_rows(a, N, shape[0]),
                        static_cast<size_t>(a.layout[p].offset)});
  }
  return products;
}

}  // namespace

std::vector<Rung> accumulate_ladder(const Arrays& a) {
  const int64_t n = a.count(), P = a.size(), tensors = a.tensors();
  const auto error = [&a] { return error_of_sum<float>(a, a.g); };
  return {
      {"accumulate", "temporary, then sum", 2 * tensors, 20 * n,
       for_each_parameter(a,
                          [&a](size_t p) {
                            scale_scalar(a.t.parameters[p], a.g.parameters[p], scale);
                            add_scalar(a.sum.parameters[p], a.t.parameters[p]);
                          }),
       error, ""},
      {"accumulate", "fused, scalar", tensors, 12 * n,
       for_each_parameter(
           a, [&a](size_t p) { accumulate_scalar(a.sum.parameters[p], a.g.parameters[p], scale); }),
       error, ""},
      {"accumulate", "fused, 16 bytes", tensors, 12 * n,
       for_each_parameter(
           a, [&a](size_t p) { accumulate(a.sum.parameters[p], a.g.parameters[p], scale); }),
       error, ""},
      {"accumulate", "flat (shipped)", 1, 12 * P,
       [&a] { accumulate(a.sum.flat(), a.g.flat(), scale); }, error, ""},
      {"accumulate", "flat, bf16 gradients", 1, 10 * P,
       [&a] { accumulate(a.sum.flat(), a.g_bf16.flat(), scale); },
       [&a] { return error_of_sum<BFloat16>(a, a.g_bf16); }, ""},
      {"accumulate", "flat, fp16 gradients", 1, 10 * P,
       [&a] { accumulate(a.sum.flat(), a.g_f16.flat(), scale); },
       [&a] { return error_of_sum<Half>(a, a.g_f16); }, ""}};
}

std::vector<Rung> gemm_ladder(const Arrays& a, int64_t N) {
  const std::vector<WeightGradient> products = products_of(a, N);
  if (products.empty()) return {};
  const auto run = [products](float beta) {
    return [products, beta] {
      for (const WeightGradient& p : products)
        multiply({p.dw, beta}, p.dz.view(), p.x.view(), Transpose::yes, Transpose::no);
    };
  };
  const auto error = [products, &a](float beta) {
    return [products, &a, beta] {
      const Tensor after = a.sum.on_host();
      double worst = 0;
      for (const WeightGradient& p : products) worst = std::max(worst, p.error(a, after, beta));
      return worst;
    };
  };
  int64_t weights = 0, inputs = 0;
  for (const WeightGradient& p : products) {
    weights += p.dw.numel();
    inputs += p.x.numel() + p.dz.numel();
  }
  const std::string written = fmt::format("weight gradients of {} samples", N);
  return {{"accumulate", written, static_cast<int64_t>(products.size()), 4 * (weights + inputs),
           run(0), error(0), ""},
          {"accumulate", "and beta 1 adds", 0, 4 * weights, run(1), error(1), written}};
}

}  // namespace accrue::ladder
