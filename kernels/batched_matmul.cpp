#include "kernels/batched_matmul.h"

#include <algorithm>
#include <vector>

#include "core/ceil_div.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/indirect_gemm.h"
#include "kernels/detail/batches.h"
#include "kernels/detail/matmul.h"
#include "kernels/linear.h"

namespace accrue {

void Batches::Dimensions::add(const Dimension& inner) {
  count *= inner.size;
  if (inner.size == 1) return;
  if (rank > 0) {
    Dimension& outer = at[rank - 1];
    const auto continues = [&](int64_t of_outer, int64_t of_inner) {
      return of_outer == inner.size * of_inner;
    };
    if (continues(outer.c, inner.c) && continues(outer.a, inner.a) && continues(outer.b, inner.b)) {
      outer = {outer.size * inner.size, inner.c, inner.a, inner.b};
      return;
    }
  }
  at[rank++] = inner;
}

Batches::Matrices Batches::Dimensions::matrices(int64_t i) const {
  Matrices sum;
  for (int d = rank - 1; d >= 0; --d) {
    const int64_t at_d = i % at[d].size;
    i /= at[d].size;
    sum = {sum.c + at_d * at[d].c, sum.a + at_d * at[d].a, sum.b + at_d * at[d].b};
  }
  return sum;
}

Batches::Batches(const Shape& all, const Shape& c, const Shape& a, const Shape& b) {
  // 0 where the shape is broadcast.
  const auto stride_of = [&](const Shape& shape, int d) -> int64_t {
    const int own = d - all.rank() + shape.rank();
    return own < 0 || shape[own] == 1 ? 0 : shape.numel(own + 1, shape.rank());
  };
  for (int d = 0; d < all.rank(); ++d) {
    const Dimension dimension{all[d], stride_of(c, d), stride_of(a, d), stride_of(b, d)};
    (dimension.c == 0 ? terms : targets).add(dimension);
  }
}

namespace cpu {
namespace {

constexpr int64_t most_small_terms = 256;

template <class T>
void fill_with_zeros(T* c, int64_t n) {
  std::fill_n(c, n, T(Wide<T>(0)));
}

// gemm() of short sums on one thread: a panel of B stays in the cache while A's rows pass by. It is
// copied where its rows are columns of B, or its last vector would reach beyond them.
template <class W>
bool is_small(const Gemm<W>& g) {
  return 0 < g.K && g.K <= most_small_terms;
}
template <class W>
void small_gemm(W* c, const W* a, const W* b, const Gemm<W>& g) {
  alignas(64) W copied[most_small_terms * block_vectors * lanes<W>];
  const Partition panels(ceil_div(g.N, lanes<W>), block_vectors);
  for (int64_t p = 0; p < panels.parts; ++p) {
    const int64_t n = panels.begin(p) * lanes<W>, padded = panels.size(p) * lanes<W>;
    const int64_t width = std::min(padded, g.N - n);
    Matrix<const W> panel{b + n, g.N};
    if (g.b_op == Transpose::yes) {
      transpose(copied, padded, b + n * g.K, g.K, width, g.K);
      panel = {copied, padded};
    } else if (width < padded) {
      for (int64_t k = 0; k < g.K; ++k) {
        W* const row = copied + k * padded;
        std::fill_n(std::copy_n(panel.data + k * g.N, width, row), padded - width, W(0));
      }
      panel = {copied, padded};
    }
    multiply_panel<W>({c + n, g.N}, {a, g.row_of_a()}, g.a_op, panel, {g.M, width, g.K},
                      g.beta == 0 ? Result::write : Result::add);
  }
}

}  // namespace

// c = op(a) op(b) + beta * c, summed over the terms in order. Workspace: a matrix of sums where
// they would be rounded, in float.
void batched_matmul(GradTarget c, View a, View b, Batches batches, Transpose a_op, Transpose b_op,
                    View workspace) {
  if (c.grad.numel() == 0) return;
  const ProductSizes s(c.grad, a, a_op);
  const bool elsewhere = sums_elsewhere(batches, a.dtype);
  dispatch_floating(a.dtype, [&]<class T>() {
    using W = Wide<T>;
    // Many products are shared out among threads, few are each cut themselves.
    constexpr int64_t many = 16, products_of_element = 16;
    const int64_t targets = batches.targets.count;
    const int64_t work = s.M * s.N * s.K * batches.terms.count / products_of_element + s.M * s.N;
    const bool shares_out = targets >= many || work * targets <= parallel_grain;
    const auto add_up = [&](int64_t target, auto* sums, float beta) {
      if (batches.terms.count == 0 && beta == 0) fill_with_zeros(sums, s.M * s.N);
      const Batches::Matrices of_target = batches.targets.matrices(target);
      Gemm<T> product{.M = s.M, .N = s.N, .K = s.K, .a_op = a_op, .b_op = b_op, .beta = beta};
      for (int64_t j = 0; j < batches.terms.count; ++j, product.beta = 1) {
        const Batches::Matrices term = batches.terms.matrices(j);
        const T* const left = a.as<const T>() + (of_target.a + term.a) * s.M * s.K;
        const T* const right = b.as<const T>() + (of_target.b + term.b) * s.K * s.N;
        if constexpr (std::is_same_v<T, W>)
          if (shares_out && is_small(product)) {
            small_gemm(sums, left, right, product);
            continue;
          }
        gemm(sums, left, right, product);
      }
    };
    const auto out_of = [&](int64_t target) {
      return c.grad.as<T>() + batches.targets.matrices(target).c * s.M * s.N;
    };
    if (elsewhere) {
      W* const sums = workspace.as<W>();
      for (int64_t i = 0; i < targets; ++i) {
        add_up(i, sums, 0);
        T* const out = out_of(i);
        parallel_each(s.M * s.N, 1, [&](int64_t k) { out[k] = blend(sums[k], c.beta, out[k]); });
      }
      return;
    }
    const auto multiply = [&](int64_t i) { add_up(i, out_of(i), c.beta); };
    if (shares_out) return parallel_each(targets, work, multiply);
    for (int64_t i = 0; i < targets; ++i) multiply(i);
  });
}

}  // namespace cpu

template <>
struct detail::WorkOf<cpu::batched_matmul> {
  Work operator()(const GradTarget& c, const View& a, const View& b, const Batches& batches,
                  Transpose a_op, const auto&...) const {
    const ProductSizes s(c.grad, a, a_op);
    const int64_t products = batches.targets.count * batches.terms.count;
    return work_of(2 * double(products) * double(s.M * s.N) * double(s.K), c, a, b);
  }
};

namespace cuda {
decltype(cpu::batched_matmul) batched_matmul;
}  // namespace cuda

namespace {

// The sums, beside what a product on cuda needs.
Tensor workspace_for(const ProductSizes& s, const Batches& batches, DType dtype, Device device) {
  if (!plans_for_cuda(device))
    return Tensor::empty({sums_elsewhere(batches, dtype) ? s.M * s.N : 0}, wide(dtype), device,
                         Category::workspace);
  const int inner = batches.targets.rank - 1;
  const int64_t matrices = inner >= 0 ? batches.targets.at[inner].size : 1;
  const int64_t sums = sums_elsewhere(batches, dtype) ? matrices * s.M * s.N : 0;
  return matmul_workspace(s.M, s.N, s.K, device, round_up<int64_t>(sums * 4, 256));
}

void multiply_batches(GradTarget c, View a, View b, const Shape& all, Transpose a_op,
                      Transpose b_op) {
  const Batches batches(all, batch_shape(c.grad.shape), batch_shape(a.shape), batch_shape(b.shape));
  const ProductSizes s(c.grad, a, a_op);
  launch<cpu::batched_matmul, cuda::batched_matmul>(
      c.grad.device, c, a, b, batches, a_op, b_op,
      workspace_for(s, batches, a.dtype, c.grad.device).view());
}

Transpose other(Transpose op) { return op == Transpose::yes ? Transpose::no : Transpose::yes; }

// The gradient of a in c = op(a) op(b), by products of matrices or of batches.
template <class Multiply>
void differentiate_a(GradTarget da, View dc, View b, Transpose a_op, Transpose b_op,
                     Multiply&& multiply) {
  if (a_op == Transpose::no) multiply(da, dc, b, Transpose::no, other(b_op));
  else multiply(da, b, dc, b_op, Transpose::yes);
}
template <class Multiply>
void differentiate_b(GradTarget db, View dc, View a, Transpose a_op, Transpose b_op,
                     Multiply&& multiply) {
  if (b_op == Transpose::no) multiply(db, a, dc, other(a_op), Transpose::no);
  else multiply(db, dc, a, Transpose::yes, a_op);
}

// c of these sizes, whose products `multiply` makes.
template <class Multiply>
Tensor product_of(const Tensor& a, const Tensor& b, Transpose a_op, Transpose b_op,
                  const Shape& shape, Multiply multiply) {
  Tensor c = Tensor::empty(shape, a.dtype(), a.device());
  multiply(GradTarget{c.view(), 0}, a.view(), b.view(), a_op, b_op);
  const Edge da_edge = a, db_edge = b;
  record("matmul", c, {da_edge, db_edge}, [=, a = a.saved(), b = b.saved()](Tensor& dc) mutable {
    if (auto da = claim_grad(da_edge))
      differentiate_a(*da, dc.view(), b.view(), a_op, b_op, multiply);
    b.reset();
    if (auto db = claim_grad(db_edge))
      differentiate_b(*db, dc.view(), a.view(), a_op, b_op, multiply);
  });
  return c;
}

// The broadcast batch shape; nullopt if there is none.
std::optional<std::vector<int64_t>> broadcast(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  std::vector<int64_t> all;
  for (int d = rank; d > 0; --d) {
    const int64_t of_a = d > a.rank() ? 1 : a[-d], of_b = d > b.rank() ? 1 : b[-d];
    if (of_a != of_b && of_a != 1 && of_b != 1) return std::nullopt;
    all.push_back(of_a == 1 ? of_b : of_a);
  }
  return all;
}

Shape shape_of(std::vector<int64_t> batch, std::initializer_list<int64_t> last) {
  batch.insert(batch.end(), last);
  return Shape(batch);
}

// The product of operands with two dimensions or more.
Tensor matmul_of_matrices(const Tensor& a, const Tensor& b, Transpose a_op, Transpose b_op) {
  const Shape batch_a = batch_shape(a.shape()), batch_b = batch_shape(b.shape());
  const bool is_a_turned = a_op == Transpose::yes, is_b_turned = b_op == Transpose::yes;
  const int64_t M = a.size(is_a_turned ? -1 : -2), K = a.size(is_a_turned ? -2 : -1),
                N = b.size(is_b_turned ? -2 : -1);
  const auto all = broadcast(batch_a, batch_b);
  check(all.has_value(), "[matmul] a {} and b {}: expected batches that are equal or broadcast",
        a.shape(), b.shape());
  const Shape shape = shape_of(*all, {M, N});
  if (batch_b.numel() == 1 && !is_a_turned) {
    // One product of all rows.
    const int64_t rows = batch_a.numel() * M;
    const Tensor matrix_a = batch_a.rank() == 0 ? a : a.reshape({rows, K});
    const Tensor matrix_b = batch_b.rank() == 0 ? b : b.reshape({b.size(-2), b.size(-1)});
    const Tensor c = product_of(matrix_a, matrix_b, a_op, b_op, {rows, N}, multiply);
    return all->empty() ? c : c.reshape(shape);
  }
  if (batch_a.rank() == 0 && batch_b.rank() == 0)
    return product_of(a, b, a_op, b_op, shape, multiply);
  return product_of(
      a, b, a_op, b_op, shape,
      [batch = Shape(*all)](GradTarget c, View x, View y, Transpose x_op, Transpose y_op) {
        multiply_batches(c, x, y, batch, x_op, y_op);
      });
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, Transpose a_op, Transpose b_op) {
  check_same("matmul", {&a, &b});
  const int rank_a = a.shape().rank(), rank_b = b.shape().rank();
  check(rank_a > 0 && rank_b > 0 && (rank_a > 1 || a_op == Transpose::no) &&
            (rank_b > 1 || b_op == Transpose::no),
        "[matmul] a {} and b {}: expected a [.., M, K] and b [.., K, N], or [K], which cannot be "
        "transposed",
        a.shape(), b.shape());
  check(a.size(a_op == Transpose::yes ? -2 : -1) ==
            b.size(rank_b == 1 || b_op == Transpose::yes ? -1 : -2),
        "[matmul] a {} and b {}: expected a {} and b {}, with the same K", a.shape(), b.shape(),
        a_op == Transpose::yes ? "[.., K, M]" : "[.., M, K]",
        b_op == Transpose::yes ? "[.., N, K]" : "[.., K, N]");
  if (rank_a > 1 && rank_b > 1) return matmul_of_matrices(a, b, a_op, b_op);
  const Tensor c = matmul_of_matrices(rank_a > 1 ? a : a.reshape({1, a.size(0)}),
                                      rank_b > 1 ? b : b.reshape({b.size(0), 1}), a_op, b_op);
  std::vector<int64_t> sizes(c.shape().sizes().begin(), c.shape().sizes().end());
  if (rank_b == 1) sizes.pop_back();
  if (rank_a == 1) sizes.erase(sizes.end() - (rank_b == 1 ? 1 : 2));
  return c.reshape(Shape(sizes));
}

}  // namespace accrue
