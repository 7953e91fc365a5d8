#include "images/image_columns.h"

#include <algorithm>

#include "core/error.h"
#include "data/words.h"
#include "images/folder_tree.h"

namespace accrue {
namespace {

// Without a row of names the first is data: it names an image.
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

}  // namespace

std::optional<size_t> image_column(const CsvReader& csv) {
  // A column "id" beside one "image" is a number.
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
  return all;
}

}  // namespace accrue
