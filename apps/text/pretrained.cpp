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
      .add(asked.base, {"base", no_result, "The adapters' base weights, in a file of accrue",
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
      .add(options.init, trained_weights("A language model's weights, as train saves them"))
      .add(asked.tokenizer,
           {"tokenizer", no_result,
            "The model's tokenizer, to write beside it or into FILE.gguf: a tokenizer.json, a "
            "directory with one, a GGUF file, or bytes, which need no file",
            reads("FILE|DIR"), "the weights' tokenizer"})
      .add_flag(asked.adapter, true,
                {"adapter", no_result, "Write only the adapters of --lora, for PEFT or llama.cpp"})
      .add(asked.base, {.name = "base",
                        .decides = no_result,
                        .help = "The base model that PEFT will load for them",
                        .takes = reads("NAME|DIR"),
                        .needs = "adapter"})
      .add(asked.type, types,
           {.name = "gguf-type",
            .decides = no_result,
            .help = "The type of matrices in FILE.gguf; base: the types in the base's file, whose "
                    "tensors without adapters stay as they are"})
      .add(asked.out, {.name = "out",
                       .decides = no_result,
                       .help = "A new directory for transformers' from_pretrained(), or a file for "
                               "llama.cpp, with adapters merged in",
                       .takes = writes("DIR|FILE.gguf"),
                       .asked_by = AskedBy::most_runs});
  return s.append(settings_of(options).only({"model"}));
}

Settings settings_of_merge(Request& options, std::string& out) {
  constexpr Decides no_result = Decides::no_result;
  Settings s;
  s.group("Options")
      .add(options.init, trained_weights("A language model's weights, with adapters"))
      .add(out, {.name = "out",
                 .decides = no_result,
                 .help = "The weights with the adapters merged in, for --init and --weights",
                 .takes = writes("FILE.safetensors"),
                 .asked_by = AskedBy::most_runs});
  return s.append(settings_of(options).only({"model"}));
}

}  // namespace accrue::app
