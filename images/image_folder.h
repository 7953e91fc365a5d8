#pragma once

#include <array>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "images/folder_tree.h"
#include "images/image_file.h"
#include "images/mask_values.h"
#include "images/run_lengths.h"

namespace accrue {

namespace detail {

// Whether to leave out samples whose files are damaged or do not fit each other.
enum class SkipBad { no, yes };

inline constexpr double usual_hold_out = 0.1;
// Whether a data set may have only one class. A network can be scored on such data and answer it,
// but not learn from it.
enum class OneClass { refused, allowed };

}  // namespace detail

// Options for making a data set of a folder of images (load_images()).
struct ImageFolderOptions {
  using OneClass = detail::OneClass;
  using SkipBad = detail::SkipBad;
  std::optional<detail::ImageSize> size{};  // to resize images to; without it all must have one
  // The share of images for the test, if the folder itself has no split; usual_hold_out if it is
  // not set. It must not be set for a folder that has a split.
  std::optional<double> hold_out{};
  int64_t channels = 1;  // at least; gray images repeat in each channel
  SkipBad skip_bad = SkipBad::no;
  // The value that masks have for pixels that nobody has judged. If it is set, each pixel has one
  // class, even if the masks have only two other values.
  std::optional<int64_t> unjudged_mask_value{};
  // True if each value in masks is meant as a class, even if few pixels have it.
  bool has_named_mask_values = false;
  OneClass one_class = OneClass::refused;
  // The most bytes of decoded images that are held in memory, both splits together. If there are
  // more, each image is read when it is needed.
  size_t most_held_bytes = std::numeric_limits<size_t>::max();
  size_t most_image_bytes =
      detail::usual_most_image_bytes;  // of one image, decoded; a larger one is bad
};

namespace detail {

// A sample of a folder of images. The names in the folder show its layout (docs/images.md), which
// is one of
//   DIR/CLASS/.../x.png         a folder for each class
//   DIR/images/x.jpg, DIR/masks/x.png (or x_mask.png), and VOC's folders and lists
//   DIR/.../x.png, DIR/.../x_mask.png
//   DIR/any.csv                 of run lengths (images/run_lengths.h) or classes
//                               (images/image_columns.h), with the images anywhere below
//   DIR/train/... and DIR/test/... (or val, valid, validation), each with one of these layouts
//   DIR/ONLY/...                with one of these layouts.
// Classes, labels and samples are sorted by name; classes that are all whole numbers are sorted by
// number.
struct FolderSample {
  std::filesystem::path image, mask{};  // the mask is empty if there is none
  int32_t label = 0;                    // the place of the class
  Split split = Split::train;
  std::vector<RunLengths> runs{};
};

struct ImageFolder {
  std::filesystem::path directory;
  enum class Answer { classes, masks, run_lengths, none } answer = Answer::classes;
  std::vector<std::string> classes{};  // their folders' names, or the labels of run lengths
  std::vector<FolderSample> samples{};
  // Bad files that the names show: the entries in FolderTree::bad, images without masks, folders
  // without images, and images that the layout has no place for.
  std::vector<BadFile> bad{};
  std::filesystem::path runs_file{};
  // An image that takes more bytes decoded is bad.
  size_t most_image_bytes = usual_most_image_bytes;
  std::set<std::filesystem::path> tables{};  // the CSVs and lists that it was read from
  // True if the folder itself says which samples are for the test.
  bool is_divided = false;
  // Files and folders that the layout does not use, such as a second folder for the test.
  std::set<std::filesystem::path> unused{};
  // FolderTree::ignored of all folders, and tables that nothing was read from.
  std::vector<std::filesystem::path> ignored{};
  // Remarks for the user on the meaning that the names were given, each in a few words.
  std::vector<std::string> notes{};
};

// Finds the layout and the samples of a directory; returns nothing if no layout fits. If the folder
// does not say which samples are for the test, hashes decide. A sample is held out if the hash of
// its image's path within the directory, as a fraction of all hashes, is below hold_out
// (usual_hold_out). So new images do not move the others between the splits. A class keeps at least
// one image for training. Each image in the directory becomes the image or the mask of a sample, or
// is in `bad` or `unused`. Throws Error for a path that is no directory, for a directory that two
// layouts fit, naming the path to use, for a hold_out if the folder says which samples are for the
// test, and as read_run_lengths() and read_labels() do.
std::optional<ImageFolder> find_images(const std::filesystem::path& directory,
                                       std::optional<double> hold_out = std::nullopt);
// Throws Error, which says that no layout fits a directory, and what the directory holds.
[[noreturn]] void refuse_layout(const std::filesystem::path& directory);

// The images in files and directories that a network is to answer, all with Split::test and
// Answer::none. A directory with masks, in files or in a CSV file, gives the images without the
// masks. Any other gives all images in it or below it. If a directory itself has a test split, it
// gives only that split; with `split`, it gives the split that is asked for. Its `directory` is the
// given one, or the one that all files lie in. Its `classes` are the classes that the layout shows,
// if any. Throws Error for a path that does not exist or comes twice, if there are no images, and
// for a `split` of a path that has none.
ImageFolder find_images_to_answer(const std::vector<std::filesystem::path>& paths,
                                  std::optional<Split> split,
                                  std::optional<double> hold_out = std::nullopt);
// Reads these images as load_images() does, into the field `images` alone.
Dataset load_images_to_answer(const ImageFolder& folder, const ImageFolderOptions& options);
// Reads each image at its own size. Returns a data set for each size, all with the same number of
// channels. Dataset::about of the first describes all images.
std::vector<Dataset> load_images_by_size(const ImageFolder& folder,
                                         const ImageFolderOptions& options);

}  // namespace detail

// Reads the samples of a directory, which are named by their images' paths within it. The fields
// are `images` (pixels [N, C, H, W], of 3 channels if any image has colours) and either `labels`
// (indices [N], the classes with their names) or `masks`. Masks whose values are 0 and one other
// become masks of 0 and 255 [N, 1, H, W]. Run lengths become such masks [N, K, H, W], with a plane
// for each label. Masks of other values become indices [N, 1, H, W]: class n is the n-th value, in
// ascending order, that occurs in the folder. If the options name a value for pixels that nobody
// has judged (Field::unjudged_value), all masks become indices.
// Every image is resized to the size of the options; without one, all must have the same size.
// Images and masks are held in memory. If they take more bytes than the options allow, they are
// streamed, and damage in them is found beforehand only if bad files are to be left out. Labels are
// always held.
// Throws Error unless there are samples for training and, if any are held out, for the test. Throws
// Error for training samples of one class or masks of one value, unless the options allow one
// class, and for masks of more than 64 values or of smoothed ones (images/mask_values.h). With
// SkipBad::no it throws Error for bad files, naming the first ones. With SkipBad::yes a class that
// has only bad files is left out as well.
Datasets load_images(const std::filesystem::path& directory, const ImageFolderOptions& options);

namespace detail {

// The content of a sample's files. The mask has the values in its file, or, for run lengths, a
// plane of 0 and 255 for each of the folder's labels; it is empty if there is none. Throws Error if
// a file is bad.
struct SampleImages {
  Image image, mask;
};
SampleImages read_sample(const ImageFolder& folder, const FolderSample& sample);
// Draws a sample's run lengths as planes of 0 and 255, for an image of this size. Throws Error,
// naming file and line, for bad runs.
Image draw_masks(const ImageFolder& folder, const FolderSample& sample, ImageSize size);

// The findings in the headers and masks of all samples.
struct ImageSurvey {
  std::vector<char> is_good{};     // of each sample
  std::vector<ImageSize> sizes{};  // of each sample that is good
  std::vector<BadFile> bad{};      // ImageFolder::bad, too
  int64_t channels = 1;
  ImageSize smallest{}, largest{};  // by their numbers of pixels
  int64_t turned_beside_masks = 0;  // images that EXIF turns, but not their masks
  MaskValues masks{};
  std::vector<int> mask_values{};                           // that occur, ascending
  std::vector<int> values_of_training{}, values_of_test{};  // the other split lacks them
};
// SurveyDepth::pixels also decodes the images' pixels, and so finds damage in them.
enum class SurveyDepth { headers, pixels };
ImageSurvey survey(const ImageFolder& folder, SurveyDepth depth);
// True if there are samples for the test.
bool holds_out_any(const ImageFolder& folder);
// "1,204 images, 5 classes, 480x640 to 3024x4032 (height x width), 12 % held out, 3 bad files"
std::string describe(const ImageFolder& folder, const ImageSurvey& survey);
// For each class, or each label of run lengths, the numbers of good images for training and for the
// test.
std::vector<std::array<int64_t, 2>> class_counts(const ImageFolder& folder,
                                                 const ImageSurvey& survey);
// The folder's notes, and the classes that only one of the splits has.
std::vector<std::string> notes_of(const ImageFolder& folder, const ImageSurvey& survey);
// Throws Error if the good samples teach nothing: one class, or masks of one value.
void check_has_classes(const ImageFolder& folder, const ImageSurvey& survey);

}  // namespace detail

}  // namespace accrue
