#include "images/mask_files.h"

#include <algorithm>
#include <cmath>

#include "data/atomic_file.h"
#include "data/new_directory.h"
#include "data/png.h"
#include "images/image_file.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

// A network's answer to an image: a class for each pixel, or planes of foreground and background.
// The image may have another size than the network saw.
class NetworkAnswer {
 public:
  NetworkAnswer(std::span<const float> logits, ImageSize seen, ImageSize size)
      : logits_(logits),
        seen_pixels_(static_cast<size_t>(seen.height * seen.width)),
        seen_at_(static_cast<size_t>(size.height * size.width)) {
    auto at = seen_at_.begin();
    for (int64_t y = 0; y < size.height; ++y) {
      const int64_t row = pixel_under(y, size.height, seen.height) * seen.width;
      for (int64_t x = 0; x < size.width; ++x)
        *at++ = static_cast<size_t>(row + pixel_under(x, size.width, seen.width));
    }
  }

  size_t pixels() const { return seen_at_.size(); }
  size_t planes() const { return logits_.size() / seen_pixels_; }
  bool is_there(size_t plane, size_t pixel) const { return logit(plane, pixel) > 0; }
  size_t class_of(size_t pixel) const {
    size_t best = 0;
    for (size_t k = 1; k < planes(); ++k)
      if (logit(k, pixel) > logit(best, pixel)) best = k;
    return best;
  }

 private:
  float logit(size_t plane, size_t pixel) const {
    return logits_[plane * seen_pixels_ + seen_at_[pixel]];
  }

  std::span<const float> logits_;  // [planes, seen pixels]
  size_t seen_pixels_;
  std::vector<size_t> seen_at_;  // the seen pixel of each pixel of the image
};

uint8_t value_of_class(const Field& masks, size_t k) {
  return masks.class_values.empty() ? static_cast<uint8_t>(k) : masks.class_values.at(k);
}

// The end of a file's name: the plane's label, or its number if a file's name cannot have the
// label.
std::string end_of_name(const Field& masks, size_t plane) {
  const auto fits = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c >= 128;
  };
  const std::string name = masks.class_name(static_cast<int64_t>(plane));
  return std::ranges::all_of(name, fits) ? "_" + name : fmt::format("_{}", plane);
}

void write_plane(const NetworkAnswer& answer, size_t plane, GrayImage& mask, const fs::path& path) {
  for (size_t i = 0; i < answer.pixels(); ++i) mask.pixels[i] = answer.is_there(plane, i) ? 255 : 0;
  write_png(path, mask);
}

double of_channel(const std::vector<double>& values, size_t channel) {
  return values.at(values.size() == 1 ? 0 : channel);
}

// The image that a network saw as these planes.
Image image_of(std::span<const float> planes, const Normalization& seen, ImageSize size) {
  const auto pixels = static_cast<size_t>(size.height * size.width);
  Image image{.channels = static_cast<int64_t>(planes.size() / pixels),
              .height = size.height,
              .width = size.width};
  for (size_t i = 0; i < planes.size(); ++i) {
    const double std = of_channel(seen.std, i / pixels), mean = of_channel(seen.mean, i / pixels);
    image.pixels.push_back(static_cast<uint8_t>(
        std::clamp(std::lround(255 * (double{planes[i]} * std + mean)), 0L, 255L)));
  }
  return image;
}

// The image with the classes' colours over it.
PngImage overlay(const NetworkAnswer& answer, const Field& masks, const Image& image) {
  PngImage drawn{.height = image.height, .width = image.width, .channels = 3, .depth = 8};
  drawn.bytes.resize(answer.pixels() * 3);
  for (size_t i = 0; i < answer.pixels(); ++i) {
    uint8_t* const pixel = &drawn.bytes[3 * i];
    for (size_t c = 0; c < 3; ++c)
      pixel[c] = image.pixels[(image.channels == 3 ? c : 0) * answer.pixels() + i];
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
                 const Field& masks, const fs::path& directory, Overlays overlays,
                 const fs::path& stretched) {
  const Tensor host = as_f32(logits);
  const ImageSize seen{host.size(2), host.size(3)};
  const bool draws = overlays == Overlays::on;
  const Tensor images = draws && stretched.empty() ? as_f32(part["images"]) : Tensor();
  const auto row = [](const Tensor& all, int64_t n) {
    const auto size = static_cast<size_t>(all.numel() / all.size(0));
    return std::span<const float>(all.span<float>()).subspan(static_cast<size_t>(n) * size, size);
  };
  for (int64_t n = 0; n < host.size(0); ++n) {
    const fs::path file = stretched / data.sample_name(begin + n, 6);
    const ImageSize size = stretched.empty() ? seen : read_image_header(file).size;
    const NetworkAnswer answer(row(host, n), seen, size);
    const std::vector<fs::path> paths = mask_paths(begin + n, data, masks, directory, overlays);
    make_directory(paths[0].parent_path());
    GrayImage mask(size.height, size.width);
    if (masks.encoding == Encoding::index) {
      for (size_t i = 0; i < answer.pixels(); ++i)
        mask.pixels[i] = value_of_class(masks, answer.class_of(i));
      write_png(paths[0], mask);
    } else {
      for (size_t k = 0; k < answer.planes(); ++k) write_plane(answer, k, mask, paths.at(k));
    }
    if (!draws) continue;
    const Image image = stretched.empty()
                            ? image_of(row(images, n), data.field("images").normalization, seen)
                            : read_image(file);
    write_text_atomically(paths.back(), encode_png(overlay(answer, masks, image)));
  }
}

}  // namespace accrue
