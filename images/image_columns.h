#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/csv_reader.h"

namespace accrue {

// The column of a CSV that names images (image, ImageId, file, filename, path, id, ...), and the
// one that names their classes (label, class, category, target, ...); nothing if there is none.
std::optional<size_t> image_column(const CsvReader& csv);
std::optional<size_t> label_column(const CsvReader& csv);

// A row of a CSV of classes, "cat_1.jpg,cat".
struct ImageLabel {
  std::string image;  // a path, or its end; the extension may be missing
  std::string label;  // may be empty
  std::string part;   // such as "train", from a column split, set, subset or usage; else empty
  int64_t line = 0;   // in the file, from 1
};

// The columns of a CSV of classes. They are `guessed` if no column is named like classes: a file of
// two columns then has them in the column that does not name images. A column without a name for
// images is found by its first field, such as "cat_1.jpg".
struct LabelColumns {
  size_t image, label;
  std::optional<size_t> part;
  std::string label_name;
  enum class Certainty { named, guessed } certainty;
};
// Returns nothing for a CSV without these columns. Throws Error as CsvReader does.
std::optional<LabelColumns> label_columns(const std::filesystem::path& path);
// Reads such a file. Throws Error, naming file and line, for a row without an image.
std::vector<ImageLabel> read_labels(const std::filesystem::path& path);

}  // namespace accrue
