// Weights on disk: safetensors, written atomically.

#include "data/safetensors.h"

#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "data/atomic_file.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/skipped.h"

namespace accrue::test {
namespace {

namespace fs = std::filesystem;

NamedTensors examples() {
  return {{"bytes", Tensor::from(std::vector<uint8_t>{1, 2, 255}, {3})},
          {"layer.weight", Tensor::from(std::vector<float>{1, -2, 3.5f, 0, 5, 6}, {2, 3})},
          {"double", Tensor::from(std::vector<double>{1e-300}, {})},
          {"index", Tensor::from(std::vector<int32_t>{-7, 7}, {2, 1})},
          {"none", Tensor::from(std::vector<float>{}, {0, 4})}};
}

// A file with this header, then `data_bytes` bytes.
std::string file(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header +
         std::string(data_bytes, '\1');
}

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory))
    names.push_back(entry.path().filename().string());
  return names;
}

NamedTensors big() {
  return {{"big", Tensor::full({1 << 20}, 1, DType::f32, Device::cpu, Category::data)}};
}

// While alive, this process can write no file above a size. It stands in for a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

}  // namespace

TEST_CASE("safetensors come back as they were written", "[data]") {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "weights.safetensors";
  const Metadata texts{{"format", "pt"}, {"note", "\"quoted\" \xc3\xa9"}};
  write_safetensors(path, examples(), texts);
  Metadata read_texts;
  NamedTensors read = read_safetensors(path, Category::data, &read_texts);
  REQUIRE(read_texts == texts);
  REQUIRE(read.size() == 5);
  for (const auto& [name, tensor] : examples()) {
    INFO(name);
    const auto found = std::ranges::find(read, name, &std::pair<std::string, Tensor>::first);
    REQUIRE(found != read.end());
    REQUIRE(found->second.shape() == tensor.shape());
    REQUIRE(found->second.dtype() == tensor.dtype());
    REQUIRE((tensor.bytes() == 0 ||
             std::memcmp(found->second.view().data, tensor.view().data, tensor.bytes()) == 0));
  }
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, read_file(path).data(), 8);
  REQUIRE(header_bytes % 8 == 0);
  REQUIRE(names_in(directory.path()) == std::vector<std::string>{"weights.safetensors"});
  write_safetensors(path, {});  // overwrites
  REQUIRE(read_safetensors(path).empty());
}

TEST_CASE("tensors that cannot be saved are refused", "[data]") {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "w";
  const Tensor x = examples()[0].second;
  REQUIRE_ERROR(write_safetensors(path, {{"a", x}, {"a", x}}), "'a': the name is used twice");
  REQUIRE_ERROR(write_safetensors(path, {{"", x}}), "not allowed");
  REQUIRE_ERROR(write_safetensors(path, {{"__metadata__", x}}), "not allowed");
  REQUIRE_ERROR(write_safetensors(path, {{"\xff", x}}), "not UTF-8");
  REQUIRE_ERROR(write_safetensors(path, {{"a", Tensor()}}), "no elements on the cpu");
  REQUIRE_ERROR(write_safetensors(path, {{"a", Tensor::empty({2}, DType::f32, Device::meta)}}),
                "no elements on the cpu");
  REQUIRE(names_in(directory.path()).empty());
}

TEST_CASE("a file's metadata is read even if tensors have unknown types", "[data]") {
  const TemporaryDirectory directory;
  // PyTorch counts the batches of a BatchNorm in i64.
  const auto path =
      directory.write("w", file(R"({"__metadata__":{"format":"pt"},)"
                                R"("n":{"dtype":"I64","shape":[],"data_offsets":[0,8]}})",
                                8));
  REQUIRE(read_safetensors_metadata(path) == Metadata{{"format", "pt"}});
  REQUIRE_ERROR(read_safetensors_header(path), "has dtype I64");
}

