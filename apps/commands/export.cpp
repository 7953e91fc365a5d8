#include "apps/commands/export.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "apps/cli/messages.h"
#include "data/atomic_file.h"
#include "job/load_network.h"
#include "job/machine.h"
#include "train/onnx/onnx.h"

namespace accrue::app {
namespace {

std::string described(const Example& example, bool bytes) {
  std::vector<std::string> inputs;
  for (const auto& [name, values] : example.inputs) {
    std::vector<std::string> sizes = example.free_sizes;
    sizes.resize(std::min(sizes.size(), values.shape().sizes().size()));
    for (const int64_t size : values.shape().sizes().subspan(sizes.size()))
      sizes.push_back(std::to_string(size));
    const bool is_bytes = bytes && inputs.empty();
    inputs.push_back(fmt::format("{} {} [{}]", name,
                                 is_bytes ? accrue::name(DType::u8) : accrue::name(values.dtype()),
                                 fmt::join(sizes, ", ")));
  }
  return fmt::format("{} of {}", example.answer_name, fmt::join(inputs, " and "));
}

}  // namespace

Settings settings_of(OnnxOptions& asked, Request& options) {
  constexpr Decides no_result = Decides::no_result;
  Settings s;
  s.group("Options")
      .add(options.init, trained_weights("As train saves them"))
      .add(asked.out, {.name = "out",
                       .decides = no_result,
                       .help = "The file to write",
                       .takes = writes("FILE.onnx"),
                       .asked_by = AskedBy::most_runs})
      .add_flag(asked.bytes, true,
                {"bytes", no_result,
                 "It takes pixels as bytes and normalises them as the network was trained"})
      .add_again(settings_of(options).at("image-size"),
                 {.name = "image-size",
                  .decides = no_result,
                  .help = "The height and width of the images that it takes, if the network takes "
                          "any",
                  .takes = "N|HxW",
                  .unset = "those that it was trained on",
                  .saved = Saved::by_domain});
  return s.append(settings_of(options).only({"threads"}));
}

void export_onnx(const Request& options, const OnnxOptions& asked) {
  apply_threads(options);
  check_writable(asked.out);
  const Metadata said = read_safetensors_metadata(options.init);
  check(SampleSpec::is_said(said),
        "{} does not say of what size its network's samples and answers are: expected weights that "
        "accrue train --save wrote",
        options.init);
  const DomainModel about = options.domains.model(options.model_name);
  const bool sees_pixels = about.sample.input().encoding == Encoding::pixel;
  check(sees_pixels || !(asked.bytes || options.given.contains("image-size")),
        "{} holds weights of a network {}, which sees {}: expected neither --bytes nor "
        "--image-size",
        options.init, about.name, about.input());
  check(!asked.bytes || options.inputs_of_weights != Inputs::as_given,
        "--bytes: {} has learned from numbers as they were given, so nothing says how bytes become "
        "these: expected no --bytes",
        options.init);
  SampleSpec sample = options.sample;
  for (const auto& domain : options.domains) sample = domain->asked(sample, options.given);
  const LoadedNetwork loaded = load_network(options, sample, Device::cpu);
  const Example example = options.domains.of_model(about.name).example(*loaded.model, sample);
  const Normalization pixels = about.has_own_pixels ? Normalization{} : options.domains.pixels();
  const auto bytes = asked.bytes ? std::optional(pixels) : std::nullopt;
  write_text_atomically(asked.out, onnx_of(example, loaded.parameters, said, bytes));
  say("{}: {}\n", asked.out, described(example, asked.bytes));
}

}  // namespace accrue::app
