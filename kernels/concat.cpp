#include "kernels/concat.h"

#include "kernels/backend.h"
#include "kernels/detail/copy_columns.h"

namespace accrue {
namespace cpu {

void copy_columns(GradTarget to, Columns to_columns, View from, Columns from_columns, int64_t rows,
                  int64_t width) {
  dispatch_floating(from.dtype, [&]<class T>() {
    T* out = to.grad.as<T>() + to_columns.begin;
    const T* in = from.as<T>() + from_columns.begin;
    with_beta(to.beta, [&](auto accumulate) {
      parallel_each(rows, width, [&](int64_t r) {
        for (int64_t c = 0; c < width; ++c)
          store(out[r * to_columns.stride + c], in[r * from_columns.stride + c], accumulate);
      });
    });
  });
}

}  // namespace cpu

template <>
struct detail::WorkOf<cpu::copy_columns> {
  Work operator()(const GradTarget& to, Columns, const View& from, Columns, int64_t rows,
                  int64_t width) const {
    return {.bytes = (to.beta == 0 ? 2 : 3) * double(rows * width) * double(size_of(from.dtype))};
  }
};

namespace cuda {
decltype(cpu::copy_columns) copy_columns;
}  // namespace cuda

namespace {

// Returns the result's shape. `dim` counts from the start.
Shape check_parts(const std::vector<Tensor>& tensors, int dim) {
  const Shape& first = tensors[0].shape();
  int64_t size = 0;
  for (size_t k = 0; k < tensors.size(); ++k) {
    check_same("concat", {&tensors[0], &tensors[k]});
    const Shape& shape = tensors[k].shape();
    check(
        shape.rank() == first.rank() && shape.with(dim, first[dim]) == first,
        "[concat] tensor {} is {}, tensor 0 is {}: expected the same sizes except in dimension {}",
        k, shape, first, dim);
    size += shape[dim];
  }
  return first.with(dim, size);
}

}  // namespace

void copy_columns(GradTarget to, Columns to_columns, View from, Columns from_columns, int64_t rows,
                  int64_t width) {
  launch<cpu::copy_columns, cuda::copy_columns>(to.grad.device, to, to_columns, from, from_columns,
                                                rows, width);
}

Tensor concat(const std::vector<Tensor>& tensors, int dim) {
  check(!tensors.empty() && tensors[0].defined(), "[concat] there is no tensor to concatenate");
  const int rank = tensors[0].shape().rank();
  check(-rank <= dim && dim < rank, "[concat] dimension {} of shape {} does not exist", dim,
        tensors[0].shape());
  if (dim < 0) dim += rank;
  const Shape shape = check_parts(tensors, dim);
  Tensor y = Tensor::empty(shape, tensors[0].dtype(), tensors[0].device());
  const int64_t rows = shape.numel(0, dim), stride = shape.numel(dim, rank);

  std::vector<Edge> edges(tensors.begin(), tensors.end());
  Columns part{0, stride};
  for (const Tensor& x : tensors) {
    const int64_t width = x.shape().numel(dim, rank);
    copy_columns({y.view(), 0}, part, x.view(), {0, width}, rows, width);
    part.begin += width;
  }
  record("concat", y, edges, [=](Tensor& dy) {
    Columns part{0, stride};
    for (const Edge& edge : edges) {
      const int64_t width = edge.shape().numel(dim, rank);
      if (auto dx = claim_grad(edge)) copy_columns(*dx, {0, width}, dy.view(), part, rows, width);
      part.begin += width;
    }
  });
  return y;
}

}  // namespace accrue
