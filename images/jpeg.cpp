#include "images/jpeg.h"

#include <array>
#include <csetjmp>
#include <cstdio>
// These need FILE of <cstdio>.
#include <jerror.h>
#include <jpeglib.h>

#include "core/error.h"

namespace accrue {
namespace {

// The most bytes of pixels for each byte of a file. A block of 8x8 samples takes a bit or more in a
// scan of first coefficients. A unit of at most 16 blocks of luminance and 1 of each colour has at
// least 18 bits. It makes 32x32 pixels of 3 bytes: 1365 bytes for each byte of the file.
constexpr uint64_t max_jpeg_inflation = 1366;
// A file of many scans over a large image would take hours; encoders write about ten.
constexpr int max_scans = 200;

// libjpeg reports an error by a jump, as libpng does. The jump must not skip any destructor. So
// libjpeg's state and message are here, and the functions that call libjpeg hold only numbers.
struct JpegReader {
  jpeg_decompress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf on_error;
  std::array<char, JMSG_LENGTH_MAX> message{};
  bool created = false;

  ~JpegReader() {
    if (created) jpeg_destroy_decompress(&jpeg);
  }
};

JpegReader& reader_of(j_common_ptr jpeg) { return *static_cast<JpegReader*>(jpeg->client_data); }

[[noreturn]] void keep_jpeg_message(j_common_ptr jpeg) {
  JpegReader& reader = reader_of(jpeg);
  reader.errors.format_message(jpeg, reader.message.data());
  std::longjmp(reader.on_error, 1);
}

// A warning, of level -1, reports damaged data. Without an error, libjpeg would invent pixels for
// it.
void refuse_warning(j_common_ptr jpeg, int level) {
  if (level < 0) keep_jpeg_message(jpeg);
}

void refuse_many_scans(j_common_ptr jpeg) {
  if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number <= max_scans) return;
  JpegReader& reader = reader_of(jpeg);
  std::snprintf(reader.message.data(), reader.message.size(), "it has more than %d scans",
                max_scans);
  std::longjmp(reader.on_error, 1);
}

bool read_jpeg_header(JpegReader& reader, const unsigned char* bytes, size_t size) {
  jpeg_decompress_struct& jpeg = reader.jpeg;
  jpeg.err = jpeg_std_error(&reader.errors);
  reader.errors.error_exit = keep_jpeg_message;
  reader.errors.emit_message = refuse_warning;
  jpeg.client_data = &reader;
  if (setjmp(reader.on_error)) return false;
  jpeg_create_decompress(&jpeg);
  reader.created = true;
  reader.progress.progress_monitor = refuse_many_scans;
  jpeg.progress = &reader.progress;
  jpeg_mem_src(&jpeg, bytes, size);
  jpeg_save_markers(&jpeg, JPEG_APP0 + 1, 0xffff);
  jpeg_read_header(&jpeg, TRUE);
  return true;
}

bool begin_pixels(JpegReader& reader) {
  if (setjmp(reader.on_error)) return false;
  reader.jpeg.out_color_space = reader.jpeg.num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
  reader.jpeg.dct_method = JDCT_ISLOW;
  jpeg_start_decompress(&reader.jpeg);
  return true;
}

// to[c * plane + x] = row[x * channels + c]
void split_row(uint8_t* to, size_t plane, const uint8_t* row, size_t width, size_t channels) {
  if (channels == 3) {  // a constant lets the compiler vectorize the loop
    uint8_t *red = to, *green = to + plane, *blue = to + 2 * plane;
    for (size_t x = 0; x < width; ++x) {
      red[x] = row[3 * x];
      green[x] = row[3 * x + 1];
      blue[x] = row[3 * x + 2];
    }
    return;
  }
  for (size_t c = 0; c < channels; ++c)
    for (size_t x = 0; x < width; ++x) to[c * plane + x] = row[x * channels + c];
}

// Reads each row into `row` and copies it to the planes.
bool read_jpeg_rows(JpegReader& reader, uint8_t* planes, uint8_t* row) {
  if (setjmp(reader.on_error)) return false;
  jpeg_decompress_struct& jpeg = reader.jpeg;
  const size_t width = jpeg.output_width, plane = width * jpeg.output_height;
  const auto channels = static_cast<size_t>(jpeg.output_components);
  while (jpeg.output_scanline < jpeg.output_height) {
    uint8_t* to = planes + width * jpeg.output_scanline;
    JSAMPROW rows[] = {row};
    jpeg_read_scanlines(&jpeg, rows, 1);
    split_row(to, plane, row, width, channels);
  }
  jpeg_finish_decompress(&jpeg);
  return true;
}

int orientation_of(const JpegReader& reader) {
  for (auto marker = reader.jpeg.marker_list; marker; marker = marker->next)
    if (const int said = exif_orientation(
            std::as_bytes(std::span(marker->data, static_cast<size_t>(marker->data_length))));
        said != 1)
      return said;
  return 1;
}

void check_jpeg(bool ok, const JpegReader& reader, const std::string& file) {
  check(ok, "cannot read '{}' as JPEG: {}", file, reader.message.data());
}

// Reads the header. Its size is that of the image before it is turned.
ImageHeader open_jpeg(JpegReader& reader, std::span<const std::byte> content,
                      const std::string& file) {
  const bool is_read = read_jpeg_header(
      reader, reinterpret_cast<const unsigned char*>(content.data()), content.size());
  check_jpeg(is_read, reader, file);
  const jpeg_decompress_struct& jpeg = reader.jpeg;
  check(jpeg.jpeg_color_space == JCS_GRAYSCALE || jpeg.jpeg_color_space == JCS_YCbCr ||
            jpeg.jpeg_color_space == JCS_RGB,
        "cannot read '{}' as JPEG: its {} components are {}, expected gray, YCbCr or RGB; convert "
        "it",
        file, jpeg.num_components,
        jpeg.num_components == 4 ? "a printer's colours (CMYK)" : "of an unknown meaning");
  const ImageHeader header{{int64_t{jpeg.image_height}, int64_t{jpeg.image_width}},
                           jpeg.num_components == 1 ? 1 : 3};
  check(header.bytes() <= content.size() * max_jpeg_inflation,
        "cannot read '{}' as JPEG: it is to be {}, more than its {} bytes can hold", file,
        height_by_width(header.size), content.size());
  return header;
}

}  // namespace

bool is_jpeg(std::span<const std::byte> content) {
  return content.size() >= 3 && content[0] == std::byte{0xff} && content[1] == std::byte{0xd8} &&
         content[2] == std::byte{0xff};
}

ImageHeader jpeg_header(std::span<const std::byte> content, const std::string& file) {
  JpegReader reader;
  ImageHeader header = open_jpeg(reader, content, file);
  const int orientation = orientation_of(reader);
  header.is_turned = orientation != 1;
  if (orientation > 4) std::swap(header.size.height, header.size.width);
  return header;
}

Image decode_jpeg(std::span<const std::byte> content, const std::string& file) {
  JpegReader reader;
  const ImageHeader header = open_jpeg(reader, content, file);
  const int orientation = orientation_of(reader);
  Image image{
      .channels = header.channels, .height = header.size.height, .width = header.size.width};
  check_jpeg(begin_pixels(reader), reader, file);
  image.pixels.resize(header.bytes());
  std::vector<uint8_t> row(static_cast<size_t>(image.channels * image.width));
  check_jpeg(read_jpeg_rows(reader, image.pixels.data(), row.data()), reader, file);
  return oriented(std::move(image), orientation);
}

}  // namespace accrue
