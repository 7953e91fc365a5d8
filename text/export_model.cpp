#include "text/export_model.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>

#include "data/new_directory.h"
#include "text/domain.h"
#include "text/gguf_export.h"
#include "text/gguf_tokenizer_export.h"
#include "text/import_model.h"
#include "text/pretrained.h"
#include "text/tokenizers.h"
#include "train/weights.h"

namespace accrue {
namespace {

bool is_gguf(const std::string& path) { return path.ends_with(".gguf"); }

DType type_of_matrices(GgufTypes types) {
  switch (types) {
    case GgufTypes::f32: return DType::f32;
    case GgufTypes::bf16: return DType::bf16;
    case GgufTypes::q8_0: return DType::q8_0;
    case GgufTypes::q4_0: return DType::q4_0;
    default: return DType::f16;
  }
}

// Checks the name of the model that PEFT's AutoPeftModel loads below adapters.
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

// The GGUF file that contains the tokenizer, or nothing.
std::string gguf_with_tokenizer(const std::string& tokenizer) {
  if (is_gguf(tokenizer)) return tokenizer;
  if (tokenizer == "bytes") return "";
  const std::filesystem::path within = std::filesystem::path(tokenizer) / "tokenizer.gguf";
  std::error_code ignored;
  return std::filesystem::exists(within, ignored) ? within.string() : "";
}

void warn_of_rounding(double kept, const Notices& notices) {
  constexpr double enough = 0.8, percent = 100;
  if (kept >= enough) return;
  notices.warn(
      "rounded to these types the weights keep {:.0f} % of what the adapters add to them, so that "
      "what was trained may be lost: expected --gguf-type Q8_0 or F16, or --adapter, a file of the "
      "adapters alone",
      percent * std::max(kept, 0.0));
}

// Copies the tokenizer of a GGUF file as it is, even if accrue cannot read it.
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

void export_gguf_model(const Request& request, const ExportOptions& asked, const Notices& notices) {
  const Text& text = text_of(request);
  const bool keeps_types = asked.type == GgufTypes::of_base;
  check(!keeps_types || is_gguf(text.base),
        "--gguf-type base: {} has no GGUF file as its base: expected F32, F16, BF16, Q8_0 or Q4_0",
        request.init);
  const Request plain = merged_request(request);
  const int64_t vocabulary = plain.sample.classes();
  const TextModelOptions model = text_of(plain).network(
      plain.model_name, plain.network, Text::rows_of_tokens(1, vocabulary), nullptr);
  GgufWriter file;
  std::optional<GgufFile> like;
  GgufStorage storage{.type = type_of_matrices(asked.type)};
  if (keeps_types) storage.like = &like.emplace(text.base);
  constexpr std::string_view end = ".lora_A.weight";
  for (const auto& entry : read_safetensors_header(request.init).entries)
    if (entry.name.ends_with(end))
      storage.changed.insert(entry.name.substr(0, entry.name.size() - end.size()) + ".weight");
  const NamedTensors weights = merged_weights(request);
  if (!text.base.empty())
    warn_of_rounding(share_of_changes_kept(*text.open_base(), weights, storage), notices);
  add_gguf_model(file, model, weights, storage);
  add_gguf_general(file, text_of(plain).files);
  add_tokenizer(file, text, text.chosen_tokenizer(asked.tokenizer), vocabulary);
  file.write(asked.out);
  notices.say("{}: {}", asked.out, make_text_model(model)->describe());
}

void export_gguf_adapters(const Request& request, const ExportOptions& asked,
                          const TextModelOptions& model, const Notices& notices) {
  const LoraOptions& lora = text_of(request).lora;
  check(!request.given.contains("gguf-type"), "--gguf-type: adapters are written in F32");
  check(asked.base.empty(), "--base {}: a GGUF file of adapters names no model below them",
        asked.base);
  GgufWriter file;
  const NamedTensors weights = read_safetensors(request.init);
  add_gguf_adapters(file, model, lora, weights);
  file.write(asked.out);
  notices.say("{}: adapters of rank {} for {}", asked.out, *lora.rank,
              make_text_model(model)->describe());
}

void export_adapters(const Request& request, const ExportOptions& asked,
                     const TextModelOptions& model, const NamedTensors& weights,
                     const NewDirectory& out) {
  const LoraOptions& lora = text_of(request).lora;
  write_safetensors(out.path() / "adapter_model.safetensors", as_pretrained_adapters(weights),
                    {{"format", "pt"}});
  out.write(out.path() / "adapter_config.json", pretrained_adapter_config(model, lora, asked.base));
}

// Returns nothing if no tokenizer was asked for and none was found.
TokenizerFiles tokenizer_of_export(const Text& text, const ExportOptions& asked, int64_t vocabulary,
                                   const Notices& notices) {
  try {
    const std::string place = text.chosen_tokenizer(asked.tokenizer);
    TokenizerFiles found = tokenizer_with_files(place);
    text.check_tokenizer({place, tokenizer_checksum(*found.tokenizer), found.tokenizer->size()},
                         vocabulary);
    if (found.files.empty())
      notices.warn("{} has no tokenizer: its tokens are bytes, of which there is no file",
                   asked.out);
    return found;
  } catch (const Error& error) {
    if (!asked.tokenizer.empty()) throw;
    notices.warn("{} has no tokenizer, which --tokenizer FILE|DIR would write beside it: {}",
                 asked.out, error.what());
    return {};
  }
}

void export_whole(const Request& request, const ExportOptions& asked, const TextModelOptions& model,
                  const NamedTensors& weights, const NewDirectory& out, const Notices& notices) {
  const Text& text = text_of(request);
  const TokenizerFiles tokenizer =
      tokenizer_of_export(text, asked, request.sample.classes(), notices);
  write_safetensors(out.path() / "model.safetensors", weights, {{"format", "pt"}});
  TextEnds ends;
  if (tokenizer.tokenizer) ends.begin = ends.end = tokenizer.tokenizer->end_of_text();
  for (const auto& [file, content] :
       pretrained_files(model, weights.front().second.dtype(), ends, text.files))
    out.write(out.path() / file, content);
  for (const auto& [file, content] : tokenizer.files) out.write(out.path() / file, content);
}

}  // namespace

void export_text_model(const Request& request, const ExportOptions& asked, const Notices& notices) {
  const Text& text = text_of(request);
  // Keeps the context that the model is made for.
  const TextModelOptions model = text.network(request.model_name, request.network,
                                              Text::rows_of_tokens(1, request.sample.classes()),
                                              text.base.empty() ? nullptr : text.open_base());
  check(!asked.adapter || text.lora.rank, "{} has no adapters: expected no --adapter",
        request.init);
  if (is_gguf(asked.out))
    return asked.adapter ? export_gguf_adapters(request, asked, model, notices)
                         : export_gguf_model(request, asked, notices);
  check(!request.given.contains("gguf-type"),
        "--gguf-type is of a GGUF file, but --out {} is a directory: expected --out "
        "FILE.gguf",
        asked.out);
  check(asked.adapter || !text.lora.rank,
        "{} has adapters: expected --adapter, or weights that `accrue text merge` has written",
        request.init);
  if (asked.adapter) check_name_of_base(asked.base);
  const NamedTensors weights = read_safetensors(request.init);
  const Parameters parameters = place(*request.factory(request.sample)(), DType::f32, Device::meta,
                                      0, GradientStorage::on_demand);
  check_weights_fit(request.init, weights, parameters);
  NewDirectory out(asked.out);
  if (asked.adapter) export_adapters(request, asked, model, weights, out);
  else export_whole(request, asked, model, weights, out, notices);
  out.commit();
  notices.say("{}: {}, {} parameters", asked.out, make_text_model(model)->describe(),
              asked.adapter ? parameters.trained_count() : parameters.count());
}

}  // namespace accrue