TEST_CASE("malformed safetensors are refused before anything is allocated", "[data]") {
  const TemporaryDirectory directory;
  ledger(Device::cpu).reset_peak();
  const Usage before = ledger(Device::cpu).peak();
  const auto read = [&](const std::string& content) {
    return read_safetensors(directory.write("w.safetensors", content));
  };
  const auto entry = [](const std::string& dtype, const std::string& shape,
                        const std::string& offsets) {
    return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets +
           "}";
  };
  const auto one = [&](const std::string& value, size_t bytes) {
    return file(R"({"a":)" + value + "}", bytes);
  };
  const std::string good = one(entry("F32", "[2]", "[0,8]"), 8);
  REQUIRE(read(good).size() == 1);
  ledger(Device::cpu).reset_peak();

  REQUIRE_ERROR(read(""), "is empty");
  REQUIRE_ERROR(read("short"), "at least 8 bytes, found 5");
  REQUIRE_ERROR(read(std::string(8, '\xff') + "{}"), "but only 2 follow");
  REQUIRE_ERROR(read(good.substr(0, 30)), "but only 22 follow");
  REQUIRE_ERROR(read(good.substr(0, good.size() - 1)), "not within the 7 bytes of data");
  REQUIRE_ERROR(read(good + "x"), "end at byte 8 of 9");
  REQUIRE_ERROR(read(file(std::string(17 << 20, ' '), 0)), "above the limit");
  REQUIRE_ERROR(read(file("[]", 0)), "does not start with '{'");
  REQUIRE_ERROR(read(file("{\"a\":", 0)), "not JSON");
  REQUIRE_ERROR(read(file("{\"\xff\":1}", 0)), "not JSON");
  REQUIRE_ERROR(read(file(std::string("{}\0<html>", 9), 0)), "not JSON: its byte 2 is 0");
  REQUIRE_ERROR(read(file("{\"a\":" + std::string(100'000, '['), 0)), "nested too deeply");
  REQUIRE_ERROR(read(one("3", 0)), "expected dtype, shape and data_offsets");
  REQUIRE_ERROR(read(one("{}", 0)), "expected dtype, shape and data_offsets");
  REQUIRE_ERROR(read(one(entry("I64", "[2]", "[0,16]"), 16)), "has dtype I64; accrue reads F32");
  REQUIRE_ERROR(read(one(entry("F32", "2", "[0,8]"), 8)), "has no shape");
  REQUIRE_ERROR(read(one(entry("F32", "[-2]", "[0,8]"), 8)), "the shape of tensor 'a' is [-2]");
  REQUIRE_ERROR(read(one(entry("F32", "[2.0]", "[0,8]"), 8)), "the shape of tensor 'a'");
  REQUIRE_ERROR(read(one(entry("F32", "[4294967296,4294967296,4294967296]", "[0,8]"), 8)),
                "the shape of tensor 'a'");
  REQUIRE_ERROR(read(one(entry("F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]"), 8)), "9 dimensions");
  REQUIRE_ERROR(read(one(entry("F32", "[3]", "[0,8]"), 8)), "takes 12 bytes, but data_offsets");
  REQUIRE_ERROR(read(one(entry("F32", "[2]", "[8,0]"), 8)), "not within");
  REQUIRE_ERROR(read(one(entry("F32", "[2]", "[0]"), 8)), "expected data_offsets [begin, end]");
  REQUIRE_ERROR(read(one(entry("F32", "[2]", "[0,-8]"), 8)), "expected data_offsets");
  REQUIRE_ERROR(read(one(entry("F32", "[2]", "[1,9]"), 9)), "bytes 0 to 1 of the data");

  const std::string a = R"("a":)" + entry("U8", "[4]", "[0,4]");
  REQUIRE_ERROR(read(file("{" + a + "," + a + "}", 4)), "'a' stands twice");
  REQUIRE_ERROR(read(file("{" + a + R"(,"b":)" + entry("U8", "[4]", "[2,6]") + "}", 6)),
                "tensor 'b' at 2 overlaps");
  REQUIRE_ERROR(read(file("{" + a + R"(,"b":)" + entry("U8", "[2]", "[6,8]") + "}", 8)),
                "bytes 4 to 6 of the data");
  REQUIRE_ERROR(read(file(R"({"__metadata__":{"n":1}})", 0)), "'n' is not a text");
  REQUIRE(ledger(Device::cpu).peak().bytes == before.bytes);
  REQUIRE_ERROR(read_safetensors(directory.path() / "none"), "No such file");
  REQUIRE_ERROR(read_safetensors(directory.path()), "is a directory");
}

TEST_CASE("a failed save leaves the old file and no temporary", "[data]") {
  const TemporaryDirectory directory;
  const auto path = directory.write("w.safetensors", "old");
  {
    const FileSizeLimit limit(1 << 20);
    REQUIRE_ERROR(write_safetensors(path, big()), "writing failed: File too large");
  }
  REQUIRE(read_file(path) == "old");
  REQUIRE(names_in(directory.path()) == std::vector<std::string>{"w.safetensors"});
  { AtomicFile(path).write(std::as_bytes(std::span("new"))); }  // not committed
  REQUIRE(read_file(path) == "old");
  REQUIRE(names_in(directory.path()) == std::vector<std::string>{"w.safetensors"});
  REQUIRE_ERROR(write_safetensors(directory.path() / "none/w", {}), "No such file");
  REQUIRE_ERROR(write_safetensors(directory.path(), {}), "it is a directory");
  const auto pipe = directory.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  REQUIRE_ERROR(write_safetensors(pipe, {}), "not a regular file");
}

TEST_CASE("a save through a symbolic link writes what it points to", "[data]") {
  const TemporaryDirectory directory;
  directory.write("real/w", "old");
  fs::create_symlink("real/w", directory.path() / "link");
  write_text_atomically(directory.path() / "link", "new");
  REQUIRE(fs::is_symlink(directory.path() / "link"));
  REQUIRE(read_file(directory.path() / "real/w") == "new");
}

TEST_CASE("a full disk", "[.full-disk]") {
  const TemporaryDirectory directory;
  if (::mount("tmpfs", directory.path().c_str(), "tmpfs", 0, "size=1m") != 0)
    SKIP_LOUDLY("mounting a small file system needs root");
  const auto path = directory.write("w.safetensors", "old");
  std::string message;
  try {
    write_safetensors(path, big());
  } catch (const Error& error) {
    message = error.what();
  }
  const std::string content = read_file(path);
  const auto names = names_in(directory.path());
  ::umount(directory.path().c_str());
  REQUIRE_THAT(message, ContainsSubstring("No space left on device (the disk is full)"));
  REQUIRE(content == "old");
  REQUIRE(names == std::vector<std::string>{"w.safetensors"});
}

}  // namespace accrue::test
