#pragma once

#include <functional>
#include <string>
#include <vector>

#include "accumulate/ranks.h"
#include "layers/module.h"
#include "train/objective.h"
#include "train/stop.h"

namespace accrue {

// The model's answers to x, in eval mode. Nothing is recorded, and windows are not touched. On the
// cpu, any number of threads may predict with one model at once, as long as nobody changes its
// weights.
Tensor predict(const Layer& model, Tensor x);

// Scores a model that computes in `dtype` on `device` over a data set, in eval mode, in batches of
// `micro_batch`. The overload without an objective uses objective_of() the data set. Several
// `ranks` share the samples, whatever their batch sizes, and all return the score over all samples.
// `piece` is Pass::piece. This and the functions below throw Stopped if `stop` says Stop::now
// before a batch; other ranks are not told.
Score evaluate(const Layer& model, const Objective& objective, const Dataset& data,
               int64_t micro_batch, DType dtype, Device device, Ranks* ranks = nullptr,
               int64_t piece = 0, const StopRequest& stop = detail::never_stop);
Score evaluate(const Layer& model, const Dataset& data, int64_t micro_batch, DType dtype,
               Device device);

namespace detail {

// The sums that the score is computed from, on the device: over this rank's samples. Sums that need
// all samples at once are only on the first rank.
Tensor sum_scores(const Layer& model, const Objective& objective, const Dataset& data,
                  int64_t micro_batch, DType dtype, Device device, Ranks* ranks = nullptr,
                  int64_t piece = 0, const StopRequest& stop = never_stop);

// Calls visit(answer, part, begin) for consecutive batches of a data set in its own order, in eval
// mode: `part` has the samples from `begin` on, and `answer` is the model's answer to them. The
// data needs no fields but the objective's input.
void for_each_answer(
    const Layer& model, const Objective& objective, const Dataset& data, int64_t micro_batch,
    DType dtype, Device device,
    const std::function<void(const Tensor& answer, const Samples& part, int64_t begin)>& visit,
    const StopRequest& stop = never_stop);
// Returns all answers in one tensor, float32 [N, ...] on the cpu.
Tensor all_answers(const Layer& model, const Objective& objective, const Dataset& data,
                   int64_t micro_batch, DType dtype, Device device,
                   const StopRequest& stop = never_stop);
// The same of a network that sees the fields `inputs`: its outputs `wanted`
// (train/output_losses.h).
std::vector<Tensor> all_answers(const Layer& model, const std::vector<std::string>& inputs,
                                const std::vector<std::string>& wanted, const Dataset& data,
                                int64_t micro_batch, DType dtype, Device device,
                                const StopRequest& stop = never_stop);

}  // namespace detail

}  // namespace accrue
