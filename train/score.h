#pragma once

#include <functional>

#include "accumulate/ranks.h"
#include "layers/module.h"
#include "train/objective.h"
#include "train/stop.h"

namespace accrue {

// The model's answers to x, in eval mode; nothing is recorded, and no window is touched. Any number
// of threads may predict with one model at once, while nobody changes its weights: on the cpu.
Tensor predict(const Layer& model, Tensor x);

// Scores a model that computes in `dtype` on `device` over a data set, in eval mode, in pieces of
// `micro_batch`, by an objective or by that of the data set (objective_of()). Several `ranks` share
// the samples, whatever the size of their pieces, and all return the score of all. `piece` is
// Pass::piece. This and the functions below throw Stopped if `stop` says Stop::now before a piece;
// other ranks are not told.
Score evaluate(const Layer& model, const Objective& objective, const Dataset& data,
               int64_t micro_batch, DType dtype, Device device, Ranks* ranks = nullptr,
               int64_t piece = 0, const StopRequest& stop = detail::never_stop);
Score evaluate(const Layer& model, const Dataset& data, int64_t micro_batch, DType dtype,
               Device device);

namespace detail {

// The sums that the score is computed from, on the device: those of this rank's samples, and of
// what is scored all at once, on the first rank.
Tensor sum_scores(const Layer& model, const Objective& objective, const Dataset& data,
                  int64_t micro_batch, DType dtype, Device device, Ranks* ranks = nullptr,
                  int64_t piece = 0, const StopRequest& stop = never_stop);

// Calls visit(answer, part, begin) with the model's answer to `part`, the samples from `begin` on,
// for piece after piece of a data set in its own order, in eval mode. The data needs no more than
// the objective's input.
void for_each_answer(
    const Layer& model, const Objective& objective, const Dataset& data, int64_t micro_batch,
    DType dtype, Device device,
    const std::function<void(const Tensor& answer, const Samples& part, int64_t begin)>& visit,
    const StopRequest& stop = never_stop);
// Returns these answers in one tensor, float32 [N, ...] on the cpu.
Tensor all_answers(const Layer& model, const Objective& objective, const Dataset& data,
                   int64_t micro_batch, DType dtype, Device device,
                   const StopRequest& stop = never_stop);

}  // namespace detail

}  // namespace accrue
