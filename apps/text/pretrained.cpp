#include "apps/text/pretrained.h"

#include "apps/cli/messages.h"
#include "apps/text/language_model.h"
#include "data/new_directory.h"
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

}  // namespace

Settings settings_of(ImportOptions& asked) {
  constexpr Decides no_result = Decides::no_result;
  Settings s;
  s.group("Options")
      .add(asked.from, {"from", no_result,
                        "A directory with config.json and model.safetensors, or several files and "
                        "their index",
                        "DIR"})
      .add(asked.out, {"out", no_result, "The weights, for --init", "FILE.safetensors"});
  return s;
}

void import_text_model(const ImportOptions& asked) {
  const PretrainedModel found = read_pretrained_config(asked.from);
  const NamedTensors weights = read_pretrained_weights(asked.from, found);
  Options options;
  options.model_name = found.name;
  Text& text = text_of(options);
  text.sizes = found.sizes;
  text.rows.context = found.context;
  ModelOptions network;
  network.image = {found.context};
  network.classes = found.vocabulary;
  const auto model = options.factory(network)();
  const Parameters parameters =
      place(*model, DType::f32, Device::meta, 0, GradientStorage::on_demand);
  check_weights_fit(asked.from, weights, parameters);
  write_safetensors(asked.out, weights, options.metadata_of(network));
  say("{}: {}, {} parameters\n", asked.out, model->describe(), parameters.count());
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
      .add(asked.out,
           {"out", no_result, "A new directory, for transformers' from_pretrained()", "DIR"});
  return s.append(settings_of(options).only({"model"}));
}

void export_text_model(const Options& options, const ExportOptions& asked) {
  const Text& text = check_language_model(options);
  const TokenizerFiles tokenizer = tokenizer_with_files(asked.tokenizer);
  const ModelOptions& network = options.network;
  const TextModelOptions model = text_model_for(text_model(options.model_name, text.sizes),
                                                network.classes, text.rows.context);
  const Parameters parameters =
      place(*make_text_model(model), DType::f32, Device::meta, 0, GradientStorage::on_demand);
  const NamedTensors weights = read_safetensors(options.init);
  check_weights_fit(options.init, weights, parameters);
  NewDirectory out(asked.out);
  write_safetensors(out.path() / "model.safetensors", weights, {{"format", "pt"}});
  out.write(out.path() / "config.json", pretrained_config(model, weights.front().second.dtype(),
                                                          tokenizer.tokenizer->end_of_text()));
  for (const auto& [file, content] : tokenizer.files) out.write(out.path() / file, content);
  out.commit();
  say("{}: {}, {} parameters\n", asked.out, make_text_model(model)->describe(), parameters.count());
}

}  // namespace accrue::app
