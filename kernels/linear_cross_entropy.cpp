#include "kernels/linear_cross_entropy.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/profile.h"
#include "kernels/detail/linear_cross_entropy_kernels.h"
#include "kernels/detail/matmul.h"

namespace accrue {
namespace {

// The number of rows whose logits are computed. On the cpu these are the rows that count.
int64_t computed_rows(const LinearCrossEntropy& in) {
  if (in.labels.device != Device::cpu) return in.rows();
  const int32_t* label = in.labels.as<const int32_t>();
  return std::count_if(label, label + in.rows(), [&](int32_t l) { return in.counts(l); });
}

// Each chunk reads w and writes its logits, which the softmax of its rows then reads.
Work forward_work(const LinearCrossEntropy& in) {
  const int64_t rows = computed_rows(in);
  const RowChunks chunks(rows, in.logits.shape[0]);
  const double logits = double(rows) * double(in.V());
  return {.flops = 2 * logits * double(in.E()),
          .bytes = bytes_of(in.x) + bytes_of(in.labels) + bytes_of(in.softmax) +
                   double(chunks.count()) * bytes_of(in.w) +
                   2 * logits * double(size_of(in.logits.dtype))};
}

}  // namespace

template <>
struct detail::WorkOf<cpu::linear_cross_entropy> {
  Work operator()(const View&, const View&, const std::optional<GradTarget>& unit_dx,
                  const LinearCrossEntropy& in, const Counted&) const {
    Work work = forward_work(in);
    if (!unit_dx) return work;
    const int64_t rows = computed_rows(in);
    const double logits = double(rows) * double(in.V());
    work.flops *= 2;
    work.bytes += 2 * logits * double(size_of(in.logits.dtype)) + bytes_of(unit_dx) +
                  double(RowChunks(rows, in.logits.shape[0]).count()) * bytes_of(in.w);
    return work;
  }
};

template <>
struct detail::WorkOf<cpu::add_linear_score> {
  Work operator()(const View&, const View&, const View&, const LinearCrossEntropy& in) const {
    return forward_work(in);
  }
};

// Backward computes the logits of all chunks but one again, writes d over them, and computes the
// wanted products. dw is written by one chunk and added to by the others.
template <>
struct detail::WorkOf<cpu::linear_cross_entropy_backward> {
  Work operator()(const LinearCrossEntropyTargets& targets, const LossSeed&, const View& d,
                  const LinearCrossEntropy& in, const Counted&) const {
    const int64_t rows = computed_rows(in);
    const RowChunks chunks(rows, in.logits.shape[0]);
    const auto& [dw, dx] = targets;
    const double again = double(rows - chunks.size(chunks.count() - 1));
    const double products = again + (dw ? double(rows) : 0) + (dx ? double(rows) : 0);
    const double others = double(chunks.count() - 1), V = double(in.V());
    const double row = V * double(size_of(in.logits.dtype)), d_row = V * double(size_of(d.dtype));
    return {.flops = 2 * products * V * double(in.E()),
            .bytes = bytes_of(in.x) + bytes_of(in.labels) + bytes_of(in.softmax) +
                     (again + double(rows)) * row + (products - again + double(rows)) * d_row +
                     (others + (dx ? others + 1 : 0)) * bytes_of(in.w) + bytes_of(dx) +
                     (dw ? bytes_of(dw) + 2 * others * bytes_of(dw->grad) : 0)};
  }
};

// Computes the logits of every chunk, reads them, writes d over them, and computes the wanted
// products.
template <>
struct detail::WorkOf<cpu::linear_cross_entropy_with_backward> {
  Work operator()(const View&, const View&, const LinearCrossEntropyTargets& targets,
                  const LossSeed&, const View& d, const LinearCrossEntropy& in,
                  const Counted&) const {
    const int64_t rows = computed_rows(in);
    const auto chunks = double(RowChunks(rows, in.logits.shape[0]).count());
    const auto& [dw, dx] = targets;
    const double products = 1 + (dw ? 1 : 0) + (dx ? 1 : 0);
    const double logits = double(rows) * double(in.V());
    return {.flops = 2 * products * logits * double(in.E()),
            .bytes = bytes_of(in.x) + bytes_of(in.labels) +
                     2 * logits * double(size_of(in.logits.dtype)) +
                     products * logits * double(size_of(d.dtype)) +
                     (dx ? 2 : 1) * chunks * bytes_of(in.w) + bytes_of(dx) +
                     (dw ? bytes_of(dw) + 2 * (chunks - 1) * bytes_of(dw->grad) : 0)};
  }
};

namespace cuda {
decltype(cpu::linear_cross_entropy) linear_cross_entropy;
decltype(cpu::linear_cross_entropy_backward) linear_cross_entropy_backward;
decltype(cpu::linear_cross_entropy_with_backward) linear_cross_entropy_with_backward;
decltype(cpu::times_dloss) times_dloss;
decltype(cpu::add_linear_score) add_linear_score;
}  // namespace cuda

namespace {

// The checked operands, with x as a matrix.
struct HeadOperands {
  Tensor x, w, labels;

