#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "images/image_file.h"

namespace accrue::detail {

// A row of a CSV of masks (data/csv_reader.h), "0011165.jpg_Fish,264918 937 266318 937": the pixels
// of an image that have a label.
struct RunLengths {
  std::string image;  // a path, or its end; the extension may be missing
  std::string label;
  std::string runs;  // "264918 937 266318 937"; empty for none
  int64_t line = 0;  // in the file, from 1
};

// True for a CSV with a column of run lengths (EncodedPixels, rle_mask, ...). Throws Error as
// CsvReader does.
bool holds_run_lengths(const std::filesystem::path& path);
// Reads such a file. One column names the image (ImageId, image, file, id, ...) and another the
// label (ClassId, label, ...); without that all labels are "mask". Or one column has both, as
// image_label (Image_Label, ImageId_ClassId): then the label follows the first underscore after the
// image's file name extension. "-1" and "nan" mean no runs. Throws Error, naming file and line, for
// a row of another kind, and for other columns. Does not check the runs.
std::vector<RunLengths> read_run_lengths(const std::filesystem::path& path);

// Sets the pixels of the runs in the plane [H, W] to 255. Runs are pairs of a start and a length.
// They count pixels from 1 down the columns, column by column: pixel p is at
//   y = (p - 1) mod H and x = (p - 1) / H.
// Throws Error for other text and for pixels outside of the image.
void draw_runs(std::span<uint8_t> plane, ImageSize size, const std::string& runs);

}  // namespace accrue::detail
