#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/image_file.h"

namespace accrue {

// A line of Kaggle's CSV of masks, "0011165.jpg_Fish,264918 937 266318 937": the pixels of an image
// that have a label.
struct RunLengths {
  std::string image, label;
  std::string runs;  // "264918 937 266318 937"; empty for none
  int64_t line = 0;  // in the file, from 1
};

// True for a file whose first line is `Image_Label,EncodedPixels` or
// `ImageId_ClassId,EncodedPixels`.
bool holds_run_lengths(const std::filesystem::path& path);
// Reads such a file. The label follows the first underscore after the image's file name extension.
// Throws Error, naming file and line, for a line of another kind. Does not check the runs.
std::vector<RunLengths> read_run_lengths(const std::filesystem::path& path);

// Sets the plane [H, W] to 255 where the runs are: pairs of a start and a length, in pixels counted
// from 1 down the columns, column by column, so that pixel p is at
// y = (p - 1) mod H and x = (p - 1) / H. Throws Error for other text and for pixels outside of the
// image.
void draw_runs(std::span<uint8_t> plane, ImageSize size, const std::string& runs);

}  // namespace accrue
