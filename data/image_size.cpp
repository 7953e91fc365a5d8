#include "data/image_size.h"

#include "core/error.h"
#include "core/usage.h"

namespace accrue {

std::string height_by_width(ImageSize size) {
  return fmt::format("{}x{}", size.height, size.width);
}

void check_image_bytes(const ImageHeader& header, size_t most, const std::string& file) {
  const size_t bytes = header.bytes();
  check(bytes <= most, "'{}' is {}, which needs {} decoded, more than {}: expected a smaller one",
        file, height_by_width(header.size), format_bytes(bytes), format_bytes(most));
}

}  // namespace accrue
