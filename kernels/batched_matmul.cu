#include "kernels/detail/batches.h"
#include "kernels/detail/elementwise.cuh"
#include "kernels/detail/matmul.h"

namespace accrue::cuda {
namespace {

template <class W>
struct Same {
  HOST_DEVICE W operator()(W x) const { return x; }
};

// The first matrix of x at this place.
View matrix_of(const View& x, int64_t matrix) {
  const int64_t rows = x.shape[-2], columns = x.shape[-1];
  void* const at = static_cast<char*>(x.data) + matrix * rows * columns * int64_t(size_of(x.dtype));
  return {at, {rows, columns}, x.dtype, x.device};
}

}  // namespace

// A call for each run of products that lie equally far apart and add to different matrices.
// Workspace: such a run's sums in float, where they would be rounded, and then that of a product.
void batched_matmul(GradTarget c, View a, View b, Batches batches, Transpose a_op, Transpose b_op,
                    View workspace) {
  if (c.grad.numel() == 0) return;
  const ProductSizes s(c.grad, a, a_op);
  if (s.K == 0 || batches.terms.count == 0) {
    if (c.beta == 0) fill(c.grad, 0);
    return;
  }
  const bool elsewhere = sums_elsewhere(batches, a.dtype);
  Batches::Dimensions outer = batches.targets;
  const Batches::Dimension run = outer.rank > 0 ? outer.at[outer.rank - 1] : Batches::Dimension{};
  if (outer.rank > 0) --outer.rank;
  const int64_t size = s.M * s.N, runs = batches.targets.count / run.size;
  const ProductBatch batch{run.size, size, run.a * s.M * s.K, run.b * s.K * s.N};
  const View sums{workspace.data, {s.M, s.N}, wide(a.dtype), a.device};
  const int64_t sum_bytes = elsewhere ? round_up<int64_t>(run.size * size * 4, 256) : 0;
  const View of_product = workspace.part(sum_bytes, workspace.numel());
  for (int64_t i = 0; i < runs; ++i) {
    const Batches::Matrices of_run = outer.matrices(i);
    const View to = matrix_of(c.grad, of_run.c);
    for (int64_t j = 0; j < batches.terms.count; ++j) {
      const Batches::Matrices term = batches.terms.matrices(j);
      const float beta = j > 0 ? 1.0f : elsewhere ? 0.0f : c.beta;
      matmul_batch({elsewhere ? sums : to, beta}, matrix_of(a, of_run.a + term.a),
                   matrix_of(b, of_run.b + term.b), a_op, b_op, of_product, batch);
    }
    if (!elsewhere) continue;
    dispatch_floating(c.grad.dtype, [&]<class T>() {
      using W = Wide<T>;
      elementwise(to.as<T>(), c.beta, run.size * size, Same<W>{}, static_cast<const W*>(sums.data));
    });
  }
}

}  // namespace accrue::cuda
