#pragma once

#include <optional>

#include "job/request.h"
#include "python/arrays.h"
#include "text/language_model.h"

namespace accrue::python {

// What networks answer to arrays.

// What one is asked: images, or of zi2zi with so many styles (sources, styles).
Dataset question_of(nb::handle x, SampleShape shape, std::optional<int64_t> styles);
// A network that was trained on crops sees the images' middle, unless it answers with masks. Throws
// Error for images of other channels than it has learned.
void see_as_trained(Dataset& data, const Request& options);
// The answers of a model, in pieces of `micro_batch`.
nb::object answers_to(Dataset data, const Normalization& pixels, const accrue::Layer& model,
                      int64_t micro_batch, DType dtype, Device device);

// What a language model that has learned from single texts answers, or from pairs of them.
enum class TextAnswers { logits, embeddings };
nb::object answers_of(nb::handle x, const LanguageModel& model, TextAnswers kind,
                      int64_t micro_batch, Device device);

}  // namespace accrue::python
