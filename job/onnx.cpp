#include "job/onnx.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "data/atomic_file.h"
#include "job/load_network.h"
#include "job/machine.h"
#include "onnx/writer/onnx.h"

namespace accrue {
namespace {

std::string described(const Example& example, OnnxInput input) {
  std::vector<std::string> inputs;
  for (const auto& [name, values] : example.inputs) {
    std::vector<std::string> sizes = example.free_sizes;
    sizes.resize(std::min(sizes.size(), values.shape().sizes().size()));
    for (const int64_t size : values.shape().sizes().subspan(sizes.size()))
      sizes.push_back(std::to_string(size));
    const bool is_bytes = input == OnnxInput::bytes && inputs.empty();
    inputs.push_back(fmt::format("{} {} [{}]", name,
                                 is_bytes ? accrue::name(DType::u8) : accrue::name(values.dtype()),
                                 fmt::join(sizes, ", ")));
  }
  return fmt::format("{} of {}", fmt::join(example.answer_names, " and "),
                     fmt::join(inputs, " and "));
}

}  // namespace

void detail::export_onnx(const Request& request, const std::string& path, OnnxInput input,
                         const Notices& notices) {
  const bool takes_bytes = input == OnnxInput::bytes;
  apply_threads(request);
  check_writable(path);
  const Metadata said = read_safetensors_metadata(request.init);
  check(SampleSpec::is_said(said),
        "{} does not say the sizes of its network's samples and answers: expected weights that "
        "accrue train --save wrote",
        request.init);
  const DomainModel about = request.domains.model(request.model_name);
  const bool sees_pixels = about.sample.input().encoding == Encoding::pixel;
  check(sees_pixels || !(takes_bytes || request.given.contains("image-size")),
        "{} holds weights of a network {}, which sees {}: expected neither --bytes nor "
        "--image-size",
        request.init, about.name, about.input());
  check(
      !takes_bytes || !said.contains(inputs_key),
      "--bytes: {} has learned from numbers as they were given, so it is unknown how bytes become "
      "numbers: expected no --bytes",
      request.init);
  SampleSpec sample = request.sample;
  for (const auto& domain : request.domains) sample = domain->asked(sample, request.given);
  const LoadedNetwork loaded = load_network(request, sample, Device::cpu);
  const Domain& domain = request.domains.of_model(about.name);
  if (is_model_file(about.name)) {
    check(!takes_bytes && !request.given.contains("image-size"),
          "{} holds weights of '{}', which is written with these weights and otherwise as it is: "
          "expected neither --bytes nor --image-size",
          request.init, about.name);
    write_text_atomically(path, domain.own_file(sample, loaded.parameters).value());
    notices.say("{}: {} with the weights of {}", path, about.name, request.init);
    return;
  }
  const auto example = [&](int64_t N) { return domain.example(*loaded.model, sample, N); };
  const Normalization pixels = about.has_own_pixels ? Normalization{} : request.domains.pixels();
  const auto bytes = takes_bytes ? std::optional(pixels) : std::nullopt;
  write_text_atomically(path, onnx_of(example, loaded.parameters, said, bytes));
  notices.say("{}: {}", path, described(example(1), input));
}

}  // namespace accrue
