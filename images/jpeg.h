#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "images/image_file.h"

namespace accrue {

enum class JpegPart { header, all };

// True if this begins as JPEG files do.
bool is_jpeg(std::span<const std::byte> content);
// Decodes a JPEG file of gray or colours, turned by its EXIF orientation; with JpegPart::header the
// result has no pixels. Throws Error as read_image() does; `file` is its name.
Image decode_jpeg(std::span<const std::byte> content, const std::string& file,
                  JpegPart part = JpegPart::all);

}  // namespace accrue
