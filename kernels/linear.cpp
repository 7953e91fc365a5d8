#include "kernels/linear.h"

#include <algorithm>

#include "kernels/backend.h"
#include "kernels/cpu/gemm.h"
#include "kernels/detail/channel_sums.h"
#include "kernels/detail/matmul.h"
#include "kernels/detail/scale.h"
#include "kernels/quantized_matmul.h"

namespace accrue {
namespace cpu {

void matmul(GradTarget c, View a, View b, Transpose a_op, Transpose b_op, View workspace) {
  if (is_stored_otherwise(b.shape, b.dtype, a.dtype))
    return quantized_matmul(c, a, b, b_op, {}, Activation::none, workspace);
  dispatch_floating(a.dtype, [&]<class T>() {
    const Gemm<T> product{.M = c.grad.shape[0],
                          .N = c.grad.shape[1],
                          .K = a_op == Transpose::yes ? a.shape[0] : a.shape[1],
                          .a_op = a_op,
                          .b_op = b_op,
                          .beta = c.beta};
    if (c.grad.dtype == a.dtype) gemm(c.grad.as<T>(), a.as<const T>(), b.as<const T>(), product);
    else gemm(c.grad.as<Wide<T>>(), a.as<const T>(), b.as<const T>(), product);
  });
}

// y = act(x op(w) + b) + beta * y; b may be empty.
void linear_over(GradTarget y, View x, View w, View b, Activation activation, Transpose w_op,
                 View workspace) {
  if (is_stored_otherwise(w.shape, w.dtype, x.dtype))
    return quantized_matmul(y, x, w, w_op, b, activation, workspace);
  dispatch_floating(x.dtype, [&]<class T>() {
    gemm(y.grad.as<T>(), x.as<const T>(), w.as<const T>(),
         Gemm<T>{.M = x.shape[0],
                 .N = y.grad.shape[1],
                 .K = x.shape[1],
                 .a_op = Transpose::no,
                 .b_op = w_op,
                 .beta = y.beta,
                 .bias = b.data ? b.as<const T>() : nullptr,
                 .activation = activation});
  });
}

void linear_forward(View y, View x, View w, View b, Activation activation, Transpose w_op,
                    View workspace) {
  linear_over({y, 0}, x, w, b, activation, w_op, workspace);
}

// y = a + x op(w) + b, with the same bits whether y is a or apart from it; b may be empty.
void add_linear_forward(View y, View a, View x, View w, View b, Transpose w_op, View workspace) {
  if (y.data != a.data) scale({y, 0}, a, 1);
  linear_over({y, 1}, x, w, b, Activation::none, w_op, workspace);
}

// db[o] = sum_n dz[n, o] + beta * db[o], in the order of n.
void bias_backward(GradTarget db, View dz) {
  dispatch_floating(
      dz.dtype, [&]<class T, class W = Wide<T>>() {
        const int64_t N = dz.shape[0], O = dz.shape[1];
        W* out = db.grad.as<W>();
        const T* in = dz.as<T>();
        parallel_for(O, N, [&](int64_t begin, int64_t end) {
          if (db.beta == 0) std::fill(out + begin, out + end, W(0));
          for (int64_t n = 0; n < N; ++n)
            for (int64_t o = begin; o < end; ++o) out[o] += in[n * O + o];
        });
      });
}

// dz = dy * act'(y) over dy, if there is a y; then dw and db, where wanted.
void linear_backward(std::optional<GradTarget> dw, std::optional<GradTarget> db, View dy, View y,
                     Activation activation, View x, Transpose w_op, View workspace) {
  if (y.data) activation_backward_over(dy, y, activation);
  if (dw && w_op == Transpose::yes) matmul(*dw, dy, x, Transpose::yes, Transpose::no, workspace);
  else if (dw) matmul(*dw, x, dy, Transpose::yes, Transpose::no, workspace);
  if (db) bias_backward(*db, dy);
}

void map(View y, View x, const formula::AnyPointwise& formula);
void map_backward(GradTarget dx, View dy, View kept, const formula::AnyPointwise& formula);

}  // namespace cpu

template <>
struct detail::WorkOf<cpu::matmul> {
  Work operator()(const GradTarget& c, const View& a, const View& b, Transpose a_op,
                  const auto&...) const {
    const int64_t K = a_op == Transpose::yes ? a.shape[0] : a.shape[1];
    return work_of(2 * double(c.grad.numel()) * double(K), c, a, b);
  }
};

template <>
struct detail::WorkOf<cpu::linear_forward> {
  Work operator()(const View& y, const View& x, const View& w, const View& b,
                  const auto&...) const {
    return work_of(2 * double(x.shape[0]) * double(w.numel()), y, x, w, b);
  }
};

template <>
struct detail::WorkOf<cpu::add_linear_forward> {
  Work operator()(const View& y, const View& a, const View& x, const View& w, const View& b,
                  const auto&...) const {
    return work_of(2 * double(x.shape[0]) * double(w.numel()), y, a, x, w, b);
  }
};

template <>
struct detail::WorkOf<cpu::linear_backward> {
  Work operator()(const std::optional<GradTarget>& dw, const std::optional<GradTarget>& db,
                  const View& dy, const View& y, Activation, const View& x, const auto&...) const {
    const double N = double(x.shape[0]), dz = y.data ? 2 * bytes_of(dy) + bytes_of(y) : 0;
    return {.flops = dw ? 2 * N * double(dw->grad.numel()) : 0,
            .bytes = dz + (dw ? bytes_of(dw) + bytes_of(dy) + bytes_of(x) : 0) +
                     (db ? bytes_of(db) + bytes_of(dy) : 0)};
  }
};

namespace cuda {
decltype(cpu::map) map;
decltype(cpu::map_backward) map_backward;
decltype(cpu::linear_forward) linear_forward;
decltype(cpu::add_linear_forward) add_linear_forward;
decltype(cpu::linear_backward) linear_backward;
}  // namespace cuda

namespace {

int64_t matmul_workspace_bytes(int64_t M, int64_t N, int64_t K, Device device) {
  constexpr int64_t least = 4 << 20, most = 32 << 20, terms = 64;
  const int64_t parts = M * N * K / terms * int64_t(sizeof(float));
  return plans_for_cuda(device) ? std::clamp(parts, least, most) : 0;
}

}  // namespace

Tensor matmul_workspace(int64_t M, int64_t N, int64_t K, Device device, int64_t more_bytes) {
  return Tensor::empty({matmul_workspace_bytes(M, N, K, device) + more_bytes}, DType::u8, device,
                       Category::workspace);
}

Tensor matmul_workspace(int64_t M, int64_t N, int64_t K, Device device, const Tensor& w,
                        DType dtype) {
  if (!is_stored_otherwise(w.shape(), w.dtype(), dtype)) return matmul_workspace(M, N, K, device);
  const int64_t of_product = matmul_workspace_bytes(M, N, K, device);
  return Tensor::empty({of_product + widened_bytes(w.view(), dtype)}, DType::u8, device,
                       Category::workspace);
}

void detail::multiply(GradTarget c, View a, View b, Transpose a_op, Transpose b_op) {
  const Device device = c.grad.device;
  const int64_t K = a_op == Transpose::yes ? a.shape[0] : a.shape[1];
  launch<cpu::matmul, cuda::matmul>(
      device, c, a, b, a_op, b_op,
      matmul_workspace(c.grad.shape[0], c.grad.shape[1], K, device).view());
}

namespace {

// Throws Error unless x and w have two dimensions and agree, and b fits them. Returns O.
int64_t outputs_of(std::string_view op, const Tensor& x, const Tensor& w, const Tensor& weight,
                   const Tensor& b, Transpose w_op) {
  check_weight(op, x, w, weight);
  check_same(op, {&x, b.defined() ? &b : &x});
  const int inputs = w_op == Transpose::yes ? 1 : 0;
  const Shape of_w = matrix_shape(w.shape());
  check(x.shape().rank() == 2 && of_w.rank() == 2 && x.size(1) == of_w[inputs],
        "[{}] x {} and w {}: expected x [N, I] and w {}", op, x.shape(), w.shape(),
        w_op == Transpose::yes ? "[O, I]" : "[I, O]");
  const int64_t O = of_w[1 - inputs];
  check(!b.defined() || b.shape() == Shape{O}, "[{}] b {} with w {}: expected b [{}]", op,
        b.shape(), w.shape(), O);
  return O;
}

// The operands and targets of the gradients of linear().
struct LinearGradients {
  Edge dx_edge, dw_edge, db_edge;
  Tensor x, w;
  Transpose w_op;

