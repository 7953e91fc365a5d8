#include "images/cifar.h"

#include <algorithm>

#include "data/byte_stream.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

constexpr int64_t cifar_side = 32, cifar_channels = 3, cifar_classes = 10, most_batches = 5;
constexpr int64_t cifar_pixels = cifar_channels * cifar_side * cifar_side;

fs::path cifar_batch(const fs::path& directory, int64_t number) {
  return directory / fmt::format("data_batch_{}.bin", number);
}

int64_t images_in(const InputFile& file) {
  constexpr uint64_t record = cifar_pixels + 1;
  check(file.size() > 0 && file.size() % record == 0,
        "'{}' has {} bytes, expected a multiple of {}: a class and {} pixels of each image",
        file.path().string(), file.size(), record, cifar_pixels);
  return static_cast<int64_t>(file.size() / record);
}

Dataset load_batches(const fs::path& directory, const std::vector<fs::path>& paths, Split split) {
  const MemoryScope scope(split == Split::train ? "training data" : "test data");
  int64_t N = 0;
  for (const fs::path& path : paths) N += images_in(InputFile(path));
  const Tensor all_images = Tensor::empty({N, cifar_channels, cifar_side, cifar_side}, DType::u8,
                                          Device::cpu, Category::data),
               all_labels = Tensor::empty({N}, DType::i32, Device::cpu, Category::data);
  const auto images = all_images.span<uint8_t>();
  const auto labels = all_labels.span<int32_t>();
  size_t sample = 0;
  for (const fs::path& path : paths) {
    InputFile file(path);
    for (int64_t n = images_in(file); n > 0; --n, ++sample) {
      uint8_t label = 0;
      const auto image = images.subspan(sample * cifar_pixels, cifar_pixels);
      check(file.read(std::as_writable_bytes(std::span(&label, 1))) == 1 &&
                file.read(std::as_writable_bytes(image)) == image.size(),
            "'{}' shrank while it was read", path.string());
      check(label < cifar_classes, "'{}': an image is of class {}, expected 0 to {}", path.string(),
            label, cifar_classes - 1);
      labels[sample] = label;
    }
  }
  return {directory.string(),
          directory.string(),
          {{"images", all_images, Encoding::pixel},
           {"labels", all_labels, Encoding::index, cifar_classes}}};
}

}  // namespace

bool holds_cifar10(const fs::path& directory) {
  std::error_code ignored;
  return fs::exists(cifar_batch(directory, 1), ignored);
}

std::vector<fs::path> cifar10_batches(const fs::path& directory) {
  std::vector<fs::path> batches;
  std::error_code ignored;
  for (int64_t number = 1; number <= most_batches; ++number)
    if (const fs::path path = cifar_batch(directory, number); fs::exists(path, ignored))
      batches.push_back(path);
  return batches;
}

fs::path cifar10_test_batch(const fs::path& directory) { return directory / "test_batch.bin"; }

Datasets load_cifar10(const fs::path& directory) {
  return {load_batches(directory, cifar10_batches(directory), Split::train),
          load_batches(directory, {cifar10_test_batch(directory)}, Split::test)};
}

Dataset read_cifar10_batch(const fs::path& path) {
  return load_batches(path.parent_path(), {path}, Split::train);
}

}  // namespace accrue
