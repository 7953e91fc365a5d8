#include "data/dataset.h"

#include <fmt/ranges.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "data/cifar.h"
#include "data/digits.h"
#include "data/glyphs.h"
#include "data/idx.h"
#include "data/image_folder.h"
#include "data/shapes.h"
#include "data/strokes.h"

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

// Not $HOME: what is found must not depend on the environment.
fs::path home() {
  const passwd* user = ::getpwuid(::getuid());
  return user && user->pw_dir ? user->pw_dir : "/";
}

std::vector<fs::path> places(const std::string& name, const fs::path& data_dir) {
  const std::vector<std::string> folders =
      name == "mnist" ? std::vector<std::string>{"mnist", "MNIST/raw"}
                      : std::vector<std::string>{"fashion", "fashion-mnist", "FashionMNIST/raw"};
  std::vector<fs::path> found;
  const auto add_folders_of = [&](const fs::path& base) {
    for (const std::string& folder : folders) found.push_back(base / folder);
  };
  if (!data_dir.empty()) {
    add_folders_of(data_dir);
    // The files of mnist and fashion have the same names: only a directory that the user gave is
    // taken at its word, any other must be named after the data set.
    found.push_back(data_dir);
  }
  add_folders_of("data");
  add_folders_of(home() / ".cache/accrue");
  return found;
}

Datasets load_both(const fs::path& directory, const std::string& name) {
  Datasets sets{load_mnist(directory, Split::train), load_mnist(directory, Split::test)};
  const Shape& train = sets.train["images"].shape();
  const Shape& test = sets.test["images"].shape();
  check(train == test.with(0, sets.train.size()),
        "'{}': the training images are {} but the test images {}; they belong to different data "
        "sets",
        directory.string(), train, test);
  sets.train.name = sets.test.name = name;
  return sets;
}

}  // namespace

fs::path find_mnist_file(const fs::path& directory, Split split, const std::string& what) {
  return require_file(directory, fmt::format("{}-{}", prefix(split), what),
                      what == "images" ? "idx3-ubyte" : "idx1-ubyte");
}

bool holds_mnist(const fs::path& directory) {
  return first_existing(spellings(directory, "train-images", "idx3-ubyte")).has_value();
}

Dataset load_mnist(const fs::path& directory, Split split) {
  constexpr int64_t classes = 10;
  const MemoryScope scope(split == Split::train ? "training data" : "test data");
  const fs::path images_path = find_mnist_file(directory, split, "images");
  const fs::path labels_path = find_mnist_file(directory, split, "labels");
  Dataset dataset{directory.string(), directory.string()};
  dataset.fields = {{"images", read_idx_images(images_path), Encoding::pixel},
                    {"labels", read_idx_labels(labels_path, classes), Encoding::index, classes}};
  const int64_t labels = dataset["labels"].size(0);
  check(labels == dataset.size(),
        "'{}' has {} images but '{}' has {} labels; they belong to different data sets",
        images_path.string(), dataset.size(), labels_path.string(), labels);
  return dataset;
}

Datasets find_dataset(const std::string& name, const fs::path& data_dir, int64_t side,
                      const ImageFolderOptions& images) {
  if (name == "digits") return {make_digits(Split::train), make_digits(Split::test)};
  if (name == "shapes") return {make_shapes(Split::train), make_shapes(Split::test)};
  if (name == "strokes") {
    const BuiltInOptions options{.train_size = 2000, .test_size = 200, .side = side};
    return {make_strokes(Split::train, options), make_strokes(Split::test, options)};
  }
  if (name != "mnist" && name != "fashion") {
    std::error_code ignored;
    check(fs::is_directory(name, ignored),
          "'{}' is neither a data set nor a directory: expected mnist, fashion, digits, shapes, "
          "strokes, or a directory of images, of glyphs or of files in MNIST's format",
          name);
    if (holds_glyphs(name)) return load_glyphs(name);
    if (holds_mnist(name)) return load_both(name, name);
    return holds_cifar10(name) ? load_cifar10(name) : load_images(name, images);
  }
  const auto searched = places(name, data_dir);
  const auto place = std::ranges::find_if(searched, holds_mnist);
  if (place != searched.end()) return load_both(*place, name);
  std::vector<std::string> names;
  for (const fs::path& path : searched) names.push_back(fmt::format("'{}'", path.string()));
  fail(
      "the data set {} was not found: no train-images-idx3-ubyte[.gz] in {}; expected its "
      "directory (--data-dir), {}or the built-in digits",
      name, fmt::join(names, ", "),
      name == "mnist" ? "scripts/fetch_mnist.sh to download it, " : "");
}

bool Dataset::has(std::string_view field) const {
  return std::ranges::find(fields, field, &Field::name) != fields.end();
}

const Field& Dataset::field(std::string_view field) const {
  const auto found = std::ranges::find(fields, field, &Field::name);
  if (found != fields.end()) return *found;
  std::vector<std::string> names;
  for (const Field& known : fields) names.push_back(known.name);
  fail("data set '{}' has no {}: it has {}", name, field, fmt::join(names, ", "));
}

void Dataset::check_fields() const {
  check(!fields.empty(), "data set '{}' has no fields: expected what a sample consists of", name);
  for (const Field& field : fields)
    check(field.values.defined() && field.values.shape().rank() > 0 &&
              field.values.dtype() == stored_dtype(field.encoding) &&
              field.values.size(0) == size() && field.values.device() == device(),
          "data set '{}': {} are {} {}, expected {} of {} samples, on the device of {}", name,
          field.name, accrue::name(field.values.dtype()), field.values.shape(),
          accrue::name(stored_dtype(field.encoding)), size(), fields.front().name);
}

Shape Field::shape_of(int64_t n) const {
  const Shape all = values.shape().with(0, n);
  return crop ? all.with(2, crop->height).with(3, crop->width) : all;
}

void Dataset::crop_to(ImageSize size) {
  for (Field& field : fields) {
    const Shape& shape = field.values.shape();
    if (shape.rank() != 4) continue;
    check(size.height <= shape[2] && size.width <= shape[3],
          "crops of {}x{} from the {} of data set '{}', which are {}x{}: expected crops no larger",
          size.height, size.width, field.name, name, shape[2], shape[3]);
    field.crop = size;
  }
}

std::string Field::class_name(int64_t k) const {
  const auto i = static_cast<size_t>(k);
  if (!class_names.empty()) return class_names.at(i);
  return fmt::format("{}", class_values.empty() ? k : int64_t{class_values.at(i)});
}

std::string Dataset::sample_name(int64_t n, int digits) const {
  return names.empty() ? fmt::format("{:0{}}", n, digits) : names.at(static_cast<size_t>(n));
}

bool Dataset::is_streamed() const {
  return augmentation.is_any() ||
         std::ranges::any_of(fields, [](const Field& field) { return field.read || field.crop; });
}

Dataset Dataset::to(Device device) const {
  if (is_streamed()) device = is_meta(device) ? Device::meta : Device::cpu;
  Dataset copy = *this;
  for (Field& field : copy.fields) {
    Tensor& values = field.values;
    if (values.device() == device) continue;
    values = field.read ? Tensor::without_elements(values.shape(), values.dtype(), device)
                        : values.to(device);
  }
  return copy;
}

size_t Dataset::bytes() const {
  size_t sum = 0;
  for (const Field& field : fields)
    if (!field.read) sum += field.values.bytes();
  return sum;
}

}  // namespace accrue
