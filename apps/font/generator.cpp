#include "apps/font/generator.h"

#include <algorithm>
#include <cmath>

#include "apps/cli/load_data.h"
#include "core/autograd.h"
#include "data/glyph_sheet.h"
#include "data/safetensors.h"
#include "train/training.h"

namespace accrue::app {

Settings drawing_settings(Options& options) {
  constexpr Decides no_result = Decides::no_result;
  const Settings all = settings_of(options);
  Settings s;
  s.group("Options")
      .add(options.init,
           {"weights", no_result, "A generator's, as font train saves them", "FILE.safetensors"})
      .add(options.micro_batch, {.name = "micro-batch",
                                 .decides = no_result,
                                 .help = "Glyphs in memory at a time",
                                 .range = positive});
  return s.append(
      all.only({"data", "image-size", "precision", "seed", "device", "threads", "memory-limit"}));
}

namespace {

// Throws Error unless the weights are a generator's.
void check_generator(const Options& options) {
  check(!options.init.empty(),
        "there is nothing to draw with: expected --weights FILE.safetensors");
  check(options.network.kind == ModelKind::zi2zi,
        "{} holds weights of a network {}: expected a generator's, as accrue font train --save "
        "writes them",
        options.init, name(options.network.kind));
}

}  // namespace

LoadedGenerator load_generator(const Options& options) {
  const Device device = apply_machine_options(options);
  check_generator(options);
  Datasets data = load_data(options);
  const ModelOptions network = options.model_for(data.train);
  return {load_network(options, network, device), std::move(data), device};
}

LoadedGenerator load_generator_alone(const Options& options) {
  const Device device = apply_machine_options(options);
  check_generator(options);
  const Metadata said = read_safetensors_metadata(options.init);
  check(said.contains("image") && said.contains("classes"),
        "{} does not say of which images and of how many styles its network is: expected weights "
        "that accrue font train --save wrote",
        options.init);
  return {load_network(options, options.network, device), {}, device};
}

std::vector<GrayImage> to_images(const Tensor& images) {
  const Tensor host = as_f32(images);
  const int64_t H = images.size(2), W = images.size(3);
  std::vector<GrayImage> result;
  const float* value = host.span<float>().data();
  for (int64_t n = 0; n < images.size(0); ++n) {
    GrayImage& image = result.emplace_back(H, W);
    for (uint8_t& pixel : image.pixels) {
      const double gray = 127.5 * (double(*value++) + 1);
      pixel = static_cast<uint8_t>(std::clamp(std::lround(gray), 0L, 255L));
    }
  }
  return result;
}

Samples pick(const Dataset& data, const std::vector<int32_t>& samples, DType dtype) {
  Samples picked = empty_samples(data, int64_t(samples.size()), dtype, Device::cpu);
  gather(picked, data, samples);
  return picked;
}

Tensor draw(const Zi2ziGenerator& network, const Samples& samples, Device device, int64_t most) {
  const NoGrad no_grad;
  const MemoryScope scope(Phase::evaluate, "drawings");
  const Pass pass = Pass::eval();
  const Tensor drawn =
      Tensor::empty(samples["sources"].shape(), DType::f32, Device::cpu, Category::data);
  const auto draw_in_parts = [&](int64_t size) {
    for (int64_t begin = 0; begin < samples.size(); begin += size) {
      const int64_t end = std::min(begin + size, samples.size());
      const Samples part = samples.slice(begin, end);
      const auto encoded = network.encode(part["sources"].to(device), pass);
      const Tensor y = network.draw(encoded, part["styles"].to(device), pass);
      drawn.slice(begin, end).copy_from(as_f32(y));
    }
    return true;
  };
  with_fewer_samples(std::min(most, samples.size()), draw_in_parts);
  return drawn;
}

GrayImage sheet_of(const Samples& samples, const Tensor& drawn) {
  const std::vector<std::vector<GrayImage>> rows{to_images(samples["sources"]), to_images(drawn),
                                                 to_images(samples["targets"])};
  return glyph_sheet(rows);
}

}  // namespace accrue::app
