#include "apps/text/pretrained.h"

namespace accrue::app {

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

}  // namespace accrue::app
