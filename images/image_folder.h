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

// Says if samples whose files are damaged or do not fit each other are left out.
enum class SkipBad { no, yes };

inline constexpr double usual_hold_out = 0.1;
// Says if a data set may have one class only, which can be scored and answered, but not learned.
enum class OneClass { refused, allowed };

}  // namespace detail

// Options for making a data set of a folder of images (load_images()).
struct ImageFolderOptions {
  using OneClass = detail::OneClass;
  using SkipBad = detail::SkipBad;
  std::optional<detail::ImageSize> size{};  // that images are resized to; without it all have one
  // The share for the test of a folder that has no split; usual_hold_out if it is not set. For one
  // that has, it must not be set.
  std::optional<double> hold_out{};
  int64_t channels = 1;  // at least; gray images are of any number
  SkipBad skip_bad = SkipBad::no;
  // The value in masks of pixels that nobody has judged. With it each pixel has one class, even if
  // the others have no more than two values.
  std::optional<int64_t> unjudged_mask_value{};
  // Each value in masks is meant as a class, however few pixels have it.
  bool has_named_mask_values = false;
  OneClass one_class = OneClass::refused;
  // The most bytes of decoded images, of both splits, that are held; if there are more, all are
  // read when needed.
  size_t most_held_bytes = std::numeric_limits<size_t>::max();
  size_t most_image_bytes =
      detail::usual_most_image_bytes;  // of one image, decoded; a larger one is bad
};

namespace detail {

// A folder of images, by the names in it (docs/images.md). It is one of
//   DIR/CLASS/.../x.png         a folder for each class
//   DIR/images/x.jpg, DIR/masks/x.png (or x_mask.png), and VOC's folders and lists
//   DIR/.../x.png, DIR/.../x_mask.png
//   DIR/any.csv                 of run lengths (images/run_lengths.h) or classes
//                               (images/image_columns.h), with the images anywhere below
//   DIR/train/... and DIR/test/... (or val, valid, validation), each of them one of these
//   DIR/ONLY/...                which is one of these
// Classes, labels and samples are in the order of their names; classes that are all whole numbers
// in that of the numbers.
struct FolderSample {
  std::filesystem::path image, mask{};  // the mask is empty if there is none
  int32_t label = 0;                    // of classes
  Split split = Split::train;
  std::vector<RunLengths> runs{};
};

struct ImageFolder {
  std::filesystem::path directory;
  enum class Answer { classes, masks, run_lengths, none } answer = Answer::classes;
  std::vector<std::string> classes{};  // their folders' names, or the labels of run lengths
  std::vector<FolderSample> samples{};
  // What can be seen by names alone: what FolderTree says, images without masks, folders without
  // images, and images that the layout has no place for.
  std::vector<BadFile> bad{};
  std::filesystem::path runs_file{};
  // An image that takes more bytes decoded is bad.
  size_t most_image_bytes = usual_most_image_bytes;
  std::set<std::filesystem::path> tables{};  // the CSVs and lists that it was read from
  // True if the folder itself says what is for the test.
  bool is_divided = false;
  // Files and folders that the layout leaves alone: a second folder for the test, say.
  std::set<std::filesystem::path> unused{};
  // Entries that FolderTree leaves alone, in all folders.
  std::vector<std::filesystem::path> ignored{};
  // What the user should know of how the names were taken, each in a few words.
  std::vector<std::string> notes{};
};

// Finds out which of these a directory is; returns nothing if none. If the folder does not say
// which samples are for the test, one is held out if a hash of its image's path within the
// directory, as a fraction of all hashes, is below hold_out (usual_hold_out), so that new images do
// not move the others between the splits; but a class is left one image for training. Each image in
// the directory becomes one of the samples' images or masks, or is in `bad` or `unused`. Throws
// Error for a directory that could be one of two of these, naming the path to use, for a hold_out
// where the folder says what is for the test, and as read_run_lengths() and read_labels() do.
std::optional<ImageFolder> find_images(const std::filesystem::path& directory,
                                       std::optional<double> hold_out = std::nullopt);
// Says that a directory is none of these, and what is there.
[[noreturn]] void refuse_layout(const std::filesystem::path& directory);

// The images of files and directories for a network to answer to, all with Split::test and
// Answer::none: those beside masks, those with masks of a CSV file, and otherwise all images that
// lie in a directory or below. Of a directory with a test of its own, or with `split`, those of
// that split (without `split` the test's). Its `directory` is the given one, or that in which all
// files lie; its `classes` are the names of the folders, if there is one for each class. Throws
// Error for a path that is not there or comes twice, for no images, and for a `split` of a
// directory that has none.
ImageFolder find_images_to_answer(const std::vector<std::filesystem::path>& paths,
                                  std::optional<Split> split,
                                  std::optional<double> hold_out = std::nullopt);
// Reads them, as load_images() does, into `images` alone.
Dataset load_images_to_answer(const ImageFolder& folder, const ImageFolderOptions& options);
// Reads each at its own size: a data set for each size, of as many channels. The first says what
// was found.
std::vector<Dataset> load_images_by_size(const ImageFolder& folder,
                                         const ImageFolderOptions& options);

}  // namespace detail

