#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/csv_reader.h"

namespace accrue {

// Which column of a CSV names images (image, ImageId, file, filename, path, id, ...), and which has
// their classes (label, class, category, target, ...).
std::optional<size_t> image_column(const CsvReader& csv);
std::optional<size_t> label_column(const CsvReader& csv);

// A row of a CSV of classes, "cat_1.jpg,cat".
struct ImageLabel {
  std::string image;  // a path, or its end; the extension may be missing
  std::string label;  // may be empty
  std::string part;   // "train" or "test", of a column split, set, subset, or usage; else empty
  int64_t line = 0;   // in the file, from 1
};

// What the names of the columns say. `guessed` is a file of two columns of which only one is known,
// or whose first row is no names but "cat_1.jpg,cat".
struct LabelColumns {
  size_t image, label;
  std::optional<size_t> part;
  std::string label_name;
  enum class Certainty { named, guessed } certainty;
};
// Returns nothing for a CSV of anything else. Throws Error as CsvReader does.
std::optional<LabelColumns> label_columns(const std::filesystem::path& path);
// Reads such a file. Throws Error, naming file and line, for a row without an image.
std::vector<ImageLabel> read_labels(const std::filesystem::path& path);

}  // namespace accrue