  HeadOperands(std::string_view op, const Tensor& x_of_any_rank, const Tensor& weight,
               const Tensor& labels)
      : x(x_of_any_rank.saved()), w(operand(weight, x.dtype())), labels(labels.saved()) {
    check_weight(op, x, w, weight);
    const bool agree = x.shape().rank() >= 2 && w.shape().rank() == 2 && x.numel() > 0 &&
                       w.numel() > 0 && x.size(x.shape().rank() - 1) == w.size(1);
    check(
        agree && labels.dtype() == DType::i32 && labels.shape().rank() >= 1 &&
            labels.numel() == x.numel() / w.size(1) && labels.device() == x.device(),
        "[{}] x {} {}, w {} and labels {} {} on {}: expected x [..., E], w [V, E] and i32 labels, "
        "one for each row of x, on {}, none empty",
        op, name(x.dtype()), x.shape(), w.shape(), name(labels.dtype()), labels.shape(),
        name(labels.device()), name(x.device()));
    x = x.reshape({labels.numel(), w.size(1)});
  }
};

// The scratch of a call. Its type is Wide<T> except for the places.
struct HeadScratch {
  Tensor places, gathered, workspace;

  HeadScratch(const HeadOperands& of, const Tensor& logits, bool leaves_out) {
    const Device device = of.x.device();
    const int64_t rows = of.x.size(0), V = of.w.size(0), E = of.w.size(1), chunk = logits.size(0);
    const bool gathers = leaves_out && !plans_for_cuda(device);
    places = Tensor::empty({gathers ? rows : 0}, DType::i32, device, Category::workspace);
    gathered = Tensor::empty({gathers ? chunk : 0, E}, logits.dtype(), device, Category::workspace);
    workspace = matmul_workspace(chunk, V, E, device, of.w, of.x.dtype());
  }
};

LinearCrossEntropy head_arguments(const HeadOperands& of, const Tensor& logits, const View& softmax,
                                  bool leaves_out, const HeadScratch& scratch,
                                  OwnLogit own = OwnLogit::counts) {
  return {of.x.view(),
          of.w.view(),
          of.labels.view(),
          leaves_out,
          logits.view(),
          softmax,
          scratch.places.view(),
          scratch.gathered.view(),
          scratch.workspace.view(),
          own};
}

void check_chunk_rows(std::string_view op, int64_t chunk_rows) {
  check(chunk_rows >= 0, "[{}] {} rows in a chunk: expected 1 or more, or 0 for a default", op,
        chunk_rows);
}

Tensor empty_logits(const HeadOperands& of, int64_t chunk_rows, HeadPass pass) {
  const int64_t rows = of.x.size(0), V = of.w.size(0);
  const int64_t most = chunk_rows > 0 ? std::min(chunk_rows, rows)
                                      : chunk_rows_for(rows, V, of.x.dtype(), of.x.device(), pass);
  // On cuda rows begin at multiples of 128 bytes, also where d has 16 bits: for other rows,
  // cuBLASLt's kernels take several times as long.
  const int64_t row_stride = plans_for_cuda(of.x.device()) ? round_up<int64_t>(V, 64) : V;
  return Tensor::empty({most, row_stride}, wide(of.x.dtype()), of.x.device(), Category::workspace);
}

// In 16 bits on the cpu, d has memory of its own; otherwise the result is undefined.
Tensor d_apart_from(const Tensor& logits, const HeadOperands& of) {
  if (!is_16_bit_dtype(of.x.dtype()) || plans_for_cuda(of.x.device())) return {};
  return Tensor::empty(logits.shape(), of.x.dtype(), of.x.device(), Category::workspace);
}

// d in the memory of the logits: a row begins where the logits of the row do.
View d_over(const Tensor& logits, const HeadOperands& of) {
  const DType dtype = of.x.dtype();
  const auto in_one = static_cast<int64_t>(size_of(logits.dtype()) / size_of(dtype));
  return {logits.view().data, {logits.size(0), in_one * logits.size(1)}, dtype, logits.device()};
}

Tensor empty_softmax(const HeadOperands& of) {
  return Tensor::empty({of.x.size(0), 2}, wide(of.x.dtype()), of.x.device());
}

Tensor for_each_row_of(const HeadOperands& of, DType dtype) {
  return Tensor::empty({of.x.size(0)}, dtype, of.x.device(), Category::workspace);
}

}  // namespace

int64_t detail::chunk_rows_for(int64_t rows, int64_t V, DType dtype, Device device, HeadPass pass) {
  constexpr int64_t least = 64, MiB = 1 << 20;
  const bool on_cuda = plans_for_cuda(device);
  const int64_t bytes = pass == HeadPass::reads_w_once            ? 32 * MiB
                        : on_cuda && pass == HeadPass::adds_to_dw ? 192 * MiB
                                                                  : 64 * MiB;
  const bool is_apart = is_16_bit_dtype(dtype) && !on_cuda;
  const auto element = static_cast<int64_t>(size_of(wide(dtype)) + (is_apart ? size_of(dtype) : 0));
  const int64_t most = std::max(least, bytes / (V * element) / RowChunks::step * RowChunks::step);
  return std::min(rows, std::max(least, RowChunks(rows, most).size(0)));
}

namespace {

int64_t labels_of_row(const Tensor& labels, int64_t row_labels) {
  const int64_t own = labels.numel() / labels.size(0);
  check(row_labels == 0 || row_labels >= own,
        "[linear_cross_entropy] labels {} as pieces of rows of {} labels: expected no longer "
        "pieces",
        labels.shape(), row_labels);
  return row_labels > 0 ? row_labels : own;
}

// In float16 a gradient without the loss scale would vanish.
HeadPass pass_of(const Edge& dw_edge, DType dtype) {
  if (dw_edge.wants_grad()) return HeadPass::adds_to_dw;
  return is_16_bit_dtype(dtype) ? HeadPass::reads_w : HeadPass::reads_w_once;
}

// The state that the forward and the backward of a loss share. It has no edges, so that a loss that
// waits keeps its operands, but not the graph that they come from.
class HeadLoss {
 public:
  static constexpr std::string_view op = "linear_cross_entropy";