// Reads the samples of a directory, named by their images' paths within it, into `images` (pixels
// [N, C, H, W], of 3 channels if any image has colours) and `labels` (indices [N], the classes with
// their names), or `masks`. Masks whose values are 0 and one other become masks of 0 and 255 [N, 1,
// H, W]; run lengths become such masks [N, K, H, W], with a plane for each label; masks of other
// values become indices [N, 1, H, W], the n-th value that occurs in the folder being class n. So do
// all masks if a value is that of pixels that nobody has judged (Field::unjudged_value).
// Every image is resized to the size of the options; without one, all must have the same size.
// Throws Error unless there are samples for both splits and, unless the options allow one, two
// classes or values of masks for training, for masks of more than 64 values or of smoothed ones
// (images/mask_values.h), and, with SkipBad::no, for bad files, of which it names the first. With
// SkipBad::yes a class that has only bad files is left out as well. Images and masks are held,
// unless they are more bytes than the options allow: then they are streamed, and damage in them is
// found beforehand only if bad files are to be left out. Labels are always held.
Datasets load_images(const std::filesystem::path& directory, const ImageFolderOptions& options);

namespace detail {

// A sample as it is in its files, and its mask if it has one: the values in the file, or a plane of
// 0 and 255 for each of the folder's labels. Throws Error if a file is bad.
struct SampleImages {
  Image image, mask;
};
SampleImages read_sample(const ImageFolder& folder, const FolderSample& sample);
// The planes of run lengths of an image of this size. Throws Error, naming file and line.
Image draw_masks(const ImageFolder& folder, const FolderSample& sample, ImageSize size);

// The findings in the headers and masks of all samples.
struct ImageSurvey {
  std::vector<char> is_good{};     // of each sample
  std::vector<ImageSize> sizes{};  // of each that is good
  std::vector<BadFile> bad{};      // those of the folder, too
  int64_t channels = 1;
  ImageSize smallest{}, largest{};  // by their numbers of pixels
  int64_t turned_beside_masks = 0;  // images that their EXIF orientation turns, and no mask
  MaskValues masks{};
  std::vector<int> mask_values{};                           // all of them
  std::vector<int> values_of_training{}, values_of_test{};  // that the other split lacks
};
// SurveyDepth::pixels decodes images as a whole, so that damage within them shows.
enum class SurveyDepth { headers, pixels };
ImageSurvey survey(const ImageFolder& folder, SurveyDepth depth);
// True if there are samples for the test.
bool holds_out_any(const ImageFolder& folder);
// "1,204 images, 5 classes, 480x640 to 3024x4032 (height x width), 12 % held out, 3 bad files"
std::string describe(const ImageFolder& folder, const ImageSurvey& survey);
// How many good images for training and for the test each class has, or each label of run lengths.
std::vector<std::array<int64_t, 2>> class_counts(const ImageFolder& folder,
                                                 const ImageSurvey& survey);
// The folder's notes, and which classes only the training or only the test has.
std::vector<std::string> notes_of(const ImageFolder& folder, const ImageSurvey& survey);
// Throws Error if the good samples teach nothing: one class, or masks of one value.
void check_has_classes(const ImageFolder& folder, const ImageSurvey& survey);

}  // namespace detail

}  // namespace accrue
