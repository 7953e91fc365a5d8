#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace accrue {

// An image of one byte a pixel, row by row: 0 is black, 255 white.
struct GrayImage {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> pixels{};  // [height, width]

  GrayImage() = default;
  GrayImage(int64_t height, int64_t width, uint8_t gray = 255);

  uint8_t& at(int64_t y, int64_t x) { return pixels[static_cast<size_t>(y * width + x)]; }
  uint8_t at(int64_t y, int64_t x) const { return pixels[static_cast<size_t>(y * width + x)]; }
  bool operator==(const GrayImage&) const = default;
};

// Reads a PNG file of any kind as gray: of 16 bits the upper 8, of colours
// 0.299 R + 0.587 G + 0.114 B, of what is transparent as much as white paper beneath it shows.
// Gamma and colour profiles are left alone. Throws Error, naming the file and what libpng says, for
// one that is no PNG, damaged or cut off. Allocates no more than such a file can hold.
GrayImage read_png(const std::filesystem::path& path);

// The same image as a PNG file of 8-bit gray. Throws Error unless it has pixels.
std::string encode_png(const GrayImage& image);
// Writes atomically (data/atomic_file.h). Throws Error as both do.
void write_png(const std::filesystem::path& path, const GrayImage& image);

}  // namespace accrue
