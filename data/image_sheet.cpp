#include "data/image_sheet.h"

#include <algorithm>

#include "core/error.h"
#include "data/mask_colours.h"

namespace accrue {
namespace {

constexpr int64_t thumb = 96, gap = 4, thumbs_in_line = 8, most_class_lines = 20;
constexpr uint8_t ground = 208;

// The largest size of these proportions within a square.
ImageSize within_thumb(ImageSize size) {
  const int64_t longest = std::max(size.height, size.width);
  return {std::max<int64_t>(1, size.height * thumb / longest),
          std::max<int64_t>(1, size.width * thumb / longest)};
}

void paste(PngImage& onto, int64_t top, int64_t left, const SampleImages& sample,
           std::span<const int> mask_values) {
  const ImageSize size = within_thumb(sample.image.size());
  const Image image = resized(sample.image, size);
  const Image mask = sample.mask.channels > 0 ? resized_mask(sample.mask, size) : Image{};
  const auto plane = static_cast<size_t>(size.height * size.width);
  top += (thumb - size.height) / 2;
  left += (thumb - size.width) / 2;
  for (size_t i = 0; i < plane; ++i) {
    const int64_t y = top + static_cast<int64_t>(i) / size.width,
                  x = left + static_cast<int64_t>(i) % size.width;
    uint8_t* const pixel = &onto.bytes[static_cast<size_t>((y * onto.width + x) * 3)];
    for (size_t c = 0; c < 3; ++c)
      pixel[c] = image.pixels[(image.channels == 1 ? 0 : c * plane) + i];
    for (size_t k = 0; k < static_cast<size_t>(mask.channels); ++k) {
      const uint8_t value = mask.pixels[k * plane + i];
      if (value == 0) continue;
      const auto place = std::ranges::find(mask_values, int{value}) - mask_values.begin();
      mix_colour(pixel, mask.channels > 1 ? k : static_cast<size_t>(place));
    }
  }
}

// The samples of each line.
std::vector<std::vector<size_t>> lines_of(const ImageFolder& folder, const ImageSurvey& found) {
  std::vector<std::vector<size_t>> lines;
  std::vector<size_t> good;
  for (size_t i = 0; i < folder.samples.size(); ++i)
    if (found.is_good[i]) good.push_back(i);
  check(!good.empty(), "'{}': there is no good image for a sheet", folder.directory.string());
  if (folder.answer == ImageFolder::Answer::classes) {
    lines.resize(std::min<size_t>(folder.classes.size(), most_class_lines));
    for (const size_t i : good) {
      const auto label = static_cast<size_t>(folder.samples[i].label);
      if (label < lines.size() && lines[label].size() < thumbs_in_line) lines[label].push_back(i);
    }
    return lines;
  }
  constexpr size_t most = thumbs_in_line * thumbs_in_line;
  const size_t count = std::min(good.size(), most);
  for (size_t n = 0; n < count; ++n) {
    if (n % thumbs_in_line == 0) lines.emplace_back();
    lines.back().push_back(good[n * good.size() / count]);
  }
  return lines;
}

void augment(SampleImages& sample, const Augmenting& by) {
  const auto change = [&](Image& image, Encoding encoding) {
    if (image.channels > 0)
      augment_row(std::as_writable_bytes(std::span(image.pixels)), encoding,
                  {1, image.channels, image.height, image.width}, by);
  };
  change(sample.image, Encoding::pixel);
  change(sample.mask, Encoding::mask);
}

}  // namespace

PngImage image_sheet(const ImageFolder& folder, const ImageSurvey& found,
                     const Augmentation& augmentation) {
  const std::vector<std::vector<size_t>> lines = lines_of(folder, found);
  constexpr int64_t step = thumb + gap;
  PngImage sheet{.height = static_cast<int64_t>(lines.size()) * step + gap,
                 .width = thumbs_in_line * step + gap,
                 .channels = 3,
                 .depth = 8};
  sheet.bytes.assign(static_cast<size_t>(sheet.height * sheet.width * 3), ground);
  for (size_t l = 0; l < lines.size(); ++l)
    for (size_t n = 0; n < lines[l].size(); ++n) {
      const size_t i = lines[l][n];
      SampleImages sample = read_sample(folder, folder.samples[i]);
      if (augmentation.is_any())
        augment(sample, draw_augmenting(augmentation, 0, 0, static_cast<int64_t>(i)));
      paste(sheet, gap + static_cast<int64_t>(l) * step, gap + static_cast<int64_t>(n) * step,
            sample, found.mask_values);
    }
  return sheet;
}

}  // namespace accrue
