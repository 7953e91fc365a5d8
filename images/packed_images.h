#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "images/image_folder.h"
#include "images/mnist.h"

namespace accrue {

// The findings in a directory whose files hold many images each.
struct PackedImages {
  // Images of one split with their labels.
  struct Part {
    Split split;
    Dataset data;
  };
  const char* format;          // in words: "IDX files"
  std::vector<Part> parts{};   // without the bad files
  std::vector<BadFile> bad{};  // also missing files

  // The number of images of a class in a split.
  int64_t count(int64_t label, Split split) const;
  int64_t count(Split split) const;
  int64_t classes() const;
};

// A format of such files: IDX (images/mnist.h), or CIFAR-10's (images/cifar.h).
struct PackedFormat {
  // True if the directory has the format's first file.
  bool (*is_in)(const std::filesystem::path& directory);
  // Throws Error as load_mnist() and load_cifar10() do.
  Datasets (*load)(const std::filesystem::path& directory, OneClass one_class);
  // Reads all files of the format, each by itself; returns nothing if there are none.
  std::optional<PackedImages> (*find)(const std::filesystem::path& directory);
};

// The format of the files in a directory; null if they have neither.
const PackedFormat* packed_format_of(const std::filesystem::path& directory);
// The result of PackedFormat::find() for the first format that has a file in the directory.
std::optional<PackedImages> find_packed_images(const std::filesystem::path& directory);

}  // namespace accrue
