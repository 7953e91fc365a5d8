#include "data/run_lengths.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "core/error.h"
#include "data/byte_stream.h"

namespace accrue {
namespace {

constexpr std::string_view headers[] = {"Image_Label,EncodedPixels",
                                        "ImageId_ClassId,EncodedPixels"};

// The next line of the text, without its end, and without it in the text.
std::string_view take_line(std::string_view& text) {
  const size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

bool is_header(std::string_view line) {
  for (const std::string_view header : headers)
    if (line == header) return true;
  return false;
}

// The next whole number in the text; nothing at its end.
std::optional<int64_t> take_number(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  if (text.empty()) return std::nullopt;
  int64_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto used = static_cast<size_t>(stop - text.data());
  check(error == std::errc() && (used == text.size() || text[used] == ' '),
        "the runs have '{:.20}', expected whole numbers", text);
  text.remove_prefix(used);
  return number;
}

}  // namespace

bool holds_run_lengths(const std::filesystem::path& path) {
  try {
    InputFile file(path);
    std::string start(64, '\0');
    start.resize(file.read(std::as_writable_bytes(std::span(start))));
    std::string_view text = start;
    return is_header(take_line(text));
  } catch (const Error&) {
    return false;
  }
}

std::vector<RunLengths> read_run_lengths(const std::filesystem::path& path) {
  const std::vector<std::byte> content = file_content(path);
  std::string_view text(reinterpret_cast<const char*>(content.data()), content.size());
  check(is_header(take_line(text)), "'{}', line 1: expected '{}'", path.string(), headers[0]);
  std::vector<RunLengths> all;
  for (int64_t number = 2; !text.empty(); ++number) {
    const std::string_view line = take_line(text);
    if (line.empty()) continue;
    const size_t comma = line.find(',');
    const std::string_view name = line.substr(0, comma);
    const size_t dot = name.rfind('.');
    const size_t bar = dot == std::string_view::npos ? name.rfind('_') : name.find('_', dot);
    check(comma != std::string_view::npos && bar != std::string_view::npos && bar > 0 &&
              bar + 1 < name.size() && name.find('/') == std::string_view::npos,
          "'{}', line {}: it is '{:.40}', expected an image's file name, _, a label, a comma and "
          "the runs",
          path.string(), number, line);
    all.push_back({std::string(name.substr(0, bar)), std::string(name.substr(bar + 1)),
                   std::string(line.substr(comma + 1)), number});
  }
  check(!all.empty(), "'{}' has no masks: expected a line for each", path.string());
  return all;
}

void draw_runs(std::span<uint8_t> plane, ImageSize size, const std::string& runs) {
  const int64_t pixels = size.height * size.width;
  std::string_view text = runs;
  while (const std::optional<int64_t> start = take_number(text)) {
    const std::optional<int64_t> length = take_number(text);
    check(length.has_value(), "the run from pixel {} has no length", *start);
    check(*start >= 1 && *length >= 0 && *start <= pixels && *length <= pixels - *start + 1,
          "the run of {} pixels from pixel {} is not within an image of {}", *length, *start,
          width_by_height(size));
    for (int64_t p = *start - 1; p < *start - 1 + *length; ++p)
      plane[static_cast<size_t>(p % size.height * size.width + p / size.height)] = 255;
  }
}

}  // namespace accrue
