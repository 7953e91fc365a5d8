#include "data/dataset.h"

#include <fmt/ranges.h>
#include <pwd.h>
#include <unistd.h>

#include <optional>
#include <vector>

#include "data/digits.h"
#include "data/idx.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

// The spellings under which one of the four files is found, e.g. "train-images" and "idx3-ubyte".
std::vector<fs::path> spellings(const fs::path& directory, const std::string& stem,
                                const std::string& format) {
  std::vector<fs::path> paths;
  for (const char* separator : {"-", "."})
    for (const char* suffix : {"", ".gz"})
      paths.push_back(directory / (stem + separator + format + suffix));
  return paths;
}

std::optional<fs::path> first_existing(const std::vector<fs::path>& paths) {
  std::error_code ignored;  // an unreachable directory is one without the file
  for (const fs::path& path : paths)
    if (fs::exists(path, ignored)) return path;
  return std::nullopt;
}

fs::path require_file(const fs::path& directory, const std::string& stem,
                      const std::string& format) {
  const auto path = first_existing(spellings(directory, stem, format));
  check(path.has_value(), "no {0}-{1} in '{2}' (nor {0}.{1}, nor with .gz)", stem, format,
        directory.string());
  return *path;
}

const char* prefix(Split split) { return split == Split::train ? "train" : "t10k"; }

bool holds_images(const fs::path& directory, Split split) {
  return first_existing(spellings(directory, fmt::format("{}-images", prefix(split)), "idx3-ubyte"))
      .has_value();
}

// Not $HOME: what is found must not depend on the environment.
fs::path home() {
  const passwd* user = ::getpwuid(::getuid());
  return user && user->pw_dir ? user->pw_dir : "/";
}

std::vector<fs::path> places(const std::string& name, const fs::path& data_dir) {
  const std::vector<std::string> folders =
      name == "mnist" ? std::vector<std::string>{"mnist", "MNIST/raw"}
                      : std::vector<std::string>{"fashion", "fashion-mnist", "FashionMNIST/raw"};
  // The files of mnist and fashion have the same names: only a directory that the user gave is
  // taken at its word, any other must be named after the data set.
  const std::vector<fs::path> bases = data_dir.empty()
                                          ? std::vector{fs::path("data"), home() / ".cache/accrue"}
                                          : std::vector{data_dir};
  std::vector<fs::path> found;
  for (const fs::path& base : bases)
    for (const std::string& folder : folders) found.push_back(base / folder);
  if (!data_dir.empty()) found.push_back(data_dir);
  return found;
}

}  // namespace

Dataset load_mnist(const fs::path& directory, Split split) {
  constexpr int64_t classes = 10;
  const std::string stem = prefix(split);
  const fs::path images_path = require_file(directory, stem + "-images", "idx3-ubyte");
  const fs::path labels_path = require_file(directory, stem + "-labels", "idx1-ubyte");
  Dataset dataset{directory.filename().string(), directory.string(), read_idx_images(images_path),
                  read_idx_labels(labels_path, classes), classes};
  check(dataset.images.size(0) == dataset.size(),
        "'{}' has {} images but '{}' has {} labels; they belong to different data sets",
        images_path.string(), dataset.images.size(0), labels_path.string(), dataset.size());
  return dataset;
}

Dataset find_dataset(const std::string& name, const fs::path& data_dir, Split split) {
  if (name == "digits") return make_digits(split);
  if (name != "mnist" && name != "fashion") {
    std::error_code ignored;
    check(fs::is_directory(name, ignored),
          "'{}' is neither a data set nor a directory: expected mnist, fashion, digits, or a "
          "directory with files in MNIST's format",
          name);
    return load_mnist(name, split);
  }
  const auto searched = places(name, data_dir);
  for (const fs::path& place : searched) {
    if (!holds_images(place, split)) continue;
    Dataset dataset = load_mnist(place, split);
    dataset.name = name;
    return dataset;
  }
  std::vector<std::string> names;
  for (const fs::path& place : searched) names.push_back(fmt::format("'{}'", place.string()));
  fail(
      "the data set {} was not found: no {}-images-idx3-ubyte[.gz] in {}; give its directory, or "
      "use the built-in 'digits'",
      name, prefix(split), fmt::join(names, ", "));
}

Dataset on_meta(const Dataset& dataset) {
  Dataset copy = dataset;
  copy.images = Tensor::empty(dataset.images.shape(), DType::u8, Device::meta, Category::data);
  copy.labels = Tensor::empty(dataset.labels.shape(), DType::i32, Device::meta, Category::data);
  return copy;
}

}  // namespace accrue
