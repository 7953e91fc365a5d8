// IDX files and the data sets made of them.

#include "data/idx.h"

#include <sys/stat.h>
#include <zlib.h>

#include "data/dataset.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/paths.h"

namespace accrue::test {
namespace {

namespace fs = std::filesystem;

std::string gzip(const std::string& content) {
  z_stream z{};
  REQUIRE(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(content.size() + 1000, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  z.avail_in = static_cast<uInt>(content.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

std::string idx(std::initializer_list<uint32_t> sizes, const std::string& elements) {
  std::string file{0, 0, 8, static_cast<char>(sizes.size())};
  for (const uint32_t size : sizes)
    for (const int shift : {24, 16, 8, 0}) file += static_cast<char>(size >> shift);
  return file + elements;
}

// n images of 2 x 3 pixels 0, 1, 2, ...
std::string images(uint32_t n) {
  std::string pixels;
  for (uint32_t i = 0; i < n * 6; ++i) pixels += static_cast<char>(i);
  return idx({n, 2, 3}, pixels);
}

std::string labels(uint32_t n) {
  std::string values;
  for (uint32_t i = 0; i < n; ++i) values += static_cast<char>(i % 10);
  return idx({n}, values);
}

void write_mnist(const TemporaryDirectory& directory, const std::string& folder,
                 const std::string& dash = "-", uint32_t train_labels = 5) {
  directory.write(folder + "train-images" + dash + "idx3-ubyte", images(5));
  directory.write(folder + "train-labels" + dash + "idx1-ubyte", labels(train_labels));
  directory.write(folder + "t10k-images" + dash + "idx3-ubyte.gz", gzip(images(2)));
  directory.write(folder + "t10k-labels" + dash + "idx1-ubyte.gz", gzip(labels(2)));
}

}  // namespace

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
  // Zeros after gzip, and between two members: more than the reader takes in at a time.
  const std::string zeros(100'000, '\0');
  for (const std::string& content :
       {gzip(images(4)) + zeros,
        gzip(images(4).substr(0, 20)) + zeros + gzip(images(4).substr(20)) + '\0'})
    REQUIRE(read_idx_images(directory.write("padded", content)).span<uint8_t>()[23] == 23);
  REQUIRE_ERROR(read_idx_images(directory.write(
                    "more", gzip(images(4)) + std::string(2, '\0') + std::string(20, 'x'))),
                "is a corrupt gzip file");
  // Longer than one chunk of the reader, and not a multiple of it.
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
  // gzip may inflate, so a lie of this size is found out only by reading.
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
  flipped[10] = '\x07';  // a block of a reserved type
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

TEST_CASE("a data set is found by directory, in either spelling", "[data]") {
  const TemporaryDirectory directory;
  write_mnist(directory, "dashes/");
  write_mnist(directory, "dots/", ".");
  for (const char* folder : {"dashes", "dots"}) {
    const Datasets sets = find_dataset((directory.path() / folder).string());
    REQUIRE(sets.train.size() == 5);
    REQUIRE(sets.test["images"].shape() == Shape{2, 1, 2, 3});
    REQUIRE(sets.train.field("labels").classes == 5);
    REQUIRE(sets.train.about == "no class 2, 3, 4 in the test");
  }
  write_mnist(directory, "bad/", "-", 4);
  REQUIRE_ERROR(load_mnist(directory.path() / "bad", Split::train), "has 5 images but");
  fs::remove(directory.path() / "dots/t10k-labels.idx1-ubyte.gz");
  REQUIRE_ERROR(find_dataset((directory.path() / "dots").string()),
                "no t10k-labels-idx1-ubyte in '" + (directory.path() / "dots").string());
  directory.write("dashes/t10k-images-idx3-ubyte.gz", gzip(idx({2, 1, 1}, "ab")));
  REQUIRE_ERROR(find_dataset((directory.path() / "dashes").string()), "different data sets");
}

TEST_CASE("IDX files may have any number of classes, from 0 or from 1", "[data]") {
  const TemporaryDirectory directory;
  const auto write = [&](const std::string& beginning, int first, int last) {
    std::string values;
    for (int label = first; label <= last; ++label) values += static_cast<char>(label);
    const auto count = static_cast<uint32_t>(values.size());
    for (const char* split : {"train", "test"}) {
      directory.write(beginning + split + "-images-idx3-ubyte", images(count));
      directory.write(beginning + split + "-labels-idx1-ubyte", idx({count}, values));
    }
    return find_dataset((directory.path() / beginning).parent_path().string()).train;
  };
  const Dataset letters = write("letters/emnist-letters-", 1, 26);
  const Field& labels = letters.field("labels");
  REQUIRE(labels.classes == 26);
  REQUIRE(labels.values.span<int32_t>()[0] == 0);
  REQUIRE(labels.values.span<int32_t>()[25] == 25);
  REQUIRE(labels.class_name(25) == "26");
  REQUIRE(letters.about == "labels 1 to 26 are the classes");
  const Dataset balanced = write("balanced/", 0, 46);
  REQUIRE(balanced.field("labels").classes == 47);
  REQUIRE(balanced.field("labels").class_name(46) == "46");
  REQUIRE(balanced.about.empty());
  REQUIRE_ERROR(write("one/", 7, 7), "all labels for training are 7, which teaches nothing");
  REQUIRE_ERROR(write("gaps/", 200, 202), "the labels go up to 202, but only 3 different ones");
  write("letters/emnist-letters-", 1, 3);
  REQUIRE_ERROR(write("letters/emnist-mnist-", 0, 3),
                "several sets of IDX files, emnist-letters-train-images-idx3-ubyte, emnist-mnist-");
}

TEST_CASE("a data set is found by name in and under the data directory", "[data]") {
  const TemporaryDirectory directory;
  write_mnist(directory, "fashion-mnist/");
  const Datasets under = find_dataset("fashion", directory.path());
  REQUIRE(under.train.name == "fashion");
  REQUIRE(under.train.source == (directory.path() / "fashion-mnist").string());
  const Datasets in = find_dataset("fashion", directory.path() / "fashion-mnist");
  REQUIRE(in.test.source == under.test.source);

  REQUIRE_ERROR(find_dataset("imagenet"), "neither a data set nor a directory");
  const TemporaryDirectory empty;
  for (const std::string& place :
       {empty.path().string() + "/mnist", empty.path().string(), std::string("data/mnist"),
        std::string(".cache/accrue/MNIST/raw")}) {
    try {
      find_dataset("mnist", empty.path());  // may exist on this machine in the usual places
    } catch (const Error& error) {
      REQUIRE_THAT(error.what(), ContainsSubstring(place + "'"));
    }
  }
}

TEST_CASE("the shape of a data set charges the meta ledger the same", "[data]") {
  const TemporaryDirectory directory;
  write_mnist(directory, "");
  const Usage before = ledger(Device::cpu).current();
  const Dataset set = load_mnist(directory.path(), Split::train);
  const Dataset shape = set.to(Device::meta);
  const size_t measured = ledger(Device::cpu).current()[Category::data] - before[Category::data];
  REQUIRE(measured > 0);
  REQUIRE(ledger(Device::meta).current()[Category::data] == measured);
}

TEST_CASE("MNIST and Fashion-MNIST", "[.real-data]") {
  const char* given = std::getenv("ACCRUE_TEST_DATA");
  const fs::path data = given ? given : fs::path(source_folder) / "../shared/data";
  if (!fs::exists(data / "mnist") || !fs::exists(data / "fashion-mnist"))
    SKIP_LOUDLY("no mnist and fashion-mnist in " << data << "; set ACCRUE_TEST_DATA");
  for (const char* name : {"mnist", "fashion"}) {
    const Datasets sets = find_dataset(name, data);
    REQUIRE(sets.train["images"].shape() == Shape{60'000, 1, 28, 28});
    REQUIRE(sets.test["images"].shape() == Shape{10'000, 1, 28, 28});
    std::vector<int> counts(10);
    for (const int32_t label : sets.test["labels"].span<int32_t>()) ++counts[label];
    if (std::string(name) == "fashion") REQUIRE(counts == std::vector(10, 1000));
    else REQUIRE(counts == std::vector{980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009});
  }
}

}  // namespace accrue::test
