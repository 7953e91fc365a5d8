#include "images/mask_files.h"

#include <algorithm>
#include <cmath>

#include "data/atomic_file.h"
#include "data/new_directory.h"
#include "data/png.h"
#include "images/mask_colours.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

// A network's answer to an image: a class for each pixel, or planes of what is there and what is
// not.
struct NetworkAnswer {
  std::span<const float> logits;  // [K, pixels]
  size_t pixels;

  size_t planes() const { return logits.size() / pixels; }
  bool is_there(size_t plane, size_t pixel) const { return logits[plane * pixels + pixel] > 0; }
  size_t class_of(size_t pixel) const {
    size_t best = 0;
    for (size_t k = 1; k < planes(); ++k)
      if (logits[k * pixels + pixel] > logits[best * pixels + pixel]) best = k;
    return best;
  }
};

uint8_t value_of_class(const Field& masks, size_t k) {
  return masks.class_values.empty() ? static_cast<uint8_t>(k) : masks.class_values.at(k);
}

// The end of a file's name: a label, if it can be part of one.
std::string end_of_name(const Field& masks, size_t plane) {
  const auto fits = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c >= 128;
  };
  const std::string name = masks.class_name(static_cast<int64_t>(plane));
  return std::ranges::all_of(name, fits) ? "_" + name : fmt::format("_{}", plane);
}

void write_plane(const NetworkAnswer& answer, size_t plane, GrayImage& mask, const fs::path& path) {
  for (size_t i = 0; i < answer.pixels; ++i) mask.pixels[i] = answer.is_there(plane, i) ? 255 : 0;
  write_png(path, mask);
}

double of_channel(const std::vector<double>& values, size_t channel) {
  return values.at(values.size() == 1 ? 0 : channel);
}

// The image, of one or three planes as a network sees them, with the classes' colours over it.
PngImage overlay(const NetworkAnswer& answer, const Field& masks, std::span<const float> image,
                 const Normalization& seen, int64_t height, int64_t width) {
  PngImage drawn{.height = height, .width = width, .channels = 3, .depth = 8};
  drawn.bytes.resize(answer.pixels * 3);
  const size_t channels = image.size() / answer.pixels;
  for (size_t i = 0; i < answer.pixels; ++i) {
    uint8_t* const pixel = &drawn.bytes[3 * i];
    for (size_t c = 0; c < 3; ++c) {
      const double x = image[(channels == 3 ? c : 0) * answer.pixels + i];
      pixel[c] = static_cast<uint8_t>(std::clamp(
          std::lround(255 * (x * of_channel(seen.std, c) + of_channel(seen.mean, c))), 0L, 255L));
    }
    if (masks.encoding == Encoding::index) {
      const size_t k = answer.class_of(i);
      if (value_of_class(masks, k) != 0) mix_colour(pixel, k);
      continue;
    }
    for (size_t k = 0; k < answer.planes(); ++k)
      if (answer.is_there(k, i)) mix_colour(pixel, k);
  }
  return drawn;
}

}  // namespace

std::vector<fs::path> mask_paths(int64_t n, const Dataset& data, const Field& masks,
                                 const fs::path& directory, Overlays overlays) {
  fs::path path = directory / data.sample_name(n, 6);
  path.replace_extension();
  std::vector<std::string> ends{""};
  if (masks.encoding == Encoding::mask && masks.class_count() > 1) {
    ends.clear();
    for (int64_t k = 0; k < masks.class_count(); ++k)
      ends.push_back(end_of_name(masks, static_cast<size_t>(k)));
  }
  if (overlays == Overlays::on) ends.emplace_back("_overlay");
  std::vector<fs::path> paths;
  for (const std::string& end : ends) paths.emplace_back(path.string() + end + ".png");
  return paths;
}

void write_masks(const Tensor& logits, const Samples& part, int64_t begin, const Dataset& data,
                 const Field& masks, const fs::path& directory, Overlays overlays) {
  const Field& images = data.field("images");
  const Tensor host = as_f32(logits);
  const int64_t H = host.size(2), W = host.size(3);
  const Tensor seen = overlays == Overlays::on ? as_f32(part["images"]) : Tensor();
  const auto row = [](const Tensor& all, int64_t n) {
    const auto size = static_cast<size_t>(all.numel() / all.size(0));
    return std::span<const float>(all.span<float>()).subspan(static_cast<size_t>(n) * size, size);
  };
  GrayImage mask(H, W);
  for (int64_t n = 0; n < host.size(0); ++n) {
    const NetworkAnswer answer{row(host, n), static_cast<size_t>(H * W)};
    const std::vector<fs::path> paths = mask_paths(begin + n, data, masks, directory, overlays);
    make_directory(paths[0].parent_path());
    if (masks.encoding == Encoding::index) {
      for (size_t i = 0; i < answer.pixels; ++i)
        mask.pixels[i] = value_of_class(masks, answer.class_of(i));
      write_png(paths[0], mask);
    } else {
      for (size_t k = 0; k < answer.planes(); ++k) write_plane(answer, k, mask, paths.at(k));
    }
    if (overlays == Overlays::on)
      write_text_atomically(paths.back(), encode_png(overlay(answer, masks, row(seen, n),
                                                             images.normalization, H, W)));
  }
}

}  // namespace accrue
