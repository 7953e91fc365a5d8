#include "text/import_model.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <utility>

#include "job/load_data.h"
#include "job/load_network.h"
#include "text/base.h"
#include "text/domain.h"
#include "text/pretrained.h"
#include "text/tokenizers.h"
#include "train/weights.h"

namespace accrue {
namespace {

// Writes weights that form a complete model of this request.
void write_weights(const std::string& from, const std::string& to, const NamedTensors& weights,
                   const Request& request, const SampleSpec& rows, const Notices& notices) {
  const auto model = request.factory(rows)();
  const Parameters parameters =
      place(*model, DType::f32, Device::meta, 0, GradientStorage::on_demand);
  check_weights_fit(from, weights, parameters);
  write_safetensors(to, weights, request.metadata_of(rows));
  notices.say("{}: {}, {} parameters", to, model->describe(), parameters.count());
}

void import_adapters(const ImportOptions& asked, Domains domains, const Notices& notices) {
  Request request{std::move(domains)};
  request.init = asked.base;
  request = with_settings_of_weights(request, notices);
  text_of(request);
  PretrainedAdapters found = read_pretrained_adapters(asked.from);
  LoraOptions& lora = request.domains.get<Text>().lora;
  check(!lora.rank, "{} has adapters already: expected weights without, or merged ones",
        asked.base);
  lora = found.options;
  NamedTensors weights = read_safetensors(asked.base);
  std::ranges::move(found.weights, std::back_inserter(weights));
  write_weights(asked.from, asked.out, weights, request, request.sample, notices);
}

// All parameters of a base, in float32.
NamedTensors widened_weights(const Base& base) {
  const auto model = make_text_model(text_model_for(
      text_model(base.model().name, base.model().sizes), base.model().vocabulary, 1));
  NamedTensors weights;
  model->visit_parameters([&](const std::string& name, const Parameter& p) {
    weights.emplace_back(name, base.widened(name, p.shape));
  });
  return weights;
}

// The tokenizer of a GGUF file or of a directory of transformers, if accrue can read it.
TokenizerFiles tokenizer_of_model(const std::string& from, const Notices& notices) {
  try {
    return tokenizer_with_files(from);
  } catch (const Error& error) {
    notices.warn("the weights will not say which tokenizer they learned by: {}", error.what());
    return {};
  }
}

}  // namespace

void import_text_model(const ImportOptions& asked, Domains domains, const Notices& notices) {
  if (!asked.base.empty()) return import_adapters(asked, std::move(domains), notices);
  check(std::filesystem::exists(asked.from) || !is_name_on_hub(asked.from),
        "there is no '{0}': a model of this name on Hugging Face's hub is fetched by `hf download "
        "{0} --local-dir DIR`, and imported by --from DIR",
        asked.from);
  std::optional<GgufBase> base;
  if (asked.from.ends_with(".gguf")) base.emplace(asked.from);
  const PretrainedModel found = base ? base->model() : read_pretrained_config(asked.from);
  const NamedTensors weights =
      base ? widened_weights(*base) : read_pretrained_weights(asked.from, found);
  Request request{std::move(domains)};
  request.model_name = found.name;
  Text& text = request.domains.get<Text>();
  text.sizes = found.sizes;
  text.rows.context = found.context;
  text.files = found.files;
  text.own_title = found.title;
  const TokenizerFiles tokenizer = tokenizer_of_model(asked.from, notices);
  const std::string folder = tokenizer_folder_of(asked.out);
  if (tokenizer.tokenizer)
    text.learned_by = {base ? asked.from : folder, tokenizer_checksum(*tokenizer.tokenizer),
                       tokenizer.tokenizer->size()};
  for (const std::string& warning : found.warnings) notices.warn("{}", warning);
  write_weights(asked.from, asked.out, weights, request,
                Text::rows_of_tokens(found.context, found.vocabulary), notices);
  if (tokenizer.tokenizer) keep_tokenizer(tokenizer, folder);
}

NamedTensors merged_weights(const Request& request) {
  const Text& text = text_of(request);
  NamedTensors weights;
  if (text.base.empty()) {
    const LoadedNetwork network = load_network(request, request.sample, Device::cpu);
    merge_lora(*network.model);
    weights = named_tensors(network.parameters);
  } else {
    const BasePtr base = text.open_base();
    const SampleSpec rows = Text::rows_of_tokens(1, base->model().vocabulary);
    const auto model =
        make_text_model(text.network(request.model_name, request.network, rows, base), text.lora);
    model->visit_parameters([&](const std::string& name, Parameter& p) {
      if (is_of_adapter(name)) return;
      p.source = [base, name, shape = p.shape](DType, Device) {
        return base->widened(name, shape);
      };
    });
    Parameters parameters = place(*model, DType::f32, Device::cpu, 0, GradientStorage::on_demand);
    load_weights(request.init, parameters);
    merge_lora(*model);
    model->visit_parameters(
        [&](const std::string& name, Parameter& p) { weights.emplace_back(name, p.tensor); });
  }
  std::erase_if(weights, [](const auto& named) { return is_of_adapter(named.first); });
  return weights;
}

Request merged_request(const Request& request) {
  Request plain = request;
  Text& text = plain.domains.get<Text>();
  if (!text.base.empty())
    plain.sample =
        plain.sample.with(plain.sample.input().shape, text.open_base()->model().vocabulary);
  text.leave_adapters();
  return plain;
}

void merge_text_model(const Request& request, const std::string& out, const Notices& notices) {
  const Text& text = text_of(request);
  check(text.lora.rank.has_value(), "{} has no adapters to merge", request.init);
  const Request plain = merged_request(request);
  write_weights(request.init, out, merged_weights(request), plain, plain.sample, notices);
}

}  // namespace accrue
