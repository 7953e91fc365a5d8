#include "tests/support/image_files.h"

#include <cstdio>
#include <cstdlib>
#include <vector>
// jpeglib.h needs FILE of <cstdio>.
#include <jpeglib.h>

#include "tests/support/catch.h"

namespace accrue::test {

std::string jpeg_file(const Image& image, int quality, bool progressive) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &bytes, &size);
  jpeg.image_height = static_cast<JDIMENSION>(image.height);
  jpeg.image_width = static_cast<JDIMENSION>(image.width);
  jpeg.input_components = static_cast<int>(image.channels);
  jpeg.in_color_space = image.channels == 1   ? JCS_GRAYSCALE
                        : image.channels == 3 ? JCS_RGB
                                              : JCS_CMYK;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, quality, TRUE);
  if (progressive) jpeg_simple_progression(&jpeg);
  for (int c = 0; c < jpeg.num_components; ++c)
    jpeg.comp_info[c].h_samp_factor = jpeg.comp_info[c].v_samp_factor = 1;
  jpeg_start_compress(&jpeg, TRUE);
  const auto plane = static_cast<size_t>(image.height * image.width);
  std::vector<uint8_t> row(static_cast<size_t>(image.width * image.channels));
  for (size_t y = 0; y < static_cast<size_t>(image.height); ++y) {
    for (size_t i = 0; i < row.size(); ++i) {
      const size_t x = i / static_cast<size_t>(image.channels),
                   c = i % static_cast<size_t>(image.channels);
      row[i] = image.pixels[c * plane + y * static_cast<size_t>(image.width) + x];
    }
    JSAMPROW rows[] = {row.data()};
    jpeg_write_scanlines(&jpeg, rows, 1);
  }
  jpeg_finish_compress(&jpeg);
  std::string result(reinterpret_cast<char*>(bytes), size);
  jpeg_destroy_compress(&jpeg);
  std::free(bytes);
  return result;
}

std::string with_orientation(const std::string& jpeg, int orientation, bool little_endian) {
  const auto number = [&](int value, int width) {
    std::string text;
    for (int b = 0; b < width; ++b)
      text += static_cast<char>(value >> 8 * (little_endian ? b : width - 1 - b));
    return text;
  };
  // TIFF: two entries in the first directory, of which the orientation is the second.
  const std::string tiff = std::string(little_endian ? "II" : "MM") + number(42, 2) + number(8, 4) +
                           number(2, 2) + number(0x100, 2) + number(3, 2) + number(1, 4) +
                           number(7, 2) + number(0, 2) + number(0x112, 2) + number(3, 2) +
                           number(1, 4) + number(orientation, 2) + number(0, 2) + number(0, 4);
  const std::string content = std::string("Exif\0\0", 6) + tiff;
  const size_t length = content.size() + 2;
  return jpeg.substr(0, 2) + "\xff\xe1" + static_cast<char>(length >> 8) +
         static_cast<char>(length) + content + jpeg.substr(2);
}

Image some_planes(int64_t channels, int64_t height, int64_t width) {
  Image image{.channels = channels, .height = height, .width = width};
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x)
        image.pixels.push_back(static_cast<uint8_t>(30 + 50 * c + 70 * y / height + 30 * x / width +
                                                    (x < 2 && y < 2 ? 20 : 0)));
  return image;
}

std::string png_of(const Image& image) {
  std::string rows;
  for (int64_t y = 0; y < image.height; ++y) {
    rows += '\0';
    for (int64_t x = 0; x < image.width; ++x)
      for (int64_t c = 0; c < image.channels; ++c)
        rows += static_cast<char>(
            image.pixels[static_cast<size_t>((c * image.height + y) * image.width + x)]);
  }
  const int type = image.channels == 1 ? 0 : image.channels == 3 ? 2 : 6;
  return png_file(static_cast<uint32_t>(image.width), static_cast<uint32_t>(image.height), 8, type,
                  rows);
}

}  // namespace accrue::test
