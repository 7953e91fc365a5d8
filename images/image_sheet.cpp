#include "images/image_sheet.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/error.h"
#include "images/mask_files.h"

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

// A sheet of the samples with these numbers; read(i) returns sample i.
template <class Read>
PngImage draw_sheet(const std::vector<std::vector<size_t>>& lines, const Augmentation& augmentation,
                    std::span<const int> mask_values, Read&& read) {
  constexpr int64_t step = thumb + gap;
  PngImage sheet{.height = static_cast<int64_t>(lines.size()) * step + gap,
                 .width = thumbs_in_line * step + gap,
                 .channels = 3,
                 .depth = 8};
  sheet.bytes.assign(static_cast<size_t>(sheet.height * sheet.width * 3), ground);
  for (size_t l = 0; l < lines.size(); ++l)
    for (size_t n = 0; n < lines[l].size(); ++n) {
      const size_t i = lines[l][n];
      SampleImages sample = read(i);
      if (augmentation.is_any())
        augment(sample, draw_augmenting(augmentation, 0, 0, static_cast<int64_t>(i)));
      paste(sheet, gap + static_cast<int64_t>(l) * step, gap + static_cast<int64_t>(n) * step,
            sample, mask_values);
    }
  return sheet;
}

SampleImages sample_of(const Dataset& data, int64_t n) {
  const Tensor& images = data["images"];
  const auto pixels = images.slice(n, n + 1).span<uint8_t>();
  return {.image = {.channels = images.size(1),
                    .height = images.size(2),
                    .width = images.size(3),
                    .pixels = {pixels.begin(), pixels.end()}},
          .mask = {}};
}

}  // namespace

PngImage image_sheet(const ImageFolder& folder, const ImageSurvey& found,
                     const Augmentation& augmentation) {
  return draw_sheet(lines_of(folder, found), augmentation, found.mask_values,
                    [&](size_t i) { return read_sample(folder, folder.samples[i]); });
}

PngImage image_sheet(const PackedImages& found, const Augmentation& augmentation) {
  check(!found.parts.empty(), "there is no good image for a sheet");
  std::vector<std::vector<size_t>> lines(
      std::min<size_t>(static_cast<size_t>(found.classes()), most_class_lines));
  std::vector<std::pair<const Dataset*, int64_t>> samples;
  for (const auto& [split, data] : found.parts) {
    const auto labels = data["labels"].span<int32_t>();
    for (int64_t n = 0; n < data.size(); ++n) {
      const auto label = static_cast<size_t>(labels[static_cast<size_t>(n)]);
      if (label < lines.size() && lines[label].size() < thumbs_in_line)
        lines[label].push_back(samples.size());
      samples.emplace_back(&data, n);
    }
  }
  return draw_sheet(lines, augmentation, {},
                    [&](size_t i) { return sample_of(*samples[i].first, samples[i].second); });
}

}  // namespace accrue
