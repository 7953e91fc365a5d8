#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/inside.h"
#include "images/folder_tree.h"
#include "images/image_folder.h"

namespace accrue {

// The layouts that find_images() knows. Each looks at the names in a folder and returns what it
// became, or nothing if the folder is laid out in another way. It throws Error for what is its
// layout, but could mean several things.

// DIR/images and DIR/masks, or other names that people use; they are nested alike. Images and masks
// have the same names, but for words such as _mask. VOC's ImageSets/Segmentation/*.txt say which
// images are used, and for what.
std::optional<ImageFolder> find_mask_folders(const FolderTree& tree);
// x.png beside x_mask.png, here or in the folders below.
std::optional<ImageFolder> find_masks_beside(const FolderTree& tree);
// A CSV of run lengths.
std::optional<ImageFolder> find_run_lengths(const FolderTree& tree);
// A CSV of the images' classes. Guess::yes takes one of two columns, too, if the name of one alone
// is known, unless there are folders that may be classes.
enum class Guess { no, yes };
std::optional<ImageFolder> find_labels(const FolderTree& tree, Guess guess);

// What a name in a folder, a list or a column says its images are for: seg_train, Testing, val.
enum class SetPart { train, test, validation };
std::optional<SetPart> part_named(const std::string& name);
// The parts that are used: the only one for training, and the first for the test, or else for
// validation, by their numbers among the names. Nothing unless every name is a part's, and one for
// training.
struct SetParts {
  size_t train;
  std::optional<size_t> test;
  std::vector<size_t> unused;
};
std::optional<SetParts> parts_of(const std::vector<std::string>& names);

// Divides the samples by the folders of `root` that they lie in, if all of these are called by
// parts. Returns those that are not used: all but one for the test, and those without samples.
std::vector<std::string> divide_by_folders(ImageFolder& found, const std::filesystem::path& root);

// A path as it is named within the folder.
std::string within(const std::filesystem::path& directory, const std::filesystem::path& path);

}  // namespace accrue
