#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "data/image_size.h"

namespace accrue {

// An image as planes, one after the other, row by row: of gray, of red, green and blue, or of a
// mask's values.
struct Image {
  int64_t channels = 0, height = 0, width = 0;
  std::vector<uint8_t> pixels{};  // [channels, height, width]

  detail::ImageSize size() const { return {height, width}; }
  bool operator==(const Image&) const = default;
};

// Read a PNG or JPEG file, which is recognised by its first bytes: as gray if the file holds gray
// or a palette of grays, otherwise as RGB. They round 16 bits to 8, show white paper under
// transparent pixels, and turn a JPEG file by its EXIF orientation. Gamma and colour profiles are
// left alone. read_image_header() reads no pixels, so it does not notice damage in them.
// Throw Error, naming the file and the reason, for a file that is neither PNG nor JPEG, for CMYK,
// and for a file that is damaged or cut off, which includes every warning of libpng or libjpeg
// about the data. They also throw for a file that claims more pixels than its bytes can hold, for
// more than most_bytes of pixels, before any memory is taken for them, and if the machine has no
// memory for them.
Image read_image(const std::filesystem::path& path,
                 size_t most_bytes = detail::usual_most_image_bytes);

namespace detail {

ImageHeader read_image_header(const std::filesystem::path& path,
                              size_t most_bytes = usual_most_image_bytes);

// Reads a PNG file as a mask: one channel with the values in the file, which are places in a
// palette or unchanged grays of any number of bits. A file of colours is taken if all its pixels
// are gray; alpha is ignored. Throws Error as read_image() does, for other colours, for 16 bits,
// and for JPEG, which does not keep values.
Image read_mask(const std::filesystem::path& path, size_t most_bytes = usual_most_image_bytes);

// Decodes PNG or JPEG, whichever the content is; errors name `file`.
Image decode_image(std::span<const std::byte> content, const std::string& file,
                   size_t most_bytes = usual_most_image_bytes);

// The orientation, 1 to 8, in an APP1 segment of EXIF data ("Exif\0\0" and TIFF); 1 if it has none
// or another number.
int exif_orientation(std::span<const std::byte> segment);
// Turns an image with such an orientation upright.
Image oriented(Image image, int orientation);

}  // namespace detail

// The image at another size. Where a side shrinks, an output pixel is the mean over its box in the
// image, height / H by width / W pixels; each pixel is weighted by the part of it that the box
// covers. Where a side grows, values are interpolated linearly between the centres of the two
// nearest pixels, and are constant outside the outermost centres. The result is the same on every
// machine.
Image resized(const Image& image, detail::ImageSize size);

namespace detail {

// The input pixel under the centre of output pixel o, on a side of `inputs` pixels that becomes
// `outputs`: floor((o + 1/2) inputs / outputs), in integers.
inline int64_t pixel_under(int64_t o, int64_t outputs, int64_t inputs) {
  return (2 * o + 1) * inputs / (2 * outputs);
}
// Resizes without mixing values: an output pixel takes the input pixel under its centre.
Image resized_mask(const Image& mask, ImageSize size);

}  // namespace detail

}  // namespace accrue
