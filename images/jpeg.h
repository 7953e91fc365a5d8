#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "core/inside.h"
#include "images/image_file.h"

namespace accrue {

// True if this begins as JPEG files do.
bool is_jpeg(std::span<const std::byte> content);
// Decode a JPEG file of gray or colours, turned by its EXIF orientation, or its header alone. Throw
// Error as read_image() does; `file` is its name.
Image decode_jpeg(std::span<const std::byte> content, const std::string& file);
ImageHeader jpeg_header(std::span<const std::byte> content, const std::string& file);

}  // namespace accrue
