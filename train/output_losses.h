#pragma once

#include <string>
#include <vector>

#include "train/objective.h"

namespace accrue {

// A loss of one output of a network: what the objective of one answer, such as a classification(),
// makes of it, times a factor.
struct OutputLoss {
  std::string output;  // its name
  ObjectivePtr objective;
  double factor = 1;
};

// The sum of losses of a network's outputs:
//   L = sum_k factor[k] * loss[k](output[k])
// Each loss is a mean over what it counts in the window, for every split: where they count
// differently, such as judged labels and samples, the window is walked beforehand to count
// (train/counted_losses.h). Outputs without a loss are not computed.
// `inputs` are the fields that the model sees, of the names of its inputs (layers/named_network.h).
// A layer of one input and one output sees the only field and may call its output anything.
// Its score has every loss and metric behind its output's name, "class.accuracy", and the sum of
// the losses. Its terms (Loss::terms) are the losses; more than 8 have none.
// Throws Error for no input or loss, an output with two losses, a factor that is no finite number,
// and an objective of whole windows or of several answers.
ObjectivePtr losses_of_outputs(std::vector<std::string> inputs, std::vector<OutputLoss> losses);

namespace detail {

// The outputs `wanted` of a model that sees these fields of the samples. Throws Error unless the
// model has such inputs and outputs.
std::vector<Tensor> answers_by_name(const Layer& model, const std::vector<std::string>& inputs,
                                    const std::vector<std::string>& wanted, const Samples& samples,
                                    const Pass& pass);
// The names of all of its outputs; of a layer that has no names "y".
std::vector<std::string> output_names(const Layer& model);

}  // namespace detail

}  // namespace accrue
