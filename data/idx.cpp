#include "data/idx.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "data/byte_stream.h"

namespace accrue {
namespace {

constexpr int header_bytes(int rank) { return 4 + 4 * rank; }

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (std::byte b : bytes)
    text += fmt::format("{}{:02x}", text.empty() ? "" : " ", std::to_integer<int>(b));
  return text;
}

// The magic number tells the element type (unsigned bytes) and the rank.
void check_magic(ByteStream& stream, int rank) {
  std::array<std::byte, 4> magic;
  stream.read_exactly(magic, "IDX magic number");
  const std::string file = stream.path().string();
  check(magic[0] == std::byte{0} && magic[1] == std::byte{0},
        "'{}' is neither gzip nor IDX: expected it to start with 1f 8b or 00 00 08 {:02x}, found "
        "{} at offset 0; give the original MNIST file",
        file, rank, hex(magic));
  check(magic[2] == std::byte{0x08},
        "'{}': expected element type 08 (unsigned byte) at offset 2, found {:02x}", file,
        std::to_integer<int>(magic[2]));
  check(magic[3] == std::byte(rank),
        "'{}': expected {} dimensions ({}) at offset 3, found {}; are images and labels swapped?",
        file, rank, rank == 3 ? "images" : "labels", std::to_integer<int>(magic[3]));
}

// The sizes in the header, checked against the most elements that the file can hold.
std::vector<int64_t> read_sizes(ByteStream& stream, int rank) {
  std::vector<std::byte> raw(4 * static_cast<size_t>(rank));
  stream.read_exactly(raw, "dimension sizes");
  std::vector<int64_t> sizes;
  const uint64_t possible =
      stream.max_content() - std::min<uint64_t>(stream.max_content(), header_bytes(rank));
  uint64_t elements = 1;
  for (int d = 0; d < rank; ++d) {
    uint64_t size = 0;
    for (int b = 0; b < 4; ++b) size = size << 8 | std::to_integer<uint64_t>(raw[4 * d + b]);
    check(size > 0, "'{}': dimension {} at offset {} is 0, expected at least 1",
          stream.path().string(), d, 4 + 4 * d);
    check(size <= possible / elements,
          "'{}' is too short for its header: dimension {} at offset {} is {}, which makes at least "
          "{} x {} elements, but the file can hold at most {}; copy or download it again",
          stream.path().string(), d, 4 + 4 * d, size, elements, size, possible);
    elements *= size;
    sizes.push_back(static_cast<int64_t>(size));
  }
  return sizes;
}

void check_end(ByteStream& stream) {
  const uint64_t expected = stream.offset();
  std::byte extra;
  check(stream.read({&extra, 1}) == 0,
        "'{}' has bytes left over: expected {} bytes as the sizes in its header say, found more "
        "from offset {}{}",
        stream.path().string(), expected, expected,
        stream.is_gzip() ? " of the inflated content" : "");
}

}  // namespace

Tensor read_idx_images(const std::filesystem::path& path) {
  ByteStream stream(path);
  check_magic(stream, 3);
  const auto sizes = read_sizes(stream, 3);
  Tensor images =
      Tensor::empty({sizes[0], 1, sizes[1], sizes[2]}, DType::u8, Device::cpu, Category::data);
  stream.read_exactly(std::as_writable_bytes(images.span<uint8_t>()), "pixels");
  check_end(stream);
  return images;
}

Tensor read_idx_labels(const std::filesystem::path& path) {
  ByteStream stream(path);
  check_magic(stream, 1);
  const int64_t N = read_sizes(stream, 1)[0];
  Tensor labels = Tensor::empty({N}, DType::i32, Device::cpu, Category::data);
  const auto out = labels.span<int32_t>();
  std::array<uint8_t, 4096> chunk;
  for (size_t begin = 0; begin < out.size(); begin += chunk.size()) {
    const auto part = std::span(chunk).first(std::min(chunk.size(), out.size() - begin));
    stream.read_exactly(std::as_writable_bytes(part), "labels");
    std::ranges::copy(part, out.begin() + static_cast<ptrdiff_t>(begin));
  }
  check_end(stream);
  return labels;
}

}  // namespace accrue