  HeadLoss(const Tensor& x, const Tensor& w, const Tensor& labels, const Tensor& judged,
           int64_t chunk_rows, int64_t row_labels, OwnLogit own);

  Tensor empty_loss() const { return Tensor::empty({}, wide(of_.x.dtype()), device()); }
  // True if forward computes dx for dloss = 1, which is all that backward then needs.
  bool is_dx_alone() const { return is_dx_alone_; }
  // The forward, which leaves the logits of the last chunk for backward, or unit_dx.
  void compute(View loss);
  Tensor take_unit_dx() { return std::exchange(unit_dx_, {}); }
  // The backward. It also computes a loss `later` that waits until then.
  void differentiate(const LossSeed& seed, const Edge& dx_edge, const Edge& dw_edge,
                     const Tensor& later) const;

 private:
  Device device() const { return of_.x.device(); }
  Counted counted() const { return counted_places(op, samples_, row_labels_, device(), judged_); }

  HeadOperands of_;
  const Tensor judged_;
  const int64_t samples_, row_labels_, chunk_rows_;
  const OwnLogit own_;
  const HeadPass pass_;
  const bool is_dx_alone_;
  Tensor logits_, softmax_, unit_dx_;  // once they are computed
};

HeadLoss::HeadLoss(const Tensor& x, const Tensor& w, const Tensor& labels, const Tensor& judged,
                   int64_t chunk_rows, int64_t row_labels, OwnLogit own)
    : of_(op, x, w, labels),
      judged_(judged),
      samples_(labels.size(0)),
      row_labels_(labels_of_row(labels, row_labels)),
      chunk_rows_(chunk_rows),
      own_(own),
      pass_(pass_of(w, of_.x.dtype())),
      is_dx_alone_(pass_ == HeadPass::reads_w_once && Edge(x).wants_grad()) {
  check(!Edge(w).wants_grad() || !is_16_bit_dtype(w.dtype()),
        "[{}] w {} {} that wants a gradient: expected a parameter in float32", op, name(w.dtype()),
        w.shape());
  check(own == OwnLogit::counts || of_.x.size(0) == of_.w.size(0),
        "[{}] {} rows without their own logits and w {}: expected equal numbers of rows", op,
        of_.x.size(0), w.shape());
  check_chunk_rows(op, chunk_rows);
  counted();  // checks `judged`
}

void HeadLoss::compute(View loss) {
  Tensor logits = empty_logits(of_, chunk_rows_, pass_), softmax = empty_softmax(of_);
  Tensor unit_dx = is_dx_alone_ ? Tensor::empty(of_.x.shape(), of_.x.dtype(), device()) : Tensor();
  const HeadScratch scratch(of_, logits, judged_.defined());
  launch<cpu::linear_cross_entropy, cuda::linear_cross_entropy>(
      device(), loss, for_each_row_of(of_, DType::f64).view(),
      is_dx_alone_ ? std::optional(GradTarget{unit_dx.view(), 0}) : std::nullopt,
      head_arguments(of_, logits, softmax.view(), judged_.defined(), scratch, own_), counted());
  unit_dx_ = std::move(unit_dx);
  if (is_dx_alone_) return;
  logits_ = std::move(logits);
  softmax_ = std::move(softmax);
}

void HeadLoss::differentiate(const LossSeed& seed, const Edge& dx_edge, const Edge& dw_edge,
                             const Tensor& later) const {
  const auto [dw, dx] = claim_grads_over_values(dw_edge, {}, dx_edge, of_.x);
  if (!dw && !dx) return;
  LinearCrossEntropyTargets targets{dw, dx};
  if (dx) targets.dx->grad.shape = of_.x.shape();
  const bool computes_loss = later.is_waiting();
  const Tensor logits = computes_loss ? empty_logits(of_, chunk_rows_, pass_) : logits_;
  const HeadScratch scratch(of_, logits, judged_.defined());
  const Tensor apart = d_apart_from(logits, of_);
  const View d = apart.defined() ? apart.view() : d_over(logits, of_);
  const LinearCrossEntropy in = head_arguments(
      of_, logits, computes_loss ? View{} : softmax_.view(), judged_.defined(), scratch, own_);
  if (!computes_loss) {
    launch<cpu::linear_cross_entropy_backward, cuda::linear_cross_entropy_backward>(
        device(), targets, seed, d, in, counted());
    return;
  }
  const Tensor losses = for_each_row_of(of_, DType::f64);
  // A backward that fails midway may have written over x.
  later.compute_later([](const View&) {
    fail("[{}] the loss is unknown, because its backward has failed: compute both again", op);
  });
  launch<cpu::linear_cross_entropy_with_backward, cuda::linear_cross_entropy_with_backward>(
      device(), later.future_view(), losses.view(), targets, seed, d, in, counted());
  later.stop_waiting();
}

// Keeps only unit_dx.
void record_dx_alone(Tensor& loss, const Edge& dx_edge, Tensor unit_dx) {
  record_loss(HeadLoss::op, loss, {dx_edge},
              [dx_edge, unit_dx = std::move(unit_dx)](const LossSeed& seed) mutable {
                auto dx = claim_grad_over_value(dx_edge, unit_dx);
                if (!dx) return;
                dx->grad.shape = unit_dx.shape();
                launch<cpu::times_dloss, cuda::times_dloss>(unit_dx.device(), *dx, seed,
                                                            unit_dx.view());
              });
}

// Records the backward of a loss, which also computes the loss `later` if it waits until then.
void record_head(const std::shared_ptr<HeadLoss>& head, Tensor& loss, const Edge& dx_edge,
                 const Edge& dw_edge, const Tensor& later) {
  if (head->is_dx_alone()) return record_dx_alone(loss, dx_edge, head->take_unit_dx());
  record_loss(HeadLoss::op, loss, {dx_edge, dw_edge},
              [=](const LossSeed& seed) { head->differentiate(seed, dx_edge, dw_edge, later); });
}

}  // namespace

Tensor linear_cross_entropy(const Tensor& x, const Tensor& w, const Tensor& labels,
                            const Tensor& judged, int64_t chunk_rows, int64_t row_labels,
                            OwnLogit own) {
  const auto head = std::make_shared<HeadLoss>(x, w, labels, judged, chunk_rows, row_labels, own);
  Tensor loss = head->empty_loss();
  head->compute(loss.view());
  record_head(head, loss, x, w, {});
  return loss;
}

Tensor detail::linear_cross_entropy_in_backward(const Tensor& x, const Tensor& w,
                                                const Tensor& labels, const Tensor& judged,
                                                int64_t chunk_rows, int64_t row_labels) {
  const auto head =
      std::make_shared<HeadLoss>(x, w, labels, judged, chunk_rows, row_labels, OwnLogit::counts);
  Tensor loss = head->empty_loss();
  if (head->is_dx_alone()) head->compute(loss.view());
  record_head(head, loss, x, w, loss.saved());
  if (head->is_dx_alone()) return loss;
  const auto compute = [head, phase = MemoryScope::phase(),
                        label = MemoryScope::label()](const View& elements) {
    const MemoryScope scope(phase, label);
    head->compute(elements);
    Profile::end_forward(HeadLoss::op);
  };
  if (!takes_seed(loss)) {
    compute(loss.view());
    return loss;
  }
  // Forward refuses a wrong label, as that of linear_cross_entropy() does.
  if (labels.device() == Device::cpu)
    cpu::check_labels(HeadLoss::op, labels.view(), judged.defined(), w.size(0));
  loss.compute_later(compute);
  return loss;
}

void detail::add_linear_score(const Tensor& score, const Tensor& x, const Tensor& w,
                              const Tensor& labels, int64_t chunk_rows) {
  constexpr std::string_view op = "add_linear_score";
  const HeadOperands of(op, x, w, labels);
  check(score.defined() && score.shape() == Shape{3} && score.dtype() == DType::f64 &&
            score.device() == x.device(),
        "[{}] expected score f64 [3] on {}, where x is", op, name(x.device()));
  check_chunk_rows(op, chunk_rows);
  const Tensor logits = empty_logits(of, chunk_rows, HeadPass::reads_w),
               softmax = empty_softmax(of);
  const HeadScratch scratch(of, logits, true);
  launch<cpu::add_linear_score, cuda::add_linear_score>(
      x.device(), score.view(), for_each_row_of(of, DType::f64).view(),
      for_each_row_of(of, DType::i32).view(),
      head_arguments(of, logits, softmax.view(), true, scratch));
}

}  // namespace accrue
