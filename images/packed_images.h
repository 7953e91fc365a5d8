#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "images/image_folder.h"
#include "images/mnist.h"

namespace accrue {

// The findings in a directory whose files hold many images each: IDX, or CIFAR-10's.
struct PackedImages {
  // Some images and labels of one split that belong together.
  struct Part {
    Split split;
    Dataset data;
  };
  enum class Format { idx, cifar10 } format;
  std::vector<Part> parts{};   // that can be read
  std::vector<BadFile> bad{};  // or missing

  // Images of a class in a split.
  int64_t count(int64_t label, Split split) const;
  int64_t count(Split split) const;
  int64_t classes() const;
};

// Reads all such files in a directory, each by itself, as load_mnist() and load_cifar10() do;
// returns nothing if it has none.
std::optional<PackedImages> find_packed_images(const std::filesystem::path& directory);

}  // namespace accrue
