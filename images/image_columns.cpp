#include "images/image_columns.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <string_view>

#include "core/error.h"
#include "data/words.h"
#include "images/folder_tree.h"

namespace accrue {
namespace {

// A first row that names an image is data, not the columns' names.
CsvReader open_labels(const std::filesystem::path& path) {
  CsvReader csv(path);
  if (std::ranges::any_of(csv.columns(),
                          [](const std::string& name) { return has_image_extension(name); }))
    csv.take_first_row_for_data();
  return csv;
}

std::optional<LabelColumns> columns_of(const CsvReader& csv) {
  using Certainty = LabelColumns::Certainty;
  const std::vector<std::string>& names = csv.columns();
  const bool has_two = names.size() == 2;
  std::optional<size_t> image = image_column(csv), label = label_column(csv);
  for (size_t c = 0; !image && c < csv.row().size(); ++c)
    if (has_image_extension(csv.row()[c])) image = c;
  if (!image) return std::nullopt;
  Certainty certainty = Certainty::named;
  if (!label && has_two) {
    label = 1 - *image;
    certainty = Certainty::guessed;
  }
  if (!label || *label == *image) return std::nullopt;
  const auto part = csv.column({"split", "set", "subset", "usage", "partition", "dataset"});
  return LabelColumns{*image, *label, part, names[*label], certainty};
}

// True if a field has several labels. Then the column's name is plural, and the labels are numbers
// or stand between commas, semicolons or bars; or each label is another image's only one.
bool has_several(const std::string& label, const std::string& column,
                 const std::set<std::string>& all) {
  constexpr const char* marks = ",;|";
  std::vector<std::string> parts;
  std::string rest = label;
  std::ranges::replace_if(
      rest, [](char c) { return std::string_view(marks).find(c) != std::string_view::npos; }, ' ');
  std::istringstream words(rest);
  for (std::string word; words >> word;) parts.push_back(word);
  if (parts.size() < 2) return false;
  const std::string name = letters_and_digits(column);
  const bool is_plural = name == "labels" || name == "classes" || name == "targets";
  const auto is_number = [](const std::string& part) {
    return std::ranges::all_of(part, [](char c) { return is_digit(c); });
  };
  return (is_plural &&
          (label.find_first_of(marks) != label.npos || std::ranges::all_of(parts, is_number))) ||
         std::ranges::all_of(parts, [&](const std::string& part) { return all.contains(part); });
}

void refuse_several(const std::vector<ImageLabel>& lines, const std::string& column,
                    const std::filesystem::path& path) {
  std::set<std::string> all;
  for (const ImageLabel& line : lines) all.insert(line.label);
  for (const ImageLabel& line : lines)
    check(
        !has_several(line.label, column, all),
        "'{}', line {}: the column {} has several labels in a field, '{}': expected the one class "
        "of each image",
        path.string(), line.line, column, line.label);
}

}  // namespace

std::optional<size_t> image_column(const CsvReader& csv) {
  // Beside a column "image", a column "id" has numbers.
  if (const auto named =
          csv.column({"image",  "imageid", "imagename", "imagefile", "imagefilename", "imagepath",
                      "images", "img",     "imgid",     "imgname",   "imgfile",       "imgpath",
                      "file",   "files",   "filename",  "filenames", "filepath",      "fname",
                      "photo",  "photoid", "picture"}))
    return named;
  return csv.column({"path", "name", "id", "idcode"});
}

std::optional<size_t> label_column(const CsvReader& csv) {
  return csv.column({"label", "labels", "labelname", "class", "classes", "classname", "category",
                     "categoryname", "target", "targets", "tag", "species", "breed", "diagnosis",
                     "dx", "classid", "categoryid", "labelid"});
}

std::optional<LabelColumns> label_columns(const std::filesystem::path& path) {
  return columns_of(open_labels(path));
}

std::vector<ImageLabel> read_labels(const std::filesystem::path& path) {
  CsvReader csv = open_labels(path);
  const std::optional<LabelColumns> columns = columns_of(csv);
  check(columns.has_value(),
        "'{}' has the columns {}: expected one that names images (file) and one with their classes "
        "(label)",
        path.string(), some_of(csv.columns()));
  std::vector<ImageLabel> all;
  while (csv.next()) {
    if (csv[columns->image].empty()) fail("{}: there is no image", csv.here());
    all.push_back({csv[columns->image], csv[columns->label],
                   columns->part ? csv[*columns->part] : std::string(), csv.line()});
  }
  refuse_several(all, columns->label_name, path);
  return all;
}

}  // namespace accrue
