#include "images/image_file.h"

#include <algorithm>
#include <new>
#include <string_view>

#include "core/error.h"
#include "core/usage.h"
#include "data/byte_stream.h"
#include "data/png.h"
#include "images/jpeg.h"

namespace accrue {
namespace {

bool is_gray(const PngImage& png) {
  return png.palette.empty() ? png.channels <= 2
                             : std::ranges::all_of(png.palette, [](const auto& colour) {
                                 return colour[0] == colour[1] && colour[1] == colour[2];
                               });
}

// Planes of the colours that show over white paper.
Image to_planes(const PngImage& png) {
  Image image{.channels = is_gray(png) ? 1 : 3, .height = png.height, .width = png.width};
  const auto plane = static_cast<size_t>(png.height * png.width),
             channels = static_cast<size_t>(png.channels),
             colours = static_cast<size_t>(image.channels);
  image.pixels.resize(colours * plane);
  const bool has_alpha = channels == 2 || channels == 4;
  for (size_t i = 0; i < plane; ++i) {
    const uint8_t* const pixel =
        png.palette.empty() ? &png.bytes[i * channels] : png.palette[png.bytes[i]].data();
    const int alpha = !png.palette.empty() ? pixel[3] : has_alpha ? pixel[channels - 1] : 255;
    for (size_t c = 0; c < colours; ++c) image.pixels[c * plane + i] = over_white(pixel[c], alpha);
  }
  return image;
}

// One channel of the values in a PNG file.
Image to_mask(std::span<const std::byte> content, const std::string& file) {
  PngImage png = decode_png(content, file, PngPart::all, PngValues::as_they_are);
  check(png.depth <= 8, "cannot read '{}' as a mask: it has {} bits a value, expected 8 at most",
        file, png.depth);
  Image mask{.channels = 1, .height = png.height, .width = png.width};
  if (png.channels == 1) {
    mask.pixels = std::move(png.bytes);
    return mask;
  }
  const auto channels = static_cast<size_t>(png.channels), colours = channels < 3 ? 1 : size_t{3};
  mask.pixels.resize(png.bytes.size() / channels);
  for (size_t i = 0; i < mask.pixels.size(); ++i) {
    const uint8_t* const pixel = &png.bytes[i * channels];
    for (size_t c = 1; c < colours; ++c)
      check(pixel[c] == pixel[0],
            "cannot read '{}' as a mask: it has colours, expected a gray or a palette's place for "
            "each class",
            file);
    mask.pixels[i] = pixel[0];
  }
  return mask;
}

ImageHeader header_of(std::span<const std::byte> content, const std::string& file) {
  if (is_jpeg(content)) return jpeg_header(content, file);
  check(is_png(content), "cannot read '{}': it is neither PNG nor JPEG", file);
  const PngImage png = decode_png(content, file, PngPart::header);
  return {{png.height, png.width}, is_gray(png) ? 1 : 3};
}

// Returns decode(), the image in `content`.
template <class Decode>
Image with_memory(std::span<const std::byte> content, const std::string& file, Decode&& decode) {
  try {
    return decode();
  } catch (const std::bad_alloc&) {
    const ImageHeader header = header_of(content, file);
    fail("cannot read '{}': it is {}, which needs {} decoded, and the machine has no more memory",
         file, height_by_width(header.size), format_bytes(header.bytes()));
  }
}

// The place that the pixel at (y, x) of a turned image had before the image was turned.
ImageSize source_of(int64_t y, int64_t x, ImageSize from, int orientation) {
  const int64_t bottom = from.height - 1, right = from.width - 1;
  switch (orientation) {
    case 2: return {y, right - x};
    case 3: return {bottom - y, right - x};
    case 4: return {bottom - y, x};
    case 5: return {x, y};
    case 6: return {bottom - x, y};
    case 7: return {bottom - x, right - y};
    case 8: return {x, right - y};
    default: return {y, x};
  }
}

// The input pixels of an output pixel along one side, and their weights.
struct Taps {
  int64_t begin = 0;
  std::vector<float> weights{};
};

std::vector<Taps> taps_of(int64_t inputs, int64_t outputs) {
  std::vector<Taps> taps(static_cast<size_t>(outputs));
  const double scale = double(inputs) / double(outputs);
  for (int64_t o = 0; o < outputs; ++o) {
    Taps& to = taps[static_cast<size_t>(o)];
    if (outputs < inputs) {
      const double begin = double(o) * scale, end = double(o + 1) * scale;
      to.begin = static_cast<int64_t>(begin);
      const int64_t stop = std::min(inputs, static_cast<int64_t>(end) + 1);
      for (int64_t i = to.begin; i < stop; ++i) {
        const double covered = std::min(end, double(i + 1)) - std::max(begin, double(i));
        if (covered > 0) to.weights.push_back(static_cast<float>(covered / scale));
      }
    } else {
      const double centre = std::clamp((double(o) + 0.5) * scale - 0.5, 0.0, double(inputs - 1));
      to.begin = static_cast<int64_t>(centre);
      const double beyond = centre - double(to.begin);
      to.weights.push_back(static_cast<float>(1 - beyond));
      if (beyond > 0) to.weights.push_back(static_cast<float>(beyond));
    }
  }
  return taps;
}

}  // namespace

Image detail::decode_image(std::span<const std::byte> content, const std::string& file,
                           size_t most_bytes) {
  check_image_bytes(header_of(content, file), most_bytes, file);
  return with_memory(content, file, [&] {
    return is_jpeg(content) ? decode_jpeg(content, file) : to_planes(decode_png(content, file));
  });
}

Image read_image(const std::filesystem::path& path, size_t most_bytes) {
  return decode_image(file_content(path), path.string(), most_bytes);
}

ImageHeader detail::read_image_header(const std::filesystem::path& path, size_t most_bytes) {
  const ImageHeader header = header_of(file_content(path), path.string());
  check_image_bytes(header, most_bytes, path.string());
  return header;
}

Image detail::read_mask(const std::filesystem::path& path, size_t most_bytes) {
  const std::vector<std::byte> content = file_content(path);
  const std::string file = path.string();
  check(!is_jpeg(content),
        "cannot read '{}' as a mask: it is JPEG, which does not keep values; expected PNG", file);
  check_image_bytes(header_of(content, file), most_bytes, file);
  return with_memory(content, file, [&] { return to_mask(content, file); });
}

int detail::exif_orientation(std::span<const std::byte> segment) {
  constexpr std::string_view magic{"Exif\0\0", 6};
  if (segment.size() < magic.size() + 8 ||
      std::string_view(reinterpret_cast<const char*>(segment.data()), magic.size()) != magic)
    return 1;
  const auto tiff = segment.subspan(magic.size());
  const bool little = tiff[0] == std::byte{'I'};
  // 0 beyond the end.
  const auto number = [&](size_t at, size_t bytes) {
    size_t value = 0;
    for (size_t b = 0; b < bytes; ++b) {
      const size_t i = at + (little ? bytes - 1 - b : b);
      value = value << 8 | (i < tiff.size() ? std::to_integer<size_t>(tiff[i]) : 0);
    }
    return value;
  };
  constexpr size_t orientation_tag = 0x112, entry_bytes = 12;
  const size_t directory = number(4, 4), entries = number(directory, 2);
  for (size_t e = 0; e < entries; ++e) {
    const size_t entry = directory + 2 + e * entry_bytes;
    if (entry + entry_bytes > tiff.size()) break;
    if (number(entry, 2) != orientation_tag) continue;
    const size_t said = number(entry + 8, 2);
    return 1 <= said && said <= 8 ? static_cast<int>(said) : 1;
  }
  return 1;
}

Image detail::oriented(Image image, int orientation) {
  if (orientation == 1) return image;
  Image turned = image;
  if (orientation > 4) std::swap(turned.height, turned.width);
  size_t to = 0;
  for (int64_t c = 0; c < image.channels; ++c)
    for (int64_t y = 0; y < turned.height; ++y)
      for (int64_t x = 0; x < turned.width; ++x) {
        const ImageSize from = source_of(y, x, image.size(), orientation);
        turned.pixels[to++] = image.pixels[static_cast<size_t>(
            (c * image.height + from.height) * image.width + from.width)];
      }
  return turned;
}

Image resized(const Image& image, ImageSize size) {
  if (image.size() == size) return image;
  const std::vector<Taps> rows = taps_of(image.height, size.height),
                          columns = taps_of(image.width, size.width);
  Image result{.channels = image.channels, .height = size.height, .width = size.width};
  result.pixels.reserve(static_cast<size_t>(image.channels * size.height * size.width));
  const auto width = static_cast<size_t>(image.width);
  std::vector<float> mixed(width);  // the weighted rows of an output row
  for (int64_t c = 0; c < image.channels; ++c)
    for (const Taps& down : rows) {
      std::ranges::fill(mixed, 0.0f);
      const uint8_t* row =
          &image.pixels[static_cast<size_t>((c * image.height + down.begin) * image.width)];
      for (const float weight : down.weights) {
        for (size_t x = 0; x < width; ++x) mixed[x] += weight * float(row[x]);
        row += width;
      }
      for (const Taps& across : columns) {
        float sum = 0;
        const float* from = &mixed[static_cast<size_t>(across.begin)];
        for (const float weight : across.weights) sum += weight * *from++;
        result.pixels.push_back(static_cast<uint8_t>(std::clamp(sum, 0.0f, 255.0f) + 0.5f));
      }
    }
  return result;
}

Image detail::resized_mask(const Image& mask, ImageSize size) {
  if (mask.size() == size) return mask;
  Image result{.channels = mask.channels, .height = size.height, .width = size.width};
  result.pixels.reserve(static_cast<size_t>(mask.channels * size.height * size.width));
  for (int64_t c = 0; c < mask.channels; ++c)
    for (int64_t y = 0; y < size.height; ++y) {
      const int64_t from = c * mask.height + pixel_under(y, size.height, mask.height);
      for (int64_t x = 0; x < size.width; ++x)
        result.pixels.push_back(mask.pixels[static_cast<size_t>(
            from * mask.width + pixel_under(x, size.width, mask.width))]);
    }
  return result;
}

}  // namespace accrue