  LinearGradients(const Tensor& x, const Tensor& w, const Tensor& weight, const Tensor& bias,
                  Transpose w_op)
      : dx_edge(x), db_edge(bias), w(w), w_op(w_op) {
    if (Edge(weight).wants_grad()) dw_edge = weight;
    this->x = dw_edge.wants_grad() ? x.saved()
                                   : Tensor::without_elements(x.shape(), x.dtype(), x.device());
  }

  // Writes dw and db, and then dx, which may take the place of x. dy becomes dz if there is a y.
  void write(const Tensor& dy, Tensor y, Activation activation) {
    {
      const auto [dw, db] = claim_grads(dw_edge, db_edge);
      write_parameters(dw, db, dy, y, activation);
    }
    y.reset();
    write_dx(dy);
  }

  // The same for y = f(z). dy becomes dz in the pass that adds up db.
  void write_through(const formula::AnyPointwise& f, const Tensor& dy, Tensor z) {
    const Device device = dy.device();
    if (const auto db = claim_grad(db_edge))
      launch<cpu::slope_and_sums, cuda::slope_and_sums>(
          device, dy.view(), *db, z.view(), f,
          channel_sums_scratch(1, dy.size(0), dy.size(1), 1, dy.dtype(), device).view());
    else
      launch<cpu::map_backward, cuda::map_backward>(device, GradTarget{dy.view(), 0}, dy.view(),
                                                    z.view(), f);
    z.reset();
    if (const auto dw = claim_grad(dw_edge))
      write_parameters(dw, std::nullopt, dy, Tensor(), Activation::none);
    write_dx(dy);
  }

