#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/run_lengths.h"

namespace accrue {

// A folder of images, by the names in it. It is one of
//   DIR/train/... and DIR/test/... (or val, valid, validation), each of them one of the next three
//   DIR/CLASS/.../x.png         a folder for each class
//   DIR/images/x.jpg, DIR/masks/x.png (or x_mask.png)
//   DIR/x.png, DIR/x_mask.png
//   DIR/any.csv                 of run lengths (data/run_lengths.h), with the images in DIR or in a
//                               folder of it
// Files are taken for images by their extensions; those that begin with a dot are left alone.
// Classes, labels and samples are in the order of their names.
struct FolderSample {
  std::filesystem::path image, mask{};  // the mask is empty if there is none
  int32_t label = 0;                    // of classes
  Split split = Split::train;
  std::vector<RunLengths> runs{};
};

struct BadFile {
  std::filesystem::path path;
  std::string reason;
  // What it lacks to be a sample, if that is all that is bad: an image its mask, a mask or a class
  // its images.
  enum class Lacks { nothing, mask, images } lacks = Lacks::nothing;

  // The path and the reason, with the path only once.
  std::string describe() const;
};

struct ImageFolder {
  std::filesystem::path directory;
  enum class Answer { classes, masks, run_lengths, none } answer = Answer::classes;
  std::vector<std::string> classes{};  // their folders' names, or the labels of run lengths
  std::vector<FolderSample> samples{};
  // Images without masks and folders without images, found by their names alone.
  std::vector<BadFile> bad{};
  std::filesystem::path runs_file{};
  bool is_divided = false;  // the folder itself says what is for the test
};

// Finds out which of these a directory is; returns nothing if none. If no folder holds samples for
// the test, a sample is held out if a hash of its image's path within the directory, as a fraction
// of all hashes, is below hold_out, so that new images do not move the others between the splits.
// Throws Error as read_run_lengths() does.
std::optional<ImageFolder> find_images(const std::filesystem::path& directory, double hold_out);

// The images of files and directories for a network to answer to, all with Split::test and
// Answer::none: those beside masks, those with masks of a CSV file, and otherwise all images that
// lie in a directory or below. Of a directory with a test of its own, or with `split`, those of
// that split (without `split` the test's). Its `directory` is the given one, or that in which all
// files lie; its `classes` are the names of the folders, if there is one for each class. Throws
// Error for a path that is not there or comes twice, for no images, and for a `split` of a
// directory that has none.
ImageFolder find_images_to_answer(const std::vector<std::filesystem::path>& paths,
                                  std::optional<Split> split, double hold_out);
// Reads them, as load_images() does, into `images` alone.
Dataset load_images_to_answer(const ImageFolder& folder, const ImageFolderOptions& options);

// Reads the samples of a directory, named by their images' paths within it, into `images` (pixels
// [N, C, H, W], of 3 channels if any image has colours) and `labels` (indices [N], the classes with
// their names), or `masks`. Masks whose values are 0 and one other become masks of 0 and 255 [N, 1,
// H, W]; run lengths become such masks [N, K, H, W], with a plane for each label; masks of other
// values become indices [N, 1, H, W], the n-th value that occurs in the folder being class n.
// Every image is resized to the size of the options; without one, all must have the same size.
// Throws Error unless there are samples for both splits, for masks of more than 64 values, and,
// with SkipBad::no, for bad files, of which it names the first.
// Images and masks are held, unless they are more bytes than the options allow: then they are
// streamed, and damage in them is found beforehand only if bad files are to be left out. Labels are
// always held.
Datasets load_images(const std::filesystem::path& directory, const ImageFolderOptions& options);

// A sample as it is in its files, and its mask if it has one: the values in the file, or a plane of
// 0 and 255 for each of the folder's labels. Throws Error if a file is bad.
struct SampleImages {
  Image image, mask;
};
SampleImages read_sample(const ImageFolder& folder, const FolderSample& sample);

// The findings in the headers and masks of all samples.
struct ImageSurvey {
  std::vector<char> is_good{};  // of each sample
  std::vector<BadFile> bad{};   // those of the folder, too
  int64_t channels = 1;
  ImageSize smallest{}, largest{};  // by their numbers of pixels
  std::vector<int> mask_values{};
};
// With Look::pixels images are decoded as a whole, so that damage within them shows.
enum class Look { headers, pixels };
ImageSurvey survey(const ImageFolder& folder, Look look);
// "1,204 images, 5 classes, 640x480 to 4032x3024, 12 % held out, 3 bad files"
std::string describe(const ImageFolder& folder, const ImageSurvey& survey);

}  // namespace accrue
