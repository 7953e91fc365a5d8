#include "data/image_size.h"

#include <algorithm>
#include <charconv>

#include "core/error.h"
#include "core/inside.h"
#include "core/usage.h"

namespace accrue {

std::string detail::height_by_width(ImageSize size) {
  return fmt::format("{}x{}", size.height, size.width);
}

std::optional<ImageSize> detail::read_image_size(const std::string& text, const std::string& what) {
  if (text.empty()) return std::nullopt;
  constexpr int64_t most = 1 << 14;
  const size_t cross = std::min(text.find('x'), text.size());
  const auto number = [&](size_t begin, size_t end) {
    int64_t value = 0;
    const char* const last = text.data() + end;
    const auto [stop, error] = std::from_chars(text.data() + begin, last, value);
    check(error == std::errc() && stop == last && 1 <= value && value <= most,
          "{} {}: expected a number of 1 to {} pixels, or HEIGHTxWIDTH", what, text, most);
    return value;
  };
  const int64_t height = number(0, cross);
  const int64_t width = cross == text.size() ? height : number(cross + 1, text.size());
  return ImageSize{height, width};
}

void detail::check_image_bytes(const ImageHeader& header, size_t most, const std::string& file) {
  const size_t bytes = header.bytes();
  check(bytes <= most, "'{}' is {}, which needs {} decoded, more than {}: expected a smaller one",
        file, height_by_width(header.size), format_bytes(bytes), format_bytes(most));
}

}  // namespace accrue
