#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace accrue::detail {

// An image with one byte per pixel, row by row: 0 is black, 255 is white.
struct GrayImage {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> pixels{};  // [height, width]

  GrayImage() = default;
  GrayImage(int64_t height, int64_t width, uint8_t gray = 255);

  uint8_t& at(int64_t y, int64_t x) { return pixels[static_cast<size_t>(y * width + x)]; }
  uint8_t at(int64_t y, int64_t x) const { return pixels[static_cast<size_t>(y * width + x)]; }
  bool operator==(const GrayImage&) const = default;
};

// Reads a PNG file of any kind as gray. 16 bits are rounded to 8, colors become 0.299 R + 0.587 G +
// 0.114 B, and transparent pixels lie on white paper. Gamma and color profiles are ignored. Throws
// Error, naming the file and libpng's reason, for a damaged or truncated file or one that is not
// PNG. Allocates no more than such a file can hold.
GrayImage read_png(const std::filesystem::path& path);

// The gray, or one color channel, of ink with this value and alpha on white paper:
//   (v a + 255 (255 - a)) / 255, rounded.
constexpr uint8_t over_white(int value, int alpha) {
  return static_cast<uint8_t>((value * alpha + 255 * (255 - alpha) + 127) / 255);
}

// The pixels of a PNG file before the conversion to gray or color.
struct PngImage {
  int64_t height = 0, width = 0;
  int64_t channels = 0;  // 1: gray, or palette indices; 2: gray and alpha; 3: RGB; 4: RGBA
  int depth = 0;         // bits per channel in the file
  std::vector<std::array<uint8_t, 4>> palette{};  // RGBA; empty if the file has none
  std::vector<uint8_t> bytes{};                   // [height, width, channels], 8 bits each
};
enum class PngPart { header, all };
// How decode_png() converts values. `colours` scales gray of 1, 2 and 4 bits up to 255 and applies
// the file's transparent color. `as_they_are` keeps gray values: a 3 stays 3 at any depth. Both
// round 16 bits to 8.
enum class PngValues { colours, as_they_are };

// True if the content begins as a PNG file does.
bool is_png(std::span<const std::byte> content);
// Decodes a PNG file named `file`. With PngPart::header the result has no bytes. Throws Error as
// read_png() does.
PngImage decode_png(std::span<const std::byte> content, const std::string& file,
                    PngPart part = PngPart::all, PngValues values = PngValues::colours);

// Returns this image as a PNG file of 8-bit gray. Throws Error if the image has no pixels.
std::string encode_png(const GrayImage& image);
// The same for images of 1 or 3 channels.
std::string encode_png(const PngImage& image);
// True if encode_png() made the file that begins like this: its "Software" is accrue.
bool is_own_png(std::span<const std::byte> begin);
// Encodes an image and writes it atomically (data/atomic_file.h). Throws Error as encode_png() and
// AtomicFile do.
void write_png(const std::filesystem::path& path, const GrayImage& image);

}  // namespace accrue::detail
