#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/inside.h"

namespace accrue::fuzz {

using Bytes = std::vector<std::byte>;

// One of accrue's file formats, read from bytes that may be anything.
struct Parser {
  std::string name;  // also the corpus folder's
  // Throws Error for what is not a file of this format. Anything else that is thrown, any crash and
  // any report of a sanitizer is a bug.
  std::function<void(std::span<const std::byte>)> parse;
  // The most bytes of content that a file of this size can have: more for what is compressed.
  std::function<size_t(std::span<const std::byte>)> content;
};

const std::vector<Parser>& parsers();

// A checkpoint.json with the checksum that its content has, so that what stands behind it is
// reached; anything else as it is.
Bytes with_right_checksum(std::span<const std::byte> file);
// A PNG file whose chunks have the checksums of their contents, as far as there are chunks.
Bytes with_right_crcs(std::span<const std::byte> file);
Bytes gzip(std::span<const std::byte> content);

}  // namespace accrue::fuzz
