#include "fonts/glyph_drawings.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/autograd.h"
#include "core/inside.h"
#include "data/dataset.h"
#include "kernels/arithmetic.h"
#include "train/training.h"

namespace accrue {
namespace {

constexpr uint8_t gap_gray = 208;
constexpr int64_t gap_pixels = 1;
constexpr int64_t line_gap_pixels = 4;  // between the lines that the rows are broken into

void paste(GrayImage& onto, const GrayImage& image, int64_t top, int64_t left) {
  for (int64_t y = 0; y < image.height; ++y)
    std::copy_n(image.pixels.begin() + y * image.width, image.width,
                onto.pixels.begin() + (top + y) * onto.width + left);
}

// The pass that draws samples [begin, end) of `count`.
Pass drawing_pass(const std::optional<Variation>& variation, int64_t count, int64_t begin,
                  int64_t end, Device device) {
  if (!variation) return Pass::eval();
  const std::vector<int32_t>& glyphs = variation->glyphs;
  check(int64_t(glyphs.size()) == count,
        "a variation with numbers for {} of {} glyphs: expected one for each", glyphs.size(),
        count);
  const std::vector<int32_t> part(glyphs.begin() + begin, glyphs.begin() + end);
  return {.mode = Pass::Mode::vary,
          .seed = variation->seed,
          .samples = Tensor::from(part, {end - begin}, device)};
}

}  // namespace

Tensor draw_glyphs(const Zi2ziGenerator& network, const Samples& samples, Device device,
                   int64_t most, const std::optional<Variation>& variation) {
  const NoGrad no_grad;
  const MemoryScope scope(Phase::evaluate, "drawings");
  const Tensor drawn =
      Tensor::empty(samples["sources"].shape(), DType::f32, Device::cpu, Category::data);
  const auto draw_in_parts = [&](int64_t size) {
    for (int64_t begin = 0; begin < samples.size(); begin += size) {
      const int64_t end = std::min(begin + size, samples.size());
      const Samples part = samples.slice(begin, end);
      const Pass pass = drawing_pass(variation, samples.size(), begin, end, device);
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

std::vector<std::vector<GrayImage>> draw_between(const Zi2ziGenerator& network,
                                                 const Samples& samples, Device device,
                                                 int32_t from, int32_t to, int64_t steps,
                                                 const std::optional<Variation>& variation) {
  check(steps >= 2, "[draw_between] {} steps: expected 2 or more, as both styles are drawn", steps);
  const NoGrad no_grad;
  const Pass pass = drawing_pass(variation, samples.size(), 0, samples.size(), device);
  const auto embedded = [&](int32_t style) {
    const std::vector<int32_t> indices(static_cast<size_t>(samples.size()), style);
    return network.style()(Tensor::from(indices, {samples.size()}, device), pass);
  };
  const Tensor a = embedded(from), b = embedded(to);
  const auto encoded = network.encode(samples["sources"].to(device), pass);
  std::vector<std::vector<GrayImage>> rows;
  for (int64_t i = 0; i < steps; ++i) {
    const double t = double(i) / double(steps - 1);
    const Tensor style = add(scale(a, 1 - t), scale(b, t));
    rows.push_back(to_images(network.draw_with(encoded, style, pass)));
  }
  return rows;
}

Samples glyph_samples(const std::vector<GrayImage>& images, int32_t style, DType dtype) {
  check(!images.empty(), "[glyph_samples] there is no image: expected one or more");
  const auto N = static_cast<int64_t>(images.size()), S = images.front().height;
  const Tensor sources = Tensor::empty({N, 1, S, S}, DType::u8, Device::cpu, Category::data);
  uint8_t* to = sources.span<uint8_t>().data();
  for (const GrayImage& image : images) to = std::ranges::copy(image.pixels, to).out;
  const std::vector<int32_t> styles(images.size(), style);
  Dataset data{"glyphs", "a font"};
  data.fields.push_back({"sources", sources, Encoding::pixel});
  data.fields.push_back(
      {"styles", Tensor::from(styles, {N}, Device::cpu), Encoding::index, int64_t(style) + 1});
  std::vector<int32_t> all(images.size());
  std::iota(all.begin(), all.end(), 0);
  return gather(data, all, dtype);
}

GrayImage glyph_sheet(std::span<const std::vector<GrayImage>> rows, int64_t columns) {
  check(!rows.empty() && !rows[0].empty(), "a sheet of no images: expected one or more");
  check(columns > 0, "a sheet of {} columns: expected one or more", columns);
  const auto count = static_cast<int64_t>(rows[0].size()), R = static_cast<int64_t>(rows.size());
  const int64_t height = rows[0][0].height, width = rows[0][0].width;
  for (const std::vector<GrayImage>& row : rows) {
    check(static_cast<int64_t>(row.size()) == count,
          "the rows of a sheet have {} and {} images, expected the same number in each", count,
          row.size());
    for (const GrayImage& image : row)
      check(image.height == height && image.width == width,
            "the images of a sheet are {} x {} and {} x {}, expected one size", width, height,
            image.width, image.height);
  }
  const int64_t across = std::min(columns, count), lines = (count + columns - 1) / columns;
  const int64_t step_x = width + gap_pixels, step_y = height + gap_pixels;
  const int64_t line_step = R * step_y - gap_pixels + line_gap_pixels;
  GrayImage result(lines * line_step - line_gap_pixels, across * step_x - gap_pixels, gap_gray);
  for (int64_t i = 0; i < lines * across; ++i)
    for (int64_t r = 0; r < R; ++r) {
      const int64_t top = i / across * line_step + r * step_y, left = i % across * step_x;
      const bool there = i < count;  // the last line may be short
      paste(result,
            there ? rows[static_cast<size_t>(r)][static_cast<size_t>(i)] : GrayImage(height, width),
            top, left);
    }
  return result;
}

GrayImage sheet_of(const Samples& samples, const Tensor& drawn) {
  const std::vector<std::vector<GrayImage>> rows{to_images(samples["sources"]), to_images(drawn),
                                                 to_images(samples["targets"])};
  return glyph_sheet(rows);
}

}  // namespace accrue
