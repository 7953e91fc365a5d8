#include "images/find_dataset.h"

#include "images/digits.h"
#include "images/mnist.h"
#include "images/packed_images.h"
#include "images/shapes.h"

namespace accrue {

Datasets find_dataset(const std::string& name, const std::filesystem::path& data_dir,
                      const ImageFolderOptions& images) {
  if (name == "digits") return {make_digits(Split::train), make_digits(Split::test)};
  if (name == "shapes") return {make_shapes(Split::train), make_shapes(Split::test)};
  if (name == "mnist" || name == "fashion")
    return load_mnist(mnist_directory(name, data_dir), name, images.one_class);
  std::error_code ignored;
  check(std::filesystem::is_directory(name, ignored),
        "'{}' is neither a data set nor a directory: expected mnist, fashion, digits, shapes, or a "
        "directory of images or of files in MNIST's format",
        name);
  const PackedFormat* const format = packed_format_of(name);
  return format ? format->load(name, images.one_class) : load_images(name, images);
}

bool detail::holds_image_set(const std::filesystem::path& directory) {
  return packed_format_of(directory) != nullptr;
}

}  // namespace accrue
