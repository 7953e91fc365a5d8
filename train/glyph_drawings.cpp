#include "train/glyph_drawings.h"

#include <algorithm>
#include <cmath>

#include "core/autograd.h"
#include "data/glyph_sheet.h"
#include "train/training.h"

namespace accrue {

Tensor draw_glyphs(const Zi2ziGenerator& network, const Samples& samples, Device device,
                   int64_t most) {
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

GrayImage sheet_of(const Samples& samples, const Tensor& drawn) {
  const std::vector<std::vector<GrayImage>> rows{to_images(samples["sources"]), to_images(drawn),
                                                 to_images(samples["targets"])};
  return glyph_sheet(rows);
}

}  // namespace accrue
