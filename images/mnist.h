#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "core/inside.h"
#include "images/image_folder.h"

namespace accrue {

// The directory in which find_dataset() finds mnist or fashion; nothing for another name, or if no
// directory has the files.
std::optional<std::filesystem::path> find_mnist(const std::string& name,
                                                const std::filesystem::path& data_dir = {});

// The same directory. Throws Error, with the places that were searched, if there is none.
std::filesystem::path mnist_directory(const std::string& name,
                                      const std::filesystem::path& data_dir);

// True if the directory has a file with a name of MNIST's training images.
bool holds_mnist(const std::filesystem::path& directory);

// One of the four files of MNIST; `what` is "images" or "labels". Throws Error, with the names that
// the file may have, if there is none, and if there are several sets.
std::filesystem::path find_mnist_file(const std::filesystem::path& directory, Split split,
                                      const std::string& what);

// MNIST or a set in its format (Fashion-MNIST, KMNIST, EMNIST) from a directory with
// train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte.
// The names may also be spelt train-images.idx3-ubyte, end in .gz, have test for t10k, and all
// begin with the same prefix (emnist-letters-train-images-idx3-ubyte). The labels of both splits
// give the number of classes. They count from 0, or from 1 if the smallest label is 1; then the
// classes have the labels as names. Throws Error if a file is missing or bad, if the numbers of
// images and labels differ, and if most of more than ten classes do not occur, as in damaged files.
Dataset load_mnist(const std::filesystem::path& directory, Split split);

// Both splits, as a data set of this name. Throws Error also if their images differ in size, and if
// all training labels are the same, unless `one_class` allows it.
Datasets load_mnist(const std::filesystem::path& directory, const std::string& name,
                    OneClass one_class);

}  // namespace accrue
