// PNG: images of every kind become gray by one formula, files that are written are read back, and
// damaged files are refused.

#include "data/png.h"

#include "core/error.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/image_files.h"

namespace accrue::test {
namespace {

GrayImage some_image() {
  GrayImage image(37, 53);
  for (size_t i = 0; i < image.pixels.size(); ++i)
    image.pixels[i] = static_cast<uint8_t>(i * i / 7);
  return image;
}

}  // namespace

TEST_CASE("PNG images of every kind become gray", "[data]") {
  const TemporaryDirectory folder;
  const auto read = [&](const std::string& file) {
    const GrayImage image = read_png(folder.write("a.png", file));
    REQUIRE(image.pixels.size() == static_cast<size_t>(image.height * image.width));
    return std::vector<int>(image.pixels.begin(), image.pixels.end());
  };
  using Grays = std::vector<int>;
  constexpr int gray = 0, rgb = 2, palette = 3, gray_alpha = 4, rgba = 6;
  REQUIRE(read(png_file(3, 2, 8, gray, bytes({0, 1, 2, 3, 0, 4, 5, 255}))) ==
          Grays{1, 2, 3, 4, 5, 255});
  REQUIRE(read(png_file(3, 1, 1, gray, bytes({0, 0b10100000}))) == Grays{255, 0, 255});
  REQUIRE(read(png_file(3, 1, 2, gray, bytes({0, 0b01101100}))) == Grays{85, 170, 255});
  // 0x1280 of 0xffff is 18.4 of 255.
  REQUIRE(read(png_file(2, 1, 16, gray, bytes({0, 0x12, 0x80, 0xff, 0xff}))) == Grays{18, 255});
  // 0.299 * 200 + 0.587 * 100 + 0.114 * 50 = 124.2
  REQUIRE(read(png_file(1, 1, 8, rgb, bytes({0, 200, 100, 50}))) == Grays{124});
  // A quarter of black ink on white gives 255 * (1 - 64 / 255) = 191. The other image has gray
  // 124.2 at opacity 128 of 255.
  REQUIRE(read(png_file(2, 1, 8, gray_alpha, bytes({0, 0, 64, 9, 0}))) == Grays{191, 255});
  REQUIRE(read(png_file(1, 1, 8, rgba, bytes({0, 200, 100, 50, 128}))) == Grays{189});
  const std::string colours = chunk("PLTE", bytes({0, 0, 0, 200, 100, 50, 255, 255, 255}));
  REQUIRE(read(png_file(3, 1, 4, palette, bytes({0, 0x12, 0x00}), colours)) == Grays{124, 255, 0});
  REQUIRE(read(png_file(2, 1, 8, palette, bytes({0, 0, 1}),
                        colours + chunk("tRNS", bytes({64})))) == Grays{191, 124});
  // The gray value that the file marks as transparent becomes white. A gamma changes nothing.
  REQUIRE(read(png_file(2, 1, 8, gray, bytes({0, 7, 8}), chunk("tRNS", bytes({0, 7})))) ==
          Grays{255, 8});
  REQUIRE(read(png_file(1, 1, 8, rgb, bytes({0, 200, 100, 50}),
                        chunk("gAMA", big_endian(100000)))) == Grays{124});
}

TEST_CASE("a PNG file that is written is read back", "[data]") {
  const TemporaryDirectory folder;
  const GrayImage image = some_image();
  const auto path = folder.path() / "image.png";
  write_png(path, image);
  REQUIRE(read_png(path) == image);
  REQUIRE(read_file(path) == encode_png(image));
  REQUIRE_ERROR(encode_png(GrayImage{}), "image of 0 x 0 with 0 pixels");
  GrayImage torn = image;
  torn.pixels.pop_back();
  REQUIRE_ERROR(write_png(folder.path() / "torn.png", torn), "53 x 37 with 1960 pixels");
  REQUIRE_FALSE(std::filesystem::exists(folder.path() / "torn.png"));
  REQUIRE_ERROR(write_png(folder.path() / "none/image.png", image), "none/image.png");
}

TEST_CASE("a PNG file that is damaged is refused by its name", "[data]") {
  const TemporaryDirectory folder;
  const auto refuse = [&](const std::string& file, const std::string& part) {
    const auto path = folder.write("damaged.png", file);
    REQUIRE_ERROR(read_png(path), "damaged.png");
    REQUIRE_ERROR(read_png(path), part);
  };
  const std::string whole = encode_png(some_image());
  for (size_t length = 1; length < whole.size(); length += length < 60 ? 1 : 37)
    refuse(whole.substr(0, length), length < 8 ? "PNG" : "too early");
  refuse(whole.substr(0, whole.size() - 1), "too early");
  for (size_t at = 8; at < whole.size(); at += 41) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    // The chunks between the header and IDAT may be missing. libpng may ignore damage at the end,
    // as 1.6.48 does; then the image must be whole.
    if (at >= 33 && at < whole.find("IDAT")) continue;
    INFO("byte " << at << " of " << whole.size());
    const auto path = folder.write("damaged.png", damaged);
    try {
      const GrayImage read = read_png(path);
      REQUIRE(read == some_image());
      REQUIRE(at > whole.find("IDAT") + 8);
    } catch (const Error& error) {
      REQUIRE_THAT(error.what(), ContainsSubstring("damaged.png"));
    }
  }
  refuse("GIF89a", "as PNG");
  refuse("", "empty");
  refuse(png_file(100'000, 100'000, 8, 0, "few"),
         "it claims 100000 x 100000 pixels, more than its");
  refuse(png_file(2, 2, 8, 0, bytes({0, 1, 2})), "cannot read");
  refuse(png_file(2, 1, 8, 3, bytes({0, 0, 1}), chunk("PLTE", bytes({0, 0, 0}))),
         "colour 1 of a palette of 1");
  REQUIRE_ERROR(read_png(folder.path()), "directory");
  REQUIRE_ERROR(read_png(folder.path() / "no.png"), "no.png");
}

}  // namespace accrue::test
