#pragma once

#include <filesystem>
#include <vector>

#include "data/dataset.h"

namespace accrue {

// The paths of data_batch_1.bin to data_batch_5.bin, in this order, without the files that the
// directory lacks.
std::vector<std::filesystem::path> cifar10_batches(const std::filesystem::path& directory);
// The path of test_batch.bin, whether it exists or not.
std::filesystem::path cifar10_test_batch(const std::filesystem::path& directory);

// True if the directory has data_batch_1.bin.
bool holds_cifar10(const std::filesystem::path& directory);

// CIFAR-10's binary version (https://www.cs.toronto.edu/~kriz/cifar.html): test_batch.bin, and for
// training the files from data_batch_1.bin to data_batch_5.bin that exist. An image is a byte for
// its class and three planes of 32x32. Throws Error, naming the file, if test_batch.bin is missing,
// and for a file that is empty, does not consist of whole images, or has a class above 9.
Datasets load_cifar10(const std::filesystem::path& directory);

// Reads one such file alone.
Dataset read_cifar10_batch(const std::filesystem::path& path);

}  // namespace accrue
