#include "data/image_size.h"

#include "core/error.h"
#include "core/usage.h"

namespace accrue {

std::string width_by_height(ImageSize size) {
  return fmt::format("{}x{}", size.width, size.height);
}

void check_image_bytes(const ImageHeader& header, size_t most, const std::string& file) {
  const size_t bytes = header.bytes();
  check(bytes <= most, "'{}' is {}, which needs {} decoded, more than {}: expected a smaller one",
        file, width_by_height(header.size), format_bytes(bytes), format_bytes(most));
}

}  // namespace accrue
