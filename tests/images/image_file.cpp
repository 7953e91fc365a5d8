// Image files: PNG and JPEG become planes of gray or of three colors, masks keep their values,
// damaged files are refused, and resized images equal images computed by hand.

#include "images/image_file.h"

#include <numeric>

#include "data/byte_stream.h"
#include "data/png.h"
#include "images/image_tensor.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/files.h"
#include "tests/support/image_files.h"

namespace accrue::test {
namespace {

constexpr int gray = 0, rgb = 2, palette = 3, gray_alpha = 4, rgba = 6;

std::vector<int> numbers(const Image& image) {
  REQUIRE(image.pixels.size() == static_cast<size_t>(image.channels * image.height * image.width));
  return {image.pixels.begin(), image.pixels.end()};
}

int largest_pixel_difference(const Image& a, const Image& b) {
  REQUIRE(a.channels == b.channels);
  REQUIRE(a.size() == b.size());
  int largest = 0;
  for (size_t i = 0; i < a.pixels.size(); ++i)
    largest = std::max(largest, std::abs(a.pixels[i] - b.pixels[i]));
  return largest;
}

}  // namespace

TEST_CASE("PNG images become planes of gray or of colours", "[data]") {
  const TemporaryDirectory folder;
  const auto read = [&](const std::string& file) {
    const auto path = folder.write("a.png", file);
    const Image image = read_image(path);
    const ImageHeader header = read_image_header(path);
    REQUIRE(header.size == image.size());
    REQUIRE(header.channels == image.channels);
    return numbers(image);
  };
  using Values = std::vector<int>;
  REQUIRE(read(png_file(3, 2, 8, gray, bytes({0, 1, 2, 3, 0, 4, 5, 255}))) ==
          Values{1, 2, 3, 4, 5, 255});
  REQUIRE(read(png_file(3, 1, 2, gray, bytes({0, 0b01101100}))) == Values{85, 170, 255});
  REQUIRE(read(png_file(2, 1, 16, gray, bytes({0, 0x12, 0x80, 0xff, 0xff}))) == Values{18, 255});
  REQUIRE(read(png_file(2, 1, 8, gray_alpha, bytes({0, 0, 64, 9, 0}))) == Values{191, 255});
  REQUIRE(read(png_file(2, 1, 8, rgb, bytes({0, 1, 2, 3, 4, 5, 6}))) == Values{1, 4, 2, 5, 3, 6});
  REQUIRE(read(png_file(1, 1, 16, rgb, bytes({0, 1, 0, 2, 0, 3, 0}))) == Values{1, 2, 3});
  // 200 * 128 / 255 + 127 = 227.4, and in the same way 177.2 and 152.1.
  REQUIRE(read(png_file(1, 1, 8, rgba, bytes({0, 200, 100, 50, 128}))) == Values{227, 177, 152});
  const std::string colours = chunk("PLTE", bytes({0, 0, 0, 200, 100, 50, 255, 255, 255}));
  REQUIRE(read(png_file(2, 1, 4, palette, bytes({0, 0x12}), colours)) ==
          Values{200, 255, 100, 255, 50, 255});
  REQUIRE(
      read(png_file(2, 1, 8, palette, bytes({0, 0, 1}), colours + chunk("tRNS", bytes({64})))) ==
      Values{191, 200, 191, 100, 191, 50});
  REQUIRE(read(png_file(2, 1, 8, palette, bytes({0, 0, 1}),
                        chunk("PLTE", bytes({7, 7, 7, 9, 9, 9})))) == Values{7, 9});
  for (const int64_t channels : {1, 3}) {
    const Image image = some_planes(channels, 11, 17);
    REQUIRE(read_image(folder.write("b.png", png_of(image))) == image);
  }
}

TEST_CASE("JPEG images become planes, turned as EXIF says", "[data]") {
  const TemporaryDirectory folder;
  const auto read = [&](const std::string& file) {
    const auto path = folder.write("a.jpg", file);
    const Image image = read_image(path);
    const ImageHeader header = read_image_header(path);
    REQUIRE(header.size == image.size());
    REQUIRE(header.channels == image.channels);
    return image;
  };
  for (const int64_t channels : {1, 3})
    for (const bool progressive : {false, true}) {
      const Image image = some_planes(channels, 19, 26);
      // At quality 100 each of 64 coefficients is rounded by at most 1/2. A sample is their sum,
      // weighted by cosines of norm 1: it is off by 4 in the worst case. The conversion of colors
      // rounds again.
      REQUIRE(largest_pixel_difference(read(jpeg_file(image, 100, progressive)), image) <= 5);
    }
  const Image image = some_planes(3, 16, 24);
  const std::string file = jpeg_file(image, 100);
  const Image plain = read(file);
  const auto at = [](const Image& of, int64_t y, int64_t x) {
    return of.pixels[static_cast<size_t>(y * of.width + x)];
  };
  for (int orientation = 1; orientation <= 8; ++orientation)
    for (const bool little_endian : {false, true}) {
      INFO("orientation " << orientation);
      const Image turned = read(with_orientation(file, orientation, little_endian));
      REQUIRE(turned == oriented(plain, orientation));
      REQUIRE(turned.height == (orientation > 4 ? 24 : 16));
      // The corner where the file's pixel (0, 0) must appear (EXIF 2.32, table 4.6.4).
      const bool bottom =
          orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
      const bool right =
          orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
      REQUIRE(at(turned, bottom ? turned.height - 1 : 0, right ? turned.width - 1 : 0) ==
              at(plain, 0, 0));
    }
  // With orientation 6, row 0 of the file is the right side, and column 0 is the top.
  const Image six = oriented(plain, 6);
  REQUIRE(at(six, 5, six.width - 1) == at(plain, 0, 5));
  const Image eight = oriented(plain, 8);
  REQUIRE(at(eight, eight.height - 1 - 5, 0) == at(plain, 0, 5));
  REQUIRE(read(with_orientation(file, 9, true)) == plain);
  REQUIRE(exif_orientation({}) == 1);
}

TEST_CASE("masks keep the values of their files", "[data]") {
  const TemporaryDirectory folder;
  const auto read = [&](const std::string& file) {
    return numbers(read_mask(folder.write("a.png", file)));
  };
  using Values = std::vector<int>;
  REQUIRE(read(png_file(3, 1, 1, gray, bytes({0, 0b10100000}))) == Values{1, 0, 1});
  REQUIRE(read(png_file(3, 1, 2, gray, bytes({0, 0b01101100}))) == Values{1, 2, 3});
  REQUIRE(read(png_file(3, 1, 8, gray, bytes({0, 7, 0, 255}))) == Values{7, 0, 255});
  REQUIRE(read(png_file(2, 1, 4, palette, bytes({0, 0x12}),
                        chunk("PLTE", bytes({0, 0, 0, 9, 9, 9, 9, 8, 7})))) == Values{1, 2});
  REQUIRE(read(png_file(1, 1, 8, rgba, bytes({0, 4, 4, 4, 128}))) == Values{4});
  REQUIRE(read(png_file(2, 1, 8, gray, bytes({0, 7, 8}), chunk("tRNS", bytes({0, 7})))) ==
          Values{7, 8});
  REQUIRE_ERROR(read(png_file(1, 1, 8, rgb, bytes({0, 4, 4, 5}))), "it has colours");
  REQUIRE_ERROR(read(png_file(1, 1, 16, gray, bytes({0, 4, 4}))), "16 bits");
  REQUIRE_ERROR(read(jpeg_file(some_planes(1, 8, 8))), "JPEG, which does not keep values");
}

TEST_CASE("an image of too many pixels is refused before they take memory", "[data]") {
  const TemporaryDirectory folder;
  const auto refuse = [](auto&& read, const std::string& part) {
    REQUIRE_ERROR(read(), part);
    REQUIRE_ERROR(read(), "image.");
  };
  const auto png = folder.write("image.png", png_of(some_planes(3, 5, 7))),
             jpeg = folder.write("image.jpg", jpeg_file(some_planes(3, 5, 7))),
             mask = folder.write("mask.image.png", png_of(some_planes(1, 5, 7)));
  for (const auto& file : {png, jpeg}) {
    REQUIRE(read_image(file, 105).size() == ImageSize{5, 7});
    REQUIRE(read_image_header(file, 105).size == ImageSize{5, 7});
    const std::string part = "is 5x7, which needs 105 B decoded, more than 104 B";
    refuse([&] { read_image(file, 104); }, part);
    refuse([&] { read_image_header(file, 104); }, part);
  }
  REQUIRE(read_mask(mask, 35).size() == ImageSize{5, 7});
  refuse([&] { read_mask(mask, 34); }, "is 5x7, which needs 35 B decoded");
  // As large as a file of this size can be, by the usual bound.
  const std::string ends(300'000, 'x');
  const auto huge = folder.write(
      "image.png", std::string("\x89PNG\r\n\x1a\n", 8) +
                       chunk("IHDR", bytes({0, 1, 0, 0, 0, 0, 0x80, 0, 1, 0, 0, 0, 0})) +
                       chunk("IDAT", ends) + chunk("IEND", {}));
  const std::string part = "is 32768x65536, which needs 2.0 GiB decoded, more than 1.0 GiB";
  refuse([&] { read_image(huge); }, part);
  refuse([&] { read_image_header(huge); }, part);
  refuse([&] { read_mask(huge); }, part);
  refuse([&] { read_png(huge); }, part);
  REQUIRE_ERROR(reading("scan.png", [] { throw std::bad_alloc(); }),
                "cannot read 'scan.png': the machine has no more memory");
}

TEST_CASE("an image file that is damaged is refused by its name", "[data]") {
  const TemporaryDirectory folder;
  const auto refuse = [&](const std::string& file, const std::string& part) {
    const auto path = folder.write("damaged.jpg", file);
    REQUIRE_ERROR(read_image(path), "damaged.jpg");
    REQUIRE_ERROR(read_image(path), part);
  };
  for (const bool progressive : {false, true}) {
    const std::string whole = jpeg_file(some_planes(3, 40, 40), 90, progressive);
    for (size_t length = 3; length < whole.size() - 2; length += length < 60 ? 1 : 19)
      refuse(whole.substr(0, length), "as JPEG");
    std::string damaged = whole;  // the last scan's data, after its header's 10 to 14 bytes
    const size_t scan = whole.rfind("\xff\xda");
    damaged.replace(scan + 20, 3, "\xff\xd3\x11");
    refuse(damaged, "as JPEG");
  }
  const std::string file = jpeg_file(some_planes(3, 16, 16));
  std::string huge = file;
  const size_t frame = file.find("\xff\xc0");
  huge.replace(frame + 5, 4, "\x7f\xff\x7f\xff");
  refuse(huge, "32767x32767, more than its");
  refuse(jpeg_file(some_planes(4, 8, 8)), "CMYK");
  refuse(png_file(100'000, 100'000, 8, 0, "few"), "more than its");
  refuse("GIF89a and more", "neither PNG nor JPEG");
  refuse("", "empty");
  const std::string png = png_of(some_planes(3, 16, 16));
  refuse(png.substr(0, png.size() - 20), "too early");
  REQUIRE_ERROR(read_image(folder.path()), "directory");
}

TEST_CASE("an image shrinks by area and grows along straight lines", "[data]") {
  const Image image{.channels = 1, .height = 2, .width = 3, .pixels = {10, 20, 30, 40, 50, 60}};
  // Boxes of 1.5 pixels: (10 + 20/2) / 1.5 and (20/2 + 30) / 1.5.
  REQUIRE(numbers(resized(image, {2, 2})) == std::vector<int>{13, 27, 43, 57});
  REQUIRE(numbers(resized(image, {1, 1})) == std::vector<int>{35});
  REQUIRE(numbers(resized(image, {1, 3})) == std::vector<int>{25, 35, 45});
  // The centers lie at -1/4, 1/4, 3/4 and 5/4 of two rows whose values differ by 30.
  const Image column{.channels = 1, .height = 2, .width = 1, .pixels = {10, 40}};
  REQUIRE(numbers(resized(column, {4, 1})) == std::vector<int>{10, 18, 33, 40});
  REQUIRE(resized(image, {2, 3}) == image);

  const Image mask{.channels = 1, .height = 2, .width = 3, .pixels = {1, 2, 3, 4, 5, 6}};
  REQUIRE(numbers(resized_mask(mask, {4, 3})) ==
          std::vector<int>{1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6});
  REQUIRE(numbers(resized_mask(mask, {1, 1})) == std::vector<int>{5});
  REQUIRE(numbers(resized_mask(mask, {2, 6})) ==
          std::vector<int>{1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6});

  // A constant image stays constant, the mean stays within the pixels' rounding, and planes do not
  // mix.
  const Image planes = some_planes(3, 37, 53);
  for (const ImageSize size : {ImageSize{8, 9}, {36, 52}, {80, 90}, {5, 100}, {100, 5}}) {
    const Image other = resized(planes, size);
    REQUIRE(other.size() == size);
    for (int64_t c = 0; c < 3; ++c) {
      const auto first = static_cast<size_t>(c) * other.pixels.size() / 3;
      Image one{.channels = 1, .height = 37, .width = 53};
      one.pixels.assign(planes.pixels.begin() + c * 37 * 53,
                        planes.pixels.begin() + (c + 1) * 37 * 53);
      const Image alone = resized(one, size);
      REQUIRE(std::equal(alone.pixels.begin(), alone.pixels.end(),
                         other.pixels.begin() + static_cast<ptrdiff_t>(first)));
      if (size.height > 37 || size.width > 53) continue;
      const double mean = std::accumulate(one.pixels.begin(), one.pixels.end(), 0.0) /
                          double(one.pixels.size()),
                   small = std::accumulate(alone.pixels.begin(), alone.pixels.end(), 0.0) /
                           double(alone.pixels.size());
      REQUIRE(std::abs(mean - small) <= 0.5);
    }
    const Image constant{
        .channels = 1, .height = 37, .width = 53, .pixels = std::vector<uint8_t>(37 * 53, 200)};
    for (const uint8_t pixel : resized(constant, size).pixels) REQUIRE(pixel == 200);
  }
}

TEST_CASE("an image becomes what a network takes", "[data]") {
  const Image image{.channels = 3, .height = 1, .width = 2, .pixels = {0, 255, 51, 102, 153, 204}};
  const Normalization channels{.mean = {0.5, 0.25, 0}, .std = {0.5, 1, 2}};
  const Tensor x = image_tensor(image, channels, DType::f64);
  REQUIRE(x.shape() == Shape{1, 3, 1, 2});
  // (x / 255 - mean) / std, by a product and a difference that each round once.
  REQUIRE(largest_difference(to_doubles(x), {-1, 1, -0.05, 0.15, 0.3, 0.4}) <= 0x1p-50);
  REQUIRE_ERROR(image_tensor(image, {.mean = {0, 0}, .std = {1, 1}}), "[image_tensor] mean 0,0");
  REQUIRE_ERROR(image_tensor({}), "an image of [1, 0, 0, 0] has no pixels");
}

}  // namespace accrue::test
