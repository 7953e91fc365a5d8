#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace accrue::detail {

// Height and width in pixels.
struct ImageSize {
  int64_t height = 0, width = 0;

  bool operator==(const ImageSize&) const = default;
};
// "480x640": the height first, as in tensor shapes and in --image-size.
std::string height_by_width(ImageSize size);
// Reads "32" or "480x640"; returns nothing for an empty text. Throws Error, whose text begins with
// `what`.
std::optional<ImageSize> read_image_size(const std::string& text, const std::string& what);

// The size and channels of an image, which are known before its pixels are read.
struct ImageHeader {
  ImageSize size;
  int64_t channels = 0;
  bool is_turned = false;  // by its EXIF orientation

  size_t bytes() const { return static_cast<size_t>(channels * size.height * size.width); }
};

// The most bytes of pixels that an image may have, unless its reader sets another limit. A file of
// a few kilobytes may claim any size.
inline constexpr size_t usual_most_image_bytes = size_t{1} << 30;
// Throws Error, naming the file, for an image with more bytes.
void check_image_bytes(const ImageHeader& header, size_t most, const std::string& file);

}  // namespace accrue::detail
