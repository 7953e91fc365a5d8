#include "images/find_dataset.h"

#include "images/cifar.h"
#include "images/digits.h"
#include "images/mnist.h"
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
  if (holds_mnist(name)) return load_mnist(name, name, images.one_class);
  return holds_cifar10(name) ? load_cifar10(name) : load_images(name, images);
}

bool holds_image_set(const std::filesystem::path& directory) {
  return holds_mnist(directory) || holds_cifar10(directory);
}

}  // namespace accrue
