#pragma once

// Image files for tests: PNG files by hand, byte by byte, and JPEG files by libjpeg.

#include <zlib.h>

#include <cstdint>
#include <initializer_list>
#include <string>

#include "core/inside.h"
#include "images/image_file.h"

namespace accrue::test {

inline std::string big_endian(uint64_t value) {
  std::string text;
  for (const int shift : {24, 16, 8, 0}) text += static_cast<char>(value >> shift);
  return text;
}

inline std::string chunk(const std::string& name, const std::string& content) {
  const std::string text = name + content;
  return big_endian(content.size()) + text +
         big_endian(
             crc32(0, reinterpret_cast<const Bytef*>(text.data()), static_cast<uInt>(text.size())));
}

// A PNG file, written by the specification (https://www.w3.org/TR/png-3) without libpng. Each row
// begins with its filter, 0.
inline std::string png_file(uint32_t width, uint32_t height, int depth, int type,
                            const std::string& rows, const std::string& chunks_before = "") {
  std::string packed(compressBound(rows.size()), '\0');
  uLongf size = packed.size();
  compress(reinterpret_cast<Bytef*>(packed.data()), &size,
           reinterpret_cast<const Bytef*>(rows.data()), rows.size());
  packed.resize(size);
  const std::string header = big_endian(width) + big_endian(height) + static_cast<char>(depth) +
                             static_cast<char>(type) + std::string(3, '\0');
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + chunks_before + chunk("IDAT", packed) +
         chunk("IEND", "");
}

inline std::string bytes(std::initializer_list<int> values) {
  std::string text;
  for (const int value : values) text += static_cast<char>(value);
  return text;
}

// The planes as a JPEG file without chroma subsampling; 4 channels are CMYK.
std::string jpeg_file(const Image& image, int quality = 95, bool progressive = false);
// The file with this EXIF orientation, in the byte order of Intel or Motorola.
std::string with_orientation(const std::string& jpeg, int orientation, bool little_endian);

// Planes whose sides and channels can be told apart: mirrored, turned or exchanged planes have
// another value at every place.
Image some_planes(int64_t channels, int64_t height, int64_t width);
// The image as a PNG file of 8-bit gray, RGB or RGBA.
std::string png_of(const Image& image);

}  // namespace accrue::test
