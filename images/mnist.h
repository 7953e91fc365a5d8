#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "core/inside.h"
#include "images/image_folder.h"

namespace accrue {

// The directory in which find_dataset() finds mnist or fashion; nothing for another name, or if it
// is in none.
std::optional<std::filesystem::path> find_mnist(const std::string& name,
                                                const std::filesystem::path& data_dir = {});

// The same directory, or an Error with the places that were searched.
std::filesystem::path mnist_directory(const std::string& name,
                                      const std::filesystem::path& data_dir);

// True if there is a file by the name of MNIST's training images.
bool holds_mnist(const std::filesystem::path& directory);

// One of the four files of MNIST: `what` is images or labels. Throws Error, with the names that it
// may have, if there is none, or if there are several sets.
std::filesystem::path find_mnist_file(const std::filesystem::path& directory, Split split,
                                      const std::string& what);

// MNIST or a set in its format (Fashion-MNIST, KMNIST, EMNIST) from a directory with
// train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte;
// also spelt train-images.idx3-ubyte, with .gz, with test for t10k, and all with one beginning
// (emnist-letters-train-images-idx3-ubyte). The labels of both splits say how many classes there
// are: they count from 0, or from 1 if no label is 0; then the classes have the labels for names.
// Throws Error when a file is missing or bad, when images and labels differ in number, and when
// most of more than ten classes do not occur, as in damaged files.
Dataset load_mnist(const std::filesystem::path& directory, Split split);

// Both splits, under this name. Throws Error also if their images differ in size, and if all labels
// for training are one, unless that is allowed.
Datasets load_mnist(const std::filesystem::path& directory, const std::string& name,
                    OneClass one_class);

}  // namespace accrue
