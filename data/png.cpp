#include "data/png.h"

#include <png.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstring>
#include <span>

#include "core/error.h"
#include "data/atomic_file.h"
#include "data/byte_stream.h"
#include "data/image_size.h"

namespace accrue {
namespace {

// deflate codes at most 258 bytes in 2 bits.
constexpr uint64_t max_png_inflation = 1032;

// libpng reports an error by longjmp(), which must not skip destructors. So this struct holds the
// input and the message, and the functions that call libpng have only numbers on their stack.
struct PngReader {
  std::span<const std::byte> rest;
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::array<char, 160> message{};
  PngValues values = PngValues::colours;
  png_uint_32 width = 0, height = 0;
  size_t row_bytes = 0;

  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
};

[[noreturn]] void keep_message(png_structp png, png_const_charp message) {
  auto& reader = *static_cast<PngReader*>(png_get_error_ptr(png));
  std::strncpy(reader.message.data(), message, reader.message.size() - 1);
  png_longjmp(png, 1);
}

void ignore_warning(png_structp, png_const_charp) {}

void take_bytes(png_structp png, png_bytep out, size_t size) {
  auto& reader = *static_cast<PngReader*>(png_get_io_ptr(png));
  if (size > reader.rest.size()) png_error(png, "it ends too early");
  std::memcpy(out, reader.rest.data(), size);
  reader.rest = reader.rest.subspan(size);
}

// Asks libpng for bytes: gray, gray and alpha, RGB, RGBA, or palette indices. The caller applies
// the palette, so a pixel of one bit takes no more than a byte.
bool read_header(PngReader& reader) {
  if (setjmp(png_jmpbuf(reader.png))) return false;
  png_read_info(reader.png, reader.info);
  const int depth = png_get_bit_depth(reader.png, reader.info);
  const int type = png_get_color_type(reader.png, reader.info);
  if (depth == 16) png_set_scale_16(reader.png);
  const bool as_they_are = reader.values == PngValues::as_they_are;
  if (type == PNG_COLOR_TYPE_PALETTE || as_they_are) png_set_packing(reader.png);
  else if (depth < 8) png_set_expand_gray_1_2_4_to_8(reader.png);
  if (type != PNG_COLOR_TYPE_PALETTE && !as_they_are &&
      png_get_valid(reader.png, reader.info, PNG_INFO_tRNS))
    png_set_tRNS_to_alpha(reader.png);
  png_set_interlace_handling(reader.png);
  reader.width = png_get_image_width(reader.png, reader.info);
  reader.height = png_get_image_height(reader.png, reader.info);
  return true;
}

// Applies the conversions that read_header() asked for.
bool prepare_rows(PngReader& reader) {
  if (setjmp(png_jmpbuf(reader.png))) return false;
  png_read_update_info(reader.png, reader.info);
  reader.row_bytes = png_get_rowbytes(reader.png, reader.info);
  return true;
}

bool read_rows(PngReader& reader, std::span<uint8_t> bytes) {
  if (setjmp(png_jmpbuf(reader.png))) return false;
  const int passes = png_get_interlace_type(reader.png, reader.info) == PNG_INTERLACE_NONE ? 1 : 7;
  for (int pass = 0; pass < passes; ++pass)
    for (size_t y = 0; y < reader.height; ++y)
      png_read_row(reader.png, bytes.data() + y * reader.row_bytes, nullptr);
  png_read_end(reader.png, nullptr);
  return true;
}

uint8_t luminance(int red, int green, int blue) {  // with 16 fractional bits
  return static_cast<uint8_t>((19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16);
}

void keep_palette(PngImage& image, const PngReader& reader) {
  png_colorp colours = nullptr;
  png_bytep alpha = nullptr;
  int count = 0, alphas = 0;
  png_get_PLTE(reader.png, reader.info, &colours, &count);
  png_get_tRNS(reader.png, reader.info, &alpha, &alphas, nullptr);
  for (int i = 0; i < count; ++i)
    image.palette.push_back(
        {colours[i].red, colours[i].green, colours[i].blue, i < alphas ? alpha[i] : uint8_t{255}});
}

uint8_t gray_of(const uint8_t* pixel, size_t channels) {
  switch (channels) {
    case 1: return pixel[0];
    case 2: return over_white(pixel[0], pixel[1]);
    case 3: return luminance(pixel[0], pixel[1], pixel[2]);
    default: return over_white(luminance(pixel[0], pixel[1], pixel[2]), pixel[3]);
  }
}

}  // namespace

GrayImage::GrayImage(int64_t height, int64_t width, uint8_t gray)
    : height(height), width(width), pixels(static_cast<size_t>(height * width), gray) {}

bool detail::is_png(std::span<const std::byte> content) {
  return content.size() >= 8 &&
         png_sig_cmp(reinterpret_cast<png_const_bytep>(content.data()), 0, 8) == 0;
}

PngImage detail::decode_png(std::span<const std::byte> content, const std::string& file,
                            PngPart part, PngValues values) {
  PngReader reader{content};
  reader.values = values;
  const auto check_png = [&](bool ok) {
    check(ok, "cannot read '{}' as PNG: {}", file, reader.message.data());
  };
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, keep_message, ignore_warning);
  if (reader.png) reader.info = png_create_info_struct(reader.png);
  check(reader.info != nullptr, "cannot read '{}': libpng has no memory", file);
  png_set_read_fn(reader.png, &reader, take_bytes);
  // libpng allocates the size that a chunk claims before reading it. Chunks without pixels, such as
  // texts, are skipped.
  png_set_keep_unknown_chunks(reader.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  check_png(read_header(reader));
  // Checks the claimed size before allocating anything of it.
  const uint64_t bits = png_get_bit_depth(reader.png, reader.info) *
                        uint64_t{png_get_channels(reader.png, reader.info)};
  const uint64_t claimed = uint64_t{reader.height} * ((reader.width * bits + 7) / 8 + 1);
  check(claimed <= content.size() * max_png_inflation,
        "cannot read '{}' as PNG: it claims {} x {} pixels, more than its {} bytes can hold", file,
        reader.width, reader.height, content.size());
  const int depth = png_get_bit_depth(reader.png, reader.info);
  check_png(prepare_rows(reader));

  PngImage image{.height = reader.height,
                 .width = reader.width,
                 .channels = png_get_channels(reader.png, reader.info),
                 .depth = depth};
  if (png_get_color_type(reader.png, reader.info) == PNG_COLOR_TYPE_PALETTE)
    keep_palette(image, reader);
  if (part == PngPart::header) return image;
  image.bytes.resize(reader.height * reader.row_bytes);
  check_png(read_rows(reader, image.bytes));
  if (const size_t count = image.palette.size(); count > 0)
    for (const uint8_t byte : image.bytes)
      check(byte < count, "cannot read '{}' as PNG: it asks for colour {} of a palette of {}", file,
            byte, count);
  return image;
}

GrayImage detail::read_png(const std::filesystem::path& path) {
  const std::vector<std::byte> content = file_content(path);
  const std::string file = path.string();
  const PngImage header = decode_png(content, file, PngPart::header);
  check_image_bytes({{header.height, header.width}, header.channels}, usual_most_image_bytes, file);
  PngImage png = reading(file, [&] { return decode_png(content, file); });
  GrayImage image;
  image.height = png.height;
  image.width = png.width;
  image.pixels = std::move(png.bytes);
  if (!png.palette.empty()) {
    std::array<uint8_t, 256> gray{};
    std::ranges::transform(png.palette, gray.begin(),
                           [](const auto& colour) { return gray_of(colour.data(), 4); });
    for (uint8_t& pixel : image.pixels) pixel = gray[pixel];
  } else if (const auto channels = static_cast<size_t>(png.channels); channels > 1) {
    // In place: each pixel is written after its channels have been read.
    const size_t count = image.pixels.size() / channels;
    for (size_t i = 0; i < count; ++i)
      image.pixels[i] = gray_of(&image.pixels[i * channels], channels);
    image.pixels.resize(count);
    image.pixels.shrink_to_fit();
  }
  return image;
}

namespace {

constexpr size_t behind_header = 8 + 25;  // the signature and the first chunk, IHDR

// The chunk that names the program that made the file: length, type, content and CRC-32.
std::string own_mark() {
  using namespace std::string_literals;
  const std::string content = "Software\0accrue"s, checked = "tEXt" + content;
  const auto big_endian = [](uint32_t number) {
    std::string bytes;
    for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(number >> shift);
    return bytes;
  };
  const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(checked.data()), checked.size());
  return big_endian(static_cast<uint32_t>(content.size())) + checked +
         big_endian(static_cast<uint32_t>(crc));
}

}  // namespace

std::string detail::encode_png(const GrayImage& image) {
  return encode_png({.height = image.height,
                     .width = image.width,
                     .channels = 1,
                     .depth = 8,
                     .bytes = image.pixels});
}

std::string detail::encode_png(const PngImage& image) {
  check(image.height > 0 && image.width > 0 && (image.channels == 1 || image.channels == 3) &&
            image.bytes.size() == static_cast<size_t>(image.height * image.width * image.channels),
        "an image of {} x {} with {} pixels cannot be a PNG file: expected at least one pixel, and "
        "as many as its sizes say",
        image.width, image.height, image.bytes.size());
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(image.width);
  png.height = static_cast<png_uint_32>(image.height);
  png.format = image.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  std::string text;
  // The first call returns the most memory that the second needs.
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(png);
  text.resize(size);
  const int written =
      png_image_write_to_memory(&png, text.data(), &size, 0, image.bytes.data(),
                                static_cast<png_int_32>(image.width * image.channels), nullptr);
  check(written != 0, "cannot encode an image of {} x {} as PNG: {}", image.width, image.height,
        png.message);
  text.resize(size);
  return text.insert(behind_header, own_mark());
}

bool detail::is_own_png(std::span<const std::byte> begin) {
  const std::string mark = own_mark();
  return begin.size() >= behind_header + mark.size() &&
         std::ranges::equal(begin.subspan(behind_header, mark.size()),
                            std::as_bytes(std::span(mark)));
}

void detail::write_png(const std::filesystem::path& path, const GrayImage& image) {
  write_text_atomically(path, encode_png(image));
}

}  // namespace accrue