 private:
  void write_parameters(const std::optional<GradTarget>& dw, const std::optional<GradTarget>& db,
                        const Tensor& dy, const Tensor& y, Activation activation) const {
    launch<cpu::linear_backward, cuda::linear_backward>(
        dy.device(), dw, db, dy.view(), y.defined() ? y.view() : View{}, activation, x.view(), w_op,
        matmul_workspace(dy.size(0), dy.size(1), x.size(1), dy.device()).view());
  }
  void write_dx(const Tensor& dy) {
    const int64_t I = x.size(1);
    x.reset();
    if (auto dx = claim_grad(dx_edge))
      launch<cpu::matmul, cuda::matmul>(
          dy.device(), *dx, dy.view(), w.view(), Transpose::no,
          w_op == Transpose::yes ? Transpose::no : Transpose::yes,
          matmul_workspace(dy.size(0), I, dy.size(1), dy.device(), w, dy.dtype()).view());
  }
};

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation,
              Transpose w_op) {
  const Tensor w = operand(weight, x.dtype()), b = operand(bias, x.dtype());
  const int64_t O = outputs_of("linear", x, w, weight, b, w_op);
  const bool is_kept = activation != Activation::none, is_computed = is_kept || !result_is_unread();
  Tensor y = is_kept ? Tensor::empty({x.size(0), O}, x.dtype(), x.device())
                     : empty_result({x.size(0), O}, x.dtype(), x.device());
  if (is_computed)
    launch<cpu::linear_forward, cuda::linear_forward>(
        y.device(), y.view(), x.view(), w.view(), b.defined() ? b.view() : View{}, activation, w_op,
        matmul_workspace(x.size(0), O, x.size(1), y.device(), w, x.dtype()).view());
  record("linear", y, {x, weight, bias},
         [activation, gradients = LinearGradients(x, w, weight, bias, w_op),
          y = is_kept ? y.saved() : Tensor()](Tensor& dy) mutable {
           gradients.write(dy, std::move(y), activation);
         });
  return y;
}

Tensor detail::linear_then(const formula::AnyPointwise& f, const Tensor& x, const Tensor& weight,
                           const Tensor& bias, Transpose w_op) {
  std::visit(
      [](auto of) {
        check(of.keeps == formula::Keeps::x,
              "[linear_then] {} keeps y: expected a formula that keeps x, such as gelu", of.name);
      },
      f);
  const Tensor w = operand(weight, x.dtype()), b = operand(bias, x.dtype());
  const int64_t O = outputs_of("linear_then", x, w, weight, b, w_op), N = x.size(0);
  const Tensor z = Tensor::empty({N, O}, x.dtype(), x.device());
  launch<cpu::linear_forward, cuda::linear_forward>(
      z.device(), z.view(), x.view(), w.view(), b.defined() ? b.view() : View{}, Activation::none,
      w_op, matmul_workspace(N, O, x.size(1), z.device(), w, x.dtype()).view());
  Tensor y = empty_result({N, O}, x.dtype(), x.device());
  if (!result_is_unread()) launch<cpu::map, cuda::map>(y.device(), y.view(), z.view(), f);
  record("linear_then", y, {x, weight, bias},
         [f, z = z.saved(), gradients = LinearGradients(x, w, weight, bias, w_op)](
             Tensor& dy) mutable { gradients.write_through(f, dy, std::move(z)); });
  return y;
}

Tensor detail::add_linear(Tensor a, const Tensor& x, const Tensor& weight, const Tensor& bias,
                          Transpose w_op) {
  const Tensor w = operand(weight, x.dtype()), b = operand(bias, x.dtype());
  check_same("add_linear", {&a, &x});
  const int64_t O = outputs_of("add_linear", x, w, weight, b, w_op);
  check(a.shape() == Shape{x.size(0), O}, "[add_linear] a {}, x {} and w {}: expected a [{}, {}]",
        a.shape(), x.shape(), w.shape(), x.size(0), O);
  const Edge da_edge = a;
  const bool over_a = a.sole_owner();
  Tensor y = over_a ? a.detach() : empty_result(a.shape(), a.dtype(), a.device());
  if (!result_is_unread())
    launch<cpu::add_linear_forward, cuda::add_linear_forward>(
        y.device(), y.view(), a.view(), x.view(), w.view(), b.defined() ? b.view() : View{}, w_op,
        matmul_workspace(x.size(0), O, x.size(1), y.device(), w, x.dtype()).view());
  a.reset();
  record("add_linear", y, {da_edge, x, weight, bias},
         [da_edge, gradients = LinearGradients(x, w, weight, bias, w_op)](Tensor& dy) mutable {
           gradients.write(dy, Tensor(), Activation::none);
           if (auto da = claim_grad_over(da_edge, dy))
             launch<cpu::scale, cuda::scale>(dy.device(), *da, dy.view(), 1.0);
         });
  return y;
}

}  // namespace accrue
