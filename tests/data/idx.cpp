// IDX files.

#include "data/idx.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/idx_files.h"

namespace accrue::test {

namespace fs = std::filesystem;

TEST_CASE("IDX files are read, plain and gzip, whatever their name", "[data]") {
  const TemporaryDirectory directory;
  const std::string split = gzip(images(4).substr(0, 20)) + gzip(images(4).substr(20));
  for (const std::string& content : {images(4), gzip(images(4)), split}) {
    for (const char* name : {"images", "images.gz"}) {
      const Tensor x = read_idx_images(directory.write(name, content));
      REQUIRE(x.shape() == Shape{4, 1, 2, 3});
      for (size_t i = 0; i < 24; ++i) REQUIRE(x.span<uint8_t>()[i] == i);
    }
  }
  // Zeros after a gzip file and between two members: more than the reader reads at a time.
  const std::string zeros(100'000, '\0');
  for (const std::string& content :
       {gzip(images(4)) + zeros,
        gzip(images(4).substr(0, 20)) + zeros + gzip(images(4).substr(20)) + '\0'})
    REQUIRE(read_idx_images(directory.write("padded", content)).span<uint8_t>()[23] == 23);
  REQUIRE_ERROR(read_idx_images(directory.write(
                    "more", gzip(images(4)) + std::string(2, '\0') + std::string(20, 'x'))),
                "is a corrupt gzip file");
  // Longer than the reader's chunk, and not a multiple of it.
  const Tensor y = read_idx_labels(directory.write("labels", gzip(labels(10'001))));
  REQUIRE(y.shape() == Shape{10'001});
  for (size_t i = 0; i < 10'001; ++i) REQUIRE(y.span<int32_t>()[i] == int32_t(i % 10));
}

TEST_CASE("bad IDX files are refused with file, offset, expected and found", "[data]") {
  const TemporaryDirectory directory;
  const auto read = [&](const std::string& content) {
    return read_idx_images(directory.write("the-file", content));
  };
  const std::string good = images(4);
  REQUIRE_ERROR(read(good.substr(0, good.size() - 1)), "the-file");
  REQUIRE_ERROR(read(good.substr(0, good.size() - 1)), "file can hold at most 23");
  REQUIRE_ERROR(read(good + "x"), "expected 40 bytes as the sizes in its header say, found more");
  REQUIRE_ERROR(read(good.substr(0, 3)), "expected 4 bytes of IDX magic number at offset 0");
  REQUIRE_ERROR(read(good.substr(0, 9)),
                "expected 12 bytes of dimension sizes at offset 4, found 5");
  REQUIRE_ERROR(read("<!DOCTYPE html>"), "neither gzip nor IDX: expected it to start with 1f 8b");
  REQUIRE_ERROR(read("<!DOCTYPE html>"), "found 3c 21 44 4f at offset 0");
  REQUIRE_ERROR(read(std::string("\0\0\x0d\3", 4) + good.substr(4)),
                "expected element type 08 (unsigned byte) at offset 2, found 0d");
  REQUIRE_ERROR(read(labels(4)), "expected 3 dimensions (images) at offset 3, found 1");
  REQUIRE_ERROR(read(idx({4, 0, 3}, "pixels")), "dimension 1 at offset 8 is 0");
  REQUIRE_ERROR(read(""), "is empty");
  REQUIRE_ERROR(read_idx_labels(directory.write("l", images(4))), "images and labels swapped?");
  REQUIRE_ERROR(read_idx_images(directory.path() / "none"), "No such file");
  REQUIRE_ERROR(read_idx_images(directory.path()), "is a directory");
  const auto pipe = directory.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  REQUIRE_ERROR(read_idx_images(pipe), "not a regular file");
}

TEST_CASE("sizes in a header are believed only as far as the file goes", "[data]") {
  const TemporaryDirectory directory;
  ledger(Device::cpu).reset_peak();
  const Usage before = ledger(Device::cpu).peak();
  for (const auto& sizes :
       {std::initializer_list<uint32_t>{60'000, 28, 28}, {0xffffffff, 0xffffffff, 0xffffffff}}) {
    const std::string content = idx(sizes, "pixels");
    REQUIRE_ERROR(read_idx_images(directory.write("plain", content)), "too short for its header");
    REQUIRE_ERROR(read_idx_images(directory.write("gzip", gzip(content))), "too short");
  }
  REQUIRE(ledger(Device::cpu).peak().bytes == before.bytes);
  // gzip may inflate, so only reading shows that this size is wrong.
  REQUIRE_ERROR(read_idx_images(directory.write("gzip", gzip(idx({400, 2, 3}, "pixels")))),
                "expected 2400 bytes of pixels at offset 16 of the inflated content, found 6");
}

TEST_CASE("damaged gzip files are told apart", "[data]") {
  const TemporaryDirectory directory;
  const std::string good = gzip(images(40));
  for (const size_t bytes : {size_t{2}, size_t{9}, good.size() / 2, good.size() - 1})
    REQUIRE_ERROR(read_idx_images(directory.write("cut.gz", good.substr(0, bytes))),
                  "truncated gzip file: it ends at byte " + std::to_string(bytes));
  std::string flipped = good;
  flipped[good.size() - 6] ^= 1;  // in the checksum
  REQUIRE_ERROR(read_idx_images(directory.write("crc.gz", flipped)),
                "corrupt gzip file: incorrect");
  flipped = good;
  flipped[10] = '\x07';  // a deflate block of a reserved type
  REQUIRE_ERROR(read_idx_images(directory.write("block.gz", flipped)), "invalid block type");
  REQUIRE_ERROR(read_idx_images(directory.write("after.gz", good + "more")), "corrupt gzip file");
  REQUIRE_ERROR(read_idx_images(directory.write("after.gz", good + gzip("x"))), "left over");
}

TEST_CASE("an unreadable file is named", "[data]") {
  const TemporaryDirectory directory;
  fs::permissions(directory.path(), fs::perms::all);
  const auto file = directory.write("secret", images(1));
  fs::permissions(file, fs::perms::none);
  const uid_t user = ::geteuid();
  if (user == 0) REQUIRE(::seteuid(65534) == 0);  // root may read everything
  REQUIRE_ERROR(read_idx_images(file), "Permission denied");
  REQUIRE(::seteuid(user) == 0);
}

}  // namespace accrue::test
