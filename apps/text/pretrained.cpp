#include "apps/text/pretrained.h"

#include "apps/cli/load_data.h"
#include "apps/cli/load_network.h"
#include "apps/cli/messages.h"
#include "apps/text/language_model.h"
#include "data/new_directory.h"
#include "text/gguf_base.h"
#include "text/pretrained.h"
#include "text/tokenizers.h"
#include "train/weights.h"

namespace accrue::app {
namespace {

// The domain of options that will be asked for a language model.
Text& text_of(Options& options) {
  for (const auto& domain : options.domains)
    if (auto* const text = dynamic_cast<Text*>(domain.get())) return *text;
  fail("this program has no language models");
}

// Writes weights that are a whole model of these options.
void write_weights(const std::string& from, const std::string& to, const NamedTensors& weights,
                   const Options& options, const ModelOptions& network) {
  const auto model = options.factory(network)();
  const Parameters parameters =
      place(*model, DType::f32, Device::meta, 0, GradientStorage::on_demand);
  check_weights_fit(from, weights, parameters);
  write_safetensors(to, weights, options.metadata_of(network));
  say("{}: {}, {} parameters\n", to, model->describe(), parameters.count());
}

void import_adapters(const ImportOptions& asked) {
  Options options;
  options.init = asked.base;
  options = with_options_of_weights(options);
  check_language_model(options);
  PretrainedAdapters found = read_pretrained_adapters(asked.from);
  LoraOptions& lora = text_of(options).lora;
  check(!lora.rank, "{} has adapters already: expected weights without, or merged ones",
        asked.base);
  lora = found.options;
  NamedTensors weights = read_safetensors(asked.base);
  std::ranges::move(found.weights, std::back_inserter(weights));
  write_weights(asked.from, asked.out, weights, options, options.network);
}

// All parameters of a base, in float32.
NamedTensors widened_weights(const GgufBase& base) {
  const auto model = make_text_model(text_model_for(
      text_model(base.model().name, base.model().sizes), base.model().vocabulary, 1));
  NamedTensors weights;
  model->visit_parameters([&](const std::string& name, const Parameter& p) {
    weights.emplace_back(name, base.widened(name, p.shape));
  });
  return weights;
}

}  // namespace

Settings settings_of(ImportOptions& asked) {
  constexpr Decides no_result = Decides::no_result;
  Settings s;
  s.group("Options")
      .add(asked.from,
           {"from", no_result,
            "A directory with config.json and model.safetensors, or several files and "
            "their index; a GGUF file, whose weights are widened; or with --base PEFT's "
            "adapter_config.json and adapter_model.safetensors",
            "DIR|FILE.gguf"})
      .add(asked.base, {"base", no_result, "The weights that adapters are beside, as they are here",
                        "FILE.safetensors"})
      .add(asked.out, {"out", no_result, "The weights, for --init", "FILE.safetensors"});
  return s;
}

void import_text_model(const ImportOptions& asked) {
  if (!asked.base.empty()) return import_adapters(asked);
  std::optional<GgufBase> base;
  if (asked.from.ends_with(".gguf")) base.emplace(asked.from);
  const PretrainedModel found = base ? base->model() : read_pretrained_config(asked.from);
  const NamedTensors weights =
      base ? widened_weights(*base) : read_pretrained_weights(asked.from, found);
  Options options;
  options.model_name = found.name;
  Text& text = text_of(options);
  text.sizes = found.sizes;
  text.rows.context = found.context;
  text.files = found.files;
  for (const std::string& warning : found.warnings) say_error("warning: {}\n", warning);
  ModelOptions network;
  network.image = {found.context};
  network.classes = found.vocabulary;
  write_weights(asked.from, asked.out, weights, options, network);
}

Settings settings_of(ExportOptions& asked, Options& options) {
  constexpr Decides no_result = Decides::no_result;
  Settings s;
  s.group("Options")
      .add(options.init,
           {"weights", no_result, "A language model's, as train saves them", "FILE.safetensors"})
      .add(asked.tokenizer,
           {"tokenizer", no_result,
            "What it learned by, to lie beside it: a tokenizer.json, a directory with a tokenizer, "
            "or bytes, which need no file",
            "FILE|DIR"})
      .add_flag(asked.adapter, true,
                {"adapter", no_result, "The adapters of --lora alone, for PEFT"})
      .add(asked.base, {.name = "base",
                        .decides = no_result,
                        .help = "The model that PEFT shall load below them",
                        .takes = "NAME|DIR",
                        .needs = "adapter"})
      .add(asked.out,
           {"out", no_result, "A new directory, for transformers' from_pretrained()", "DIR"});
  return s.append(settings_of(options).only({"model"}));
}

void export_text_model(const Options& options, const ExportOptions& asked) {
  const Text& text = check_language_model(options);
  const LoraOptions& lora = text.lora;
  ModelOptions network = options.network;
  network.image = {1};  // it stays made for what it is made for
  const TextModelOptions model =
      text.network(options.model_name, network, text.base.empty() ? nullptr : text.open_base());
  check(asked.adapter == lora.rank.has_value(), "{} has {}adapters: expected {}", options.init,
        lora.rank ? "" : "no ",
        lora.rank ? "--adapter, or weights that `accrue text merge` has written" : "no --adapter");
  const NamedTensors weights = read_safetensors(options.init);
  const Parameters parameters = place(*options.factory(options.network)(), DType::f32, Device::meta,
                                      0, GradientStorage::on_demand);
  check_weights_fit(options.init, weights, parameters);
  NewDirectory out(asked.out);
  if (asked.adapter) {
    write_safetensors(out.path() / "adapter_model.safetensors", as_pretrained_adapters(weights),
                      {{"format", "pt"}});
    out.write(out.path() / "adapter_config.json",
              pretrained_adapter_config(model, lora, asked.base));
  } else {
    const TokenizerFiles tokenizer = tokenizer_with_files(asked.tokenizer);
    write_safetensors(out.path() / "model.safetensors", weights, {{"format", "pt"}});
    const int64_t end = tokenizer.tokenizer->end_of_text();
    const bool is_its_own = tokenizer.tokenizer->size() <= options.network.classes;
    const TextEnds ends = is_its_own ? TextEnds{end, end} : TextEnds{};
    for (const auto& [file, content] :
         pretrained_files(model, weights.front().second.dtype(), ends, text.files))
      out.write(out.path() / file, content);
    for (const auto& [file, content] : tokenizer.files) out.write(out.path() / file, content);
  }
  out.commit();
  say("{}: {}, {} parameters\n", asked.out, make_text_model(model)->describe(),
      asked.adapter ? parameters.trained_count() : parameters.count());
}

Settings settings_of_merge(Options& options, std::string& out) {
  constexpr Decides no_result = Decides::no_result;
  Settings s;
  s.group("Options")
      .add(options.init,
           {"weights", no_result, "A language model's, with adapters", "FILE.safetensors"})
      .add(out,
           {"out", no_result, "The same without, for --init and --weights", "FILE.safetensors"});
  return s.append(settings_of(options).only({"model"}));
}

void merge_text_model(const Options& options, const std::string& out) {
  const Text& text = check_language_model(options);
  check(text.lora.rank.has_value(), "{} has no adapters to merge", options.init);
  check(text.base.empty(),
        "{} has adapters of the blocks in {}, which nothing can be added to: expected them beside "
        "numbers (accrue text import --from {}, then text export --adapter and text import --base)",
        options.init, text.base, text.base);
  LoadedNetwork network = load_network(options, options.network, Device::cpu);
  merge_lora(*network.model);
  NamedTensors weights = named_tensors(network.parameters);
  std::erase_if(weights, [](const auto& named) { return is_of_adapter(named.first); });
  Options plain = options;
  text_of(plain).lora = {};
  write_weights(options.init, out, weights, plain, options.network);
}

}  // namespace accrue::app
