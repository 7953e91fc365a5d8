#include "python/answers.h"

#include "fonts/domain.h"
#include "images/domain.h"
#include "python/named_data.h"
#include "python/tokens.h"
#include "python/working.h"
#include "train/output_losses.h"
#include "train/weights.h"

namespace accrue::python {

Dataset question_of(nb::handle x, const Taken& taken, std::optional<int64_t> styles) {
  if (!styles) return dataset_of(x, nb::none(), taken);
  check((nb::isinstance<nb::tuple>(x) || nb::isinstance<nb::list>(x)) && nb::len(x) == 2,
        "x has no glyphs to draw: expected (sources, styles)");
  Dataset data = glyphs_of(x[0], nb::none(), x[1]);
  data.fields[1].classes = *styles;
  return data;
}

nb::object answers_to(Dataset data, const Normalization& pixels, const accrue::Layer& model,
                      int64_t micro_batch, DType dtype, Device device) {
  round_numbers(data, dtype);
  data.fields[0].normalization = pixels;
  const ObjectivePtr objective = data.has("sources") ? glyph_drawing() : classification("images");
  Tensor all;
  until_interrupted([&](const StopRequest& stop) {
    const nb::gil_scoped_release release;
    all = all_answers(model, *objective, data, micro_batch, dtype, device, stop);
  });
  return array_of(all);
}

Dataset question_by_name(nb::handle x, const std::vector<Network::Input>& inputs) {
  if (are_named(x)) return dataset_by_name(x, "x", inputs, TakesTargets::no);
  check(inputs.size() == 1,
        "x has no names, but the network has {}: expected a dictionary of arrays",
        counted(std::ssize(inputs), "input"));
  nb::dict named;
  named[inputs.front().name.c_str()] = x;
  return dataset_by_name(named, "x", inputs, TakesTargets::no);
}

nb::object answers_by_name(Dataset data, const Normalization& pixels, const accrue::Layer& model,
                           int64_t micro_batch, DType dtype, Device device) {
  round_numbers(data, dtype);
  std::vector<std::string> inputs;
  for (Field& field : data.fields) {
    field.normalization = pixels;
    inputs.push_back(field.name);
  }
  const std::vector<std::string> outputs = output_names(model);
  std::vector<Tensor> all;
  until_interrupted([&](const StopRequest& stop) {
    const nb::gil_scoped_release release;
    all = all_answers(model, inputs, outputs, data, micro_batch, dtype, device, stop);
  });
  nb::dict answers;
  for (size_t i = 0; i < outputs.size(); ++i) answers[outputs[i].c_str()] = array_of(all[i]);
  return answers;
}

nb::object answers_of(nb::handle x, const LanguageModel& model, TextAnswers kind,
                      int64_t micro_batch, Device device) {
  const auto rows = tokens_of(x);
  check(rows.has_value(), "x has no tokens: expected integers [N, T], for a language model");
  Tensor all;
  until_interrupted([&](const StopRequest& stop) {
    const nb::gil_scoped_release release;
    all = (kind == TextAnswers::logits ? logits_of : embeddings_of)(*rows, model, micro_batch,
                                                                    device, stop);
  });
  return array_of(all);
}

void see_as_trained(Dataset& data, const Request& options) {
  DomainModel model = options.domains.model(options.model_name);
  const Metadata said = read_safetensors_metadata(options.weights);
  const Shape &here = data.fields.front().values.shape(), &known = options.sample.input().shape;
  if (here.rank() == 4 && known.rank() == 3)
    check(here[1] == known[0],
          "x is {}, images of {}, but {} was trained on {}: expected [N, {}, H, W]", here,
          counted(here[1], "channel"), options.weights, known[0], known[0]);
  if (const auto answers = said.find("answers"); answers != said.end())
    model.sample.fields.back().name = answers->second;
  Datasets both{.train = {}, .test = std::move(data)};
  crop(both, model, options.data_request(DataUse::prediction));
  data = std::move(both.test);
}

}  // namespace accrue::python
