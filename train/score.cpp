#include "train/score.h"

#include <vector>

#include "core/inside.h"
#include "data/loader.h"
#include "kernels/concat.h"
#include "train/joined_answers.h"
#include "train/output_losses.h"

namespace accrue {

namespace {

void for_each_part(const Dataset& data, int64_t micro_batch, DType dtype, Device device,
                   const Ranks* ranks, int64_t piece, const StopRequest& stop,
                   const std::function<void(const MicroBatch& part, const Pass& pass)>& visit) {
  const NoGrad no_grad;
  const MemoryScope scope(Phase::evaluate, "evaluation");
  const int64_t size = std::min(micro_batch, data.size());
  LoaderOptions options{.effective_batch_size = size,
                        .micro_batch_size = size,
                        .shuffle = Shuffle::off,
                        .device = device,
                        .dtype = dtype};
  if (ranks && ranks->count() > 1) {  // one window of all samples, divided one by one
    options.effective_batch_size = data.size();
    options.rank = is_meta(device) ? 0 : ranks->rank();  // a plan is for the first rank
    options.ranks = ranks->count();
    options.share_unit = 1;
  }
  Loader loader(data, options);
  loader.start_epoch(0);
  Pass pass = Pass::eval();
  pass.piece = piece;
  while (const MicroBatch* part = loader.next()) {
    throw_if_stopped(stop);
    visit(*part, pass);
  }
}

}  // namespace

void detail::for_each_answer(
    const Layer& model, const Objective& objective, const Dataset& data, int64_t micro_batch,
    DType dtype, Device device,
    const std::function<void(const Tensor& answer, const Samples& part, int64_t begin)>& visit,
    const StopRequest& stop) {
  int64_t begin = 0;
  for_each_part(data, micro_batch, dtype, device, nullptr, 0, stop,
                [&](const MicroBatch& part, const Pass& pass) {
                  visit(objective.answer(model, part, pass), part, begin);
                  begin += part.size();
                });
}

Tensor detail::sum_scores(const Layer& model, const Objective& objective, const Dataset& data,
                          int64_t micro_batch, DType dtype, Device device, Ranks* ranks,
                          int64_t piece, const StopRequest& stop) {
  const MemoryScope scope(Phase::evaluate, "evaluation");
  objective.check_data(data);
  const Tensor sums = Tensor::full({objective.sums()}, 0, DType::f64, device, Category::workspace);
  std::vector<Tensor> answers;
  for_each_part(data, micro_batch, dtype, device, ranks, piece, stop,
                [&](const MicroBatch& part, const Pass& pass) {
                  if (!objective.scores_all_at_once())
                    return objective.add_score_of(sums, model, part, pass);
                  answers.push_back(objective.answer(model, part, pass));
                  objective.add_score(sums, answers.back(), part);
                });
  if (!objective.scores_all_at_once()) return sums;
  const Tensor own = answers.empty() ? Tensor() : concat(answers, 0);
  answers.clear();
  const Tensor all = join_answers(own, data.size(), ranks).all;
  if (is_meta(device) || !ranks || ranks->rank() == 0) objective.add_score_of_all(sums, all);
  return sums;
}

Tensor predict(const Layer& model, Tensor x) {
  const NoGrad no_grad;
  return model(std::move(x), Pass::eval());
}

Score evaluate(const Layer& model, const Objective& objective, const Dataset& data,
               int64_t micro_batch, DType dtype, Device device, Ranks* ranks, int64_t piece,
               const StopRequest& stop) {
  const MemoryScope scope(Phase::evaluate, "evaluation");
  const Tensor sums =
      sum_scores(model, objective, data, micro_batch, dtype, device, ranks, piece, stop);
  const Tensor result = sums.to(Device::cpu, Category::workspace);
  if (ranks) ranks->add_up(result.span<double>());
  return objective.score(result.span<double>(), data);
}

Score evaluate(const Layer& model, const Dataset& data, int64_t micro_batch, DType dtype,
               Device device) {
  return evaluate(model, *objective_of(data), data, micro_batch, dtype, device);
}

namespace {

// Copies the answers to the samples from `begin` on into all answers, which are made at first.
void keep_answers(Tensor& all, const Tensor& answer, int64_t begin, int64_t samples) {
  const Tensor host = answer.detach().to(Device::cpu);
  const Tensor y = host.dtype() == DType::f64 ? host : as_f32(host);
  if (!all.defined()) {
    std::vector<int64_t> sizes{samples};
    for (const int64_t size : y.shape().sizes().subspan(1)) sizes.push_back(size);
    all = Tensor::empty(Shape(sizes), y.dtype(), Device::cpu, Category::data);
  }
  all.slice(begin, begin + y.size(0)).copy_from(y);
}

}  // namespace

Tensor detail::all_answers(const Layer& model, const Objective& objective, const Dataset& data,
                           int64_t micro_batch, DType dtype, Device device,
                           const StopRequest& stop) {
  Tensor all;
  for_each_answer(
      model, objective, data, micro_batch, dtype, device,
      [&](const Tensor& answer, const Samples&, int64_t begin) {
        keep_answers(all, answer, begin, data.size());
      },
      stop);
  return all;
}

std::vector<Tensor> detail::all_answers(const Layer& model, const std::vector<std::string>& inputs,
                                        const std::vector<std::string>& wanted, const Dataset& data,
                                        int64_t micro_batch, DType dtype, Device device,
                                        const StopRequest& stop) {
  std::vector<Tensor> all(wanted.size());
  int64_t begin = 0;
  for_each_part(data, micro_batch, dtype, device, nullptr, 0, stop,
                [&](const MicroBatch& part, const Pass& pass) {
                  const auto answers = answers_by_name(model, inputs, wanted, part, pass);
                  for (size_t i = 0; i < all.size(); ++i) {
                    check(answers[i].shape().rank() > 0 && answers[i].size(0) == part.size(),
                          "the output '{}' is {} for {}: expected an answer to each", wanted[i],
                          answers[i].shape(), counted(part.size(), "sample"));
                    keep_answers(all[i], answers[i], begin, data.size());
                  }
                  begin += part.size();
                });
  return all;
}

}  // namespace accrue
