#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/inside.h"

namespace accrue::fuzz {

using Bytes = std::vector<std::byte>;

// One of accrue's file formats, read from arbitrary bytes.
struct Parser {
  std::string name;  // also the corpus folder's
  // Throws Error for bytes that are not a file of this format. Any other exception, any crash and
  // any report of a sanitizer is a bug.
  std::function<void(std::span<const std::byte>)> parse;
  // The most bytes of content that such a file can hold; more if it is compressed.
  std::function<size_t(std::span<const std::byte>)> content;
};

const std::vector<Parser>& parsers();

// A checkpoint.json with the right checksum for its content: the code behind that check then runs.
// Other bytes are returned unchanged.
Bytes with_right_checksum(std::span<const std::byte> file);
// A PNG file whose chunks have the checksums of their contents, as far as there are chunks.
Bytes with_right_crcs(std::span<const std::byte> file);
Bytes gzip(std::span<const std::byte> content);

}  // namespace accrue::fuzz
