#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace accrue {

// Height and width in pixels.
struct ImageSize {
  int64_t height = 0, width = 0;

  bool operator==(const ImageSize&) const = default;
};
// "640x480": the width first, as image files have it.
std::string width_by_height(ImageSize size);

// An image as planes, one after the other, row by row: of gray, of red, green and blue, or of a
// mask's values.
struct Image {
  int64_t channels = 0, height = 0, width = 0;
  std::vector<uint8_t> pixels{};  // [channels, height, width]

  ImageSize size() const { return {height, width}; }
  bool operator==(const Image&) const = default;
};

// Known of an image file before its pixels are read: size and channels as read_image() gives them.
struct ImageHeader {
  ImageSize size;
  int64_t channels = 0;
};

// Read a PNG or JPEG file, which is recognised by its first bytes, as gray where the file holds
// gray and as RGB otherwise (a palette of grays is gray). Of 16 bits the upper 8 are taken, what is
// transparent shows white paper, a JPEG file stands as its EXIF orientation says. Gamma and colour
// profiles are left alone. Throw Error, naming the file and the reason, for one that is neither,
// that is damaged or cut off (whatever libpng or libjpeg says of the data), for CMYK, and for one
// that claims more pixels than its bytes can hold. read_image_header() reads no pixels, so damage
// in them is not noticed.
Image read_image(const std::filesystem::path& path);
ImageHeader read_image_header(const std::filesystem::path& path);

// Reads a PNG file as a mask, one channel of the values in the file: a palette's places, a gray of
// however many bits as it is. A file of colours is taken if all its pixels are gray; alpha is left
// out. Throws Error as read_image() does, for other colours, for 16 bits, and for JPEG, which does
// not keep values.
Image read_mask(const std::filesystem::path& path);

// The two formats by their content; `file` is the name for errors.
Image decode_image(std::span<const std::byte> content, const std::string& file);

// The orientation, 1 to 8, that an APP1 segment of EXIF data ("Exif\0\0" and TIFF) says; 1 if it
// says none, or nonsense.
int exif_orientation(std::span<const std::byte> segment);
// The image that such a photograph is meant to be.
Image oriented(Image image, int orientation);

// The image at another size: of each output pixel's box, height / H by width / W pixels of the
// image, the mean, each pixel by how much of it the box covers, where a side shrinks; where it
// grows, the straight line between the two nearest pixels' centres, the outermost continued. The
// same on every machine.
Image resized(const Image& image, ImageSize size);
// Resizes without mixing values: takes the pixel into which the output pixel's centre falls.
Image resized_mask(const Image& mask, ImageSize size);

}  // namespace accrue
