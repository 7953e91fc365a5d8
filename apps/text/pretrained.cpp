#include "apps/text/pretrained.h"

#include <algorithm>

#include "apps/cli/messages.h"
#include "apps/domains.h"
#include "data/new_directory.h"
#include "job/load_data.h"
#include "job/load_network.h"
#include "text/domain.h"
#include "text/gguf_base.h"
#include "text/gguf_export.h"
#include "text/gguf_tokenizer_export.h"
#include "text/pretrained.h"
#include "text/tokenizers.h"
#include "train/weights.h"

namespace accrue::app {
namespace {

// Writes weights that are a whole model of these options.
void write_weights(const std::string& from, const std::string& to, const NamedTensors& weights,
                   const Request& options, const SampleSpec& rows) {
  const auto model = options.factory(rows)();
  const Parameters parameters =
      place(*model, DType::f32, Device::meta, 0, GradientStorage::on_demand);
  check_weights_fit(from, weights, parameters);
  write_safetensors(to, weights, options.metadata_of(rows));
  say("{}: {}, {} parameters\n", to, model->describe(), parameters.count());
}

void import_adapters(const ImportOptions& asked) {
  Request options{all_domains()};
  options.init = asked.base;
  options = with_settings_of_weights(options, spoken());
  text_of(options);
  PretrainedAdapters found = read_pretrained_adapters(asked.from);
  LoraOptions& lora = options.domains.get<Text>().lora;
  check(!lora.rank, "{} has adapters already: expected weights without, or merged ones",
        asked.base);
  lora = found.options;
  NamedTensors weights = read_safetensors(asked.base);
  std::ranges::move(found.weights, std::back_inserter(weights));
  write_weights(asked.from, asked.out, weights, options, options.sample);
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

// The weights of a model whose adapters have been added to them: beside a base, to its numbers in
// float32.
NamedTensors merged_weights(const Request& options) {
  const Text& text = text_of(options);
  NamedTensors weights;
  if (text.base.empty()) {
    const LoadedNetwork network = load_network(options, options.sample, Device::cpu);
    merge_lora(*network.model);
    weights = named_tensors(network.parameters);
  } else {
    const BasePtr base = text.open_base();
    const SampleSpec rows = Text::rows_of_tokens(1, base->model().vocabulary);
    const auto model =
        make_text_model(text.network(options.model_name, options.network, rows, base), text.lora);
    model->visit_parameters([&](const std::string& name, Parameter& p) {
      if (is_of_adapter(name)) return;
      p.source = [base, name, shape = p.shape](DType, Device) {
        return base->widened(name, shape);
      };
    });
    Parameters parameters = place(*model, DType::f32, Device::cpu, 0, GradientStorage::on_demand);
    load_weights(options.init, parameters);
    merge_lora(*model);
    model->visit_parameters(
        [&](const std::string& name, Parameter& p) { weights.emplace_back(name, p.tensor); });
  }
  std::erase_if(weights, [](const auto& named) { return is_of_adapter(named.first); });
  return weights;
}

// The options of a model without adapters and base.
Request merged_options(const Request& options) {
  Request plain = options;
  Text& text = plain.domains.get<Text>();
  if (!text.base.empty())
    plain.sample =
        plain.sample.with(plain.sample.input().shape, text.open_base()->model().vocabulary);
  text.leave_adapters();
  return plain;
}

// That of a GGUF file or a directory of transformers', if it has one that can be read.
TokenizerFiles tokenizer_of_model(const std::string& from) {
  try {
    return tokenizer_with_files(from);
  } catch (const Error& error) {
    say_error("warning: the weights will not say which tokenizer they learned by: {}\n",
              error.what());
    return {};
  }
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
            reads("DIR|FILE.gguf")})
      .add(asked.base, {"base", no_result, "The weights that adapters are beside, as they are here",
                        reads("FILE.safetensors")})
      .add(asked.out, {.name = "out",
                       .decides = no_result,
                       .help = "The weights, for --init",
                       .takes = writes("FILE.safetensors"),
                       .asked_by = AskedBy::most_runs});
  return s;
}

void import_text_model(const ImportOptions& asked) {
  if (!asked.base.empty()) return import_adapters(asked);
  check(std::filesystem::exists(asked.from) || !is_name_on_hub(asked.from),
        "there is no '{0}': a model of this name on Hugging Face's hub is fetched by `hf download "
        "{0} --local-dir DIR`, and imported by --from DIR",
        asked.from);
  std::optional<GgufBase> base;
  if (asked.from.ends_with(".gguf")) base.emplace(asked.from);
  const PretrainedModel found = base ? base->model() : read_pretrained_config(asked.from);
  const NamedTensors weights =
      base ? widened_weights(*base) : read_pretrained_weights(asked.from, found);
  Request options{all_domains()};
  options.model_name = found.name;
  Text& text = options.domains.get<Text>();
  text.sizes = found.sizes;
  text.rows.context = found.context;
  text.files = found.files;
  text.own_title = found.title;
  const TokenizerFiles tokenizer = tokenizer_of_model(asked.from);
  const std::string folder = tokenizer_folder_of(asked.out);
  if (tokenizer.tokenizer)
    text.learned_by = {base ? asked.from : folder, tokenizer_checksum(*tokenizer.tokenizer),
                       tokenizer.tokenizer->size()};
  for (const std::string& warning : found.warnings) say_error("warning: {}\n", warning);
  write_weights(asked.from, asked.out, weights, options,
                Text::rows_of_tokens(found.context, found.vocabulary));
  if (tokenizer.tokenizer) keep_tokenizer(tokenizer, folder);
}

Settings settings_of(ExportOptions& asked, Request& options) {
  constexpr Decides no_result = Decides::no_result;
  static const std::map<std::string, GgufTypes> types{
      {"F32", GgufTypes::f32},   {"F16", GgufTypes::f16},   {"BF16", GgufTypes::bf16},
      {"Q8_0", GgufTypes::q8_0}, {"Q4_0", GgufTypes::q4_0}, {"base", GgufTypes::of_base}};
  Settings s;
  s.group("Options")
      .add(options.init, trained_weights("A language model's, as train saves them"))
      .add(asked.tokenizer,
           {"tokenizer", no_result,
            "What it learned by, to lie beside it or in FILE.gguf: a tokenizer.json, a directory "
            "with a tokenizer, a GGUF file, or bytes, which need no file",
            reads("FILE|DIR"), "what the weights say"})
      .add_flag(asked.adapter, true,
                {"adapter", no_result, "The adapters of --lora alone, for PEFT or llama.cpp"})
      .add(asked.base, {.name = "base",
                        .decides = no_result,
                        .help = "The model that PEFT shall load below them",
                        .takes = reads("NAME|DIR"),
                        .needs = "adapter"})
      .add(asked.type, types,
           {.name = "gguf-type",
            .decides = no_result,
            .help = "In which matrices are stored in FILE.gguf; base: those of the base's file, "
                    "whose tensors without adapters stay as they are"})
      .add(asked.out,
           {.name = "out",
            .decides = no_result,
            .help = "A new directory, for transformers' from_pretrained(), or a file for "
                    "llama.cpp, to which adapters are added",
            .takes = writes("DIR|FILE.gguf"),
            .asked_by = AskedBy::most_runs});
  return s.append(settings_of(options).only({"model"}));
}

namespace {

bool is_gguf(const std::string& path) { return path.ends_with(".gguf"); }

DType dtype_of(GgufTypes types) {
  switch (types) {
    case GgufTypes::f32: return DType::f32;
    case GgufTypes::bf16: return DType::bf16;
    case GgufTypes::q8_0: return DType::q8_0;
    case GgufTypes::q4_0: return DType::q4_0;
    default: return DType::f16;
  }
}

// What PEFT's AutoPeftModel loads below adapters.
void check_name_of_base(const std::string& base) {
  std::error_code ignored;
  const std::filesystem::path path = base;
  check(!base.empty(),
        "adapter_config.json names the model below the adapters, which PEFT loads: expected --base "
        "with its name on the hub, or its directory");
  const bool is_file = std::filesystem::is_regular_file(path, ignored);
  check(!is_gguf(base) && !is_file,
        "--base {}: PEFT loads no such file below adapters: expected the name of the model on the "
        "hub, or a directory with config.json{}",
        base,
        is_gguf(base) ? ", of which that file was made; or --out FILE.gguf, for llama.cpp" : "");
  check(!std::filesystem::is_directory(path, ignored) ||
            std::filesystem::exists(path / "config.json", ignored),
        "--base {}: the directory has no config.json, so that it is no model of transformers'",
        base);
}

// The file that has the tokenizer as GGUF has it, or nothing.
std::string gguf_with_tokenizer(const std::string& tokenizer) {
  if (is_gguf(tokenizer)) return tokenizer;
  if (tokenizer == "bytes") return "";
  const std::filesystem::path within = std::filesystem::path(tokenizer) / "tokenizer.gguf";
  std::error_code ignored;
  return std::filesystem::exists(within, ignored) ? within.string() : "";
}

void warn_of_rounding(double kept) {
  constexpr double enough = 0.8, percent = 100;
  if (kept >= enough) return;
  say_error(
      "warning: rounded to these types the weights keep {:.0f} % of what the adapters add to them, "
      "so that what was trained may be lost: expected --gguf-type Q8_0 or F16, or --adapter, a "
      "file "
      "of the adapters alone\n",
      percent * std::max(kept, 0.0));
}

// A GGUF file has it in its own words, also where they cannot be read here.
void add_tokenizer(GgufWriter& file, const Text& text, const std::string& place,
                   int64_t vocabulary) {
  if (const std::string from = gguf_with_tokenizer(place); !from.empty()) {
    const KnownTokenizer known = tokenizer_in_gguf(from);
    if (known.is_known()) text.check_tokenizer(known, vocabulary);
    return add_gguf_tokenizer(file, GgufFile(from), vocabulary);
  }
  const TokenizerFiles from = tokenizer_with_files(place);
  text.check_tokenizer({place, tokenizer_checksum(*from.tokenizer), from.tokenizer->size()},
                       vocabulary);
  add_gguf_tokenizer(file, from, vocabulary);
}

void export_gguf_model(const Request& options, const ExportOptions& asked) {
  const Text& text = text_of(options);
  const bool keeps_types = asked.type == GgufTypes::of_base;
  check(!keeps_types || is_gguf(text.base),
        "--gguf-type base: {} has no GGUF file as its base: expected F32, F16, BF16, Q8_0 or Q4_0",
        options.init);
  const Request plain = merged_options(options);
  const int64_t vocabulary = plain.sample.classes();
  const TextModelOptions model = text_of(plain).network(
      plain.model_name, plain.network, Text::rows_of_tokens(1, vocabulary), nullptr);
  GgufWriter file;
  std::optional<GgufFile> like;
  GgufStorage storage{.type = dtype_of(asked.type)};
  if (keeps_types) storage.like = &like.emplace(text.base);
  constexpr std::string_view end = ".lora_A.weight";
  for (const auto& entry : read_safetensors_header(options.init).entries)
    if (entry.name.ends_with(end))
      storage.changed.insert(entry.name.substr(0, entry.name.size() - end.size()) + ".weight");
  const NamedTensors weights = merged_weights(options);
  if (!text.base.empty())
    warn_of_rounding(share_of_changes_kept(*text.open_base(), weights, storage));
  add_gguf_model(file, model, weights, storage);
  add_gguf_general(file, text_of(plain).files);
  add_tokenizer(file, text, text.chosen_tokenizer(asked.tokenizer), vocabulary);
  file.write(asked.out);
  say("{}: {}\n", asked.out, make_text_model(model)->describe());
}

void export_gguf_adapters(const Request& options, const ExportOptions& asked,
                          const TextModelOptions& model) {
  const LoraOptions& lora = text_of(options).lora;
  check(!options.given.contains("gguf-type"), "--gguf-type: adapters are written in F32");
  check(asked.base.empty(), "--base {}: a GGUF file of adapters names no model below them",
        asked.base);
  GgufWriter file;
  const NamedTensors weights = read_safetensors(options.init);
  add_gguf_adapters(file, model, lora, weights);
  file.write(asked.out);
  say("{}: adapters of rank {} for {}\n", asked.out, *lora.rank,
      make_text_model(model)->describe());
}

void export_adapters(const Request& options, const ExportOptions& asked,
                     const TextModelOptions& model, const NamedTensors& weights,
                     const NewDirectory& out) {
  const LoraOptions& lora = text_of(options).lora;
  write_safetensors(out.path() / "adapter_model.safetensors", as_pretrained_adapters(weights),
                    {{"format", "pt"}});
  out.write(out.path() / "adapter_config.json", pretrained_adapter_config(model, lora, asked.base));
}

// Nothing if it is not asked for, and not found.
TokenizerFiles tokenizer_of_export(const Text& text, const ExportOptions& asked,
                                   int64_t vocabulary) {
  try {
    const std::string place = text.chosen_tokenizer(asked.tokenizer);
    TokenizerFiles found = tokenizer_with_files(place);
    text.check_tokenizer({place, tokenizer_checksum(*found.tokenizer), found.tokenizer->size()},
                         vocabulary);
    if (found.files.empty())
      say_error("warning: {} has no tokenizer: its tokens are bytes, of which there is no file\n",
                asked.out);
    return found;
  } catch (const Error& error) {
    if (!asked.tokenizer.empty()) throw;
    say_error(
        "warning: {} has no tokenizer, which --tokenizer FILE|DIR would write beside it: {}\n",
        asked.out, error.what());
    return {};
  }
}

void export_whole(const Request& options, const ExportOptions& asked, const TextModelOptions& model,
                  const NamedTensors& weights, const NewDirectory& out) {
  const Text& text = text_of(options);
  const TokenizerFiles tokenizer = tokenizer_of_export(text, asked, options.sample.classes());
  write_safetensors(out.path() / "model.safetensors", weights, {{"format", "pt"}});
  TextEnds ends;
  if (tokenizer.tokenizer) ends.begin = ends.end = tokenizer.tokenizer->end_of_text();
  for (const auto& [file, content] :
       pretrained_files(model, weights.front().second.dtype(), ends, text.files))
    out.write(out.path() / file, content);
  for (const auto& [file, content] : tokenizer.files) out.write(out.path() / file, content);
}

}  // namespace

void export_text_model(const Request& options, const ExportOptions& asked) {
  const Text& text = text_of(options);
  // It stays made for what it is made for.
  const TextModelOptions model = text.network(options.model_name, options.network,
                                              Text::rows_of_tokens(1, options.sample.classes()),
                                              text.base.empty() ? nullptr : text.open_base());
  check(!asked.adapter || text.lora.rank, "{} has no adapters: expected no --adapter",
        options.init);
  if (is_gguf(asked.out))
    return asked.adapter ? export_gguf_adapters(options, asked, model)
                         : export_gguf_model(options, asked);
  check(!options.given.contains("gguf-type"),
        "--gguf-type is of a GGUF file, but --out {} is a directory: expected --out "
        "FILE.gguf",
        asked.out);
  check(asked.adapter || !text.lora.rank,
        "{} has adapters: expected --adapter, or weights that `accrue text merge` has written",
        options.init);
  if (asked.adapter) check_name_of_base(asked.base);
  const NamedTensors weights = read_safetensors(options.init);
  const Parameters parameters = place(*options.factory(options.sample)(), DType::f32, Device::meta,
                                      0, GradientStorage::on_demand);
  check_weights_fit(options.init, weights, parameters);
  NewDirectory out(asked.out);
  if (asked.adapter) export_adapters(options, asked, model, weights, out);
  else export_whole(options, asked, model, weights, out);
  out.commit();
  say("{}: {}, {} parameters\n", asked.out, make_text_model(model)->describe(),
      asked.adapter ? parameters.trained_count() : parameters.count());
}

Settings settings_of_merge(Request& options, std::string& out) {
  constexpr Decides no_result = Decides::no_result;
  Settings s;
  s.group("Options")
      .add(options.init, trained_weights("A language model's, with adapters"))
      .add(out, {.name = "out",
                 .decides = no_result,
                 .help = "The same without, for --init and --weights",
                 .takes = writes("FILE.safetensors"),
                 .asked_by = AskedBy::most_runs});
  return s.append(settings_of(options).only({"model"}));
}

void merge_text_model(const Request& options, const std::string& out) {
  const Text& text = text_of(options);
  check(text.lora.rank.has_value(), "{} has no adapters to merge", options.init);
  const Request plain = merged_options(options);
  write_weights(options.init, out, merged_weights(options), plain, plain.sample);
}

}  // namespace accrue::app
