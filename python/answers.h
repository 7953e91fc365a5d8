#pragma once

#include <optional>

#include "job/request.h"
#include "python/arrays.h"
#include "python/network.h"
#include "text/language_model.h"

namespace accrue::python {

// Networks' answers to a caller's arrays.

// A question to a network: images, or of zi2zi with so many styles (sources, styles).
Dataset question_of(nb::handle x, const Taken& taken, std::optional<int64_t> styles);
// A network that was trained on crops sees the images' middle, unless it answers with masks. Throws
// Error for images with another number of channels than the network was trained on.
void see_as_trained(Dataset& data, const Request& options);
// A question to a network of values: a dictionary of arrays by its inputs, or the array of its only
// one.
Dataset question_by_name(nb::handle x, const std::vector<Network::Input>& inputs);
// The model's answers by its outputs' names.
nb::object answers_by_name(Dataset data, const Normalization& pixels, const accrue::Layer& model,
                           int64_t micro_batch, DType dtype, Device device);
// The model's answers as a NumPy array, computed for `micro_batch` samples at a time.
nb::object answers_to(Dataset data, const Normalization& pixels, const accrue::Layer& model,
                      int64_t micro_batch, DType dtype, Device device);

// A language model that was trained on single texts answers with logits, one that was trained on
// pairs of texts with embeddings.
enum class TextAnswers { logits, embeddings };
nb::object answers_of(nb::handle x, const LanguageModel& model, TextAnswers kind,
                      int64_t micro_batch, Device device);

}  // namespace accrue::python
