#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/inside.h"
#include "images/folder_tree.h"
#include "images/image_folder.h"

namespace accrue {

// The layouts that find_images() knows. Each function looks at the names in a folder and returns
// the samples, or nothing if the folder has another layout. It throws Error for a folder of its
// layout whose names could mean several things.

// DIR/images and DIR/masks, or other usual names; the folders inside both are the same. A mask has
// the name of its image, with or without a word such as _mask. VOC's ImageSets/Segmentation/*.txt
// list the images that are used, for training and for the test.
std::optional<ImageFolder> find_mask_folders(const FolderTree& tree);
// x.png beside x_mask.png, here or in the folders below.
std::optional<ImageFolder> find_masks_beside(const FolderTree& tree);
// A CSV of run lengths.
std::optional<ImageFolder> find_run_lengths(const FolderTree& tree);
// A CSV of the images' classes. Guess::yes also takes columns that are guessed
// (images/image_columns.h), unless there are folders that may be classes.
enum class Guess { no, yes };
std::optional<ImageFolder> find_labels(const FolderTree& tree, Guess guess);

// The part of a data set that a folder, a list or a column names: seg_train, Testing, val.
enum class SetPart { train, test, validation };
std::optional<SetPart> part_named(const std::string& name);
// The parts that are used, by their places among the names: the only one for training, and the
// first for the test or, without one, for validation. parts_of() returns nothing unless every name
// is a part's name and exactly one is for training.
struct SetParts {
  size_t train;
  std::optional<size_t> test;
  std::vector<size_t> unused;
};
std::optional<SetParts> parts_of(const std::vector<std::string>& names);

// Divides the samples by the folders of `root` that they lie in, if each such folder has a part's
// name. Leaves out the folders of parts that are not used, and returns their names: further folders
// for the test or validation, and folders with bad files only.
std::vector<std::string> divide_by_folders(ImageFolder& found, const std::filesystem::path& root);

// A path relative to the directory, with slashes.
std::string within(const std::filesystem::path& directory, const std::filesystem::path& path);

}  // namespace accrue
