#include "images/packed_images.h"

#include <algorithm>
#include <array>

#include "data/idx.h"
#include "images/cifar.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

// Returns the result of `read`. If it throws Error, adds that to `bad` and returns nothing.
template <class Read>
auto try_to(std::vector<BadFile>& bad, const fs::path& path, Read&& read)
    -> std::optional<decltype(read())> {
  try {
    return read();
  } catch (const Error& error) {
    bad.push_back({path, error.what()});
    return std::nullopt;
  }
}

bool holds_any_idx(const fs::path& directory) {
  std::vector<BadFile> missing;
  for (const Split split : {Split::train, Split::test})
    for (const char* what : {"images", "labels"})
      if (try_to(missing, directory, [&] { return find_mnist_file(directory, split, what); }))
        return true;
  return false;
}

void add_idx(PackedImages& found, const fs::path& directory, Split split) {
  const auto read = [&](const char* what, auto reader) {
    fs::path path = directory;
    return try_to(found.bad, path, [&] {
      path = find_mnist_file(directory, split, what);
      return reader(path);
    });
  };
  const auto images = read("images", read_idx_images);
  const auto labels = read("labels", read_idx_labels);
  if (!images || !labels) return;
  // Both can be read. load_mnist() checks that they belong together.
  if (auto data = try_to(found.bad, find_mnist_file(directory, split, "labels"),
                         [&] { return load_mnist(directory, split); }))
    found.parts.push_back({split, std::move(*data)});
}

void check_sizes(PackedImages& found, const fs::path& directory) {
  const auto size_of = [](const PackedImages::Part& part) {
    const Shape& shape = part.data["images"].shape();
    return ImageSize{shape[2], shape[3]};
  };
  if (found.parts.size() < 2 || size_of(found.parts[0]) == size_of(found.parts[1])) return;
  found.bad.push_back({find_mnist_file(directory, Split::test, "images"),
                       fmt::format("its images are {}, but the training images {}",
                                   height_by_width(size_of(found.parts[1])),
                                   height_by_width(size_of(found.parts[0])))});
}

void add_cifar10(PackedImages& found, const fs::path& path, Split split) {
  if (auto data = try_to(found.bad, path, [&] { return read_cifar10_batch(path); }))
    found.parts.push_back({split, std::move(*data)});
}

std::optional<PackedImages> find_idx(const fs::path& directory) {
  if (!holds_any_idx(directory)) return std::nullopt;
  PackedImages found{.format = "IDX files"};
  for (const Split split : {Split::train, Split::test}) add_idx(found, directory, split);
  check_sizes(found, directory);
  return found;
}

std::optional<PackedImages> find_cifar10(const fs::path& directory) {
  const std::vector<fs::path> batches = cifar10_batches(directory);
  const fs::path test = cifar10_test_batch(directory);
  std::error_code ignored;
  if (batches.empty() && !fs::exists(test, ignored)) return std::nullopt;
  PackedImages found{.format = "CIFAR-10's binary files"};
  if (!holds_cifar10(directory))
    found.bad.push_back({directory / "data_batch_1.bin", "it is not there"});
  for (const fs::path& path : batches) add_cifar10(found, path, Split::train);
  add_cifar10(found, test, Split::test);
  return found;
}

// The first format that fits a directory is taken.
constexpr std::array formats{
    PackedFormat{holds_mnist,
                 [](const fs::path& directory, OneClass one_class) {
                   return load_mnist(directory, directory.string(), one_class);
                 },
                 find_idx},
    PackedFormat{holds_cifar10,
                 [](const fs::path& directory, OneClass) { return load_cifar10(directory); },
                 find_cifar10}};

}  // namespace

int64_t PackedImages::count(int64_t label, Split split) const {
  int64_t images = 0;
  for (const Part& part : parts)
    if (part.split == split)
      images += std::ranges::count(part.data["labels"].span<int32_t>(), int32_t(label));
  return images;
}

int64_t PackedImages::count(Split split) const {
  int64_t images = 0;
  for (const Part& part : parts)
    if (part.split == split) images += part.data.size();
  return images;
}

int64_t PackedImages::classes() const {
  return parts.empty() ? 0 : parts.front().data.field("labels").classes;
}

const PackedFormat* packed_format_of(const fs::path& directory) {
  for (const PackedFormat& format : formats)
    if (format.is_in(directory)) return &format;
  return nullptr;
}

std::optional<PackedImages> find_packed_images(const fs::path& directory) {
  for (const PackedFormat& format : formats)
    if (auto found = format.find(directory)) return found;
  return std::nullopt;
}

}  // namespace accrue
