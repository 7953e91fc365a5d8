#include "images/run_lengths.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "core/error.h"
#include "data/csv_reader.h"
#include "data/words.h"
#include "images/image_columns.h"

namespace accrue {
namespace {

// True for a text of two or more numbers with blanks between them.
bool looks_like_runs(const std::string& text) {
  return text.find_first_not_of("0123456789 ") == std::string::npos &&
         text.find(' ') != std::string::npos;
}

// The column of runs. Columns of paths have some of these names, too; such a column is taken only
// if its first text is runs.
std::optional<size_t> runs_column(const std::filesystem::path& path) {
  CsvReader csv(path);
  if (const auto known = csv.column({"encodedpixels", "encodedpixel", "rle", "rlemask", "maskrle",
                                     "rles", "runlengths", "runlength", "encodedmask"}))
    return known;
  const auto possible = csv.column({"segmentation", "annotation", "mask", "masks", "pixels"});
  while (possible && csv.next())
    if (const std::string& text = csv[*possible]; !text.empty())
      return looks_like_runs(text) ? possible : std::nullopt;
  return std::nullopt;
}

bool means_none(const std::string& runs) { return runs == "-1" || lower(runs) == "nan"; }

// Splits "a.jpg_Fish". Throws Error unless there is a label.
void split_label(RunLengths& line, const CsvReader& csv) {
  const std::string& name = line.image;
  const size_t dot = name.rfind('.');
  const size_t bar = dot == std::string::npos ? name.rfind('_') : name.find('_', dot);
  if (bar == std::string::npos || bar == 0 || bar + 1 == name.size())
    fail("{}: the image is '{:.40}', expected an image's file name, _ and a label", csv.here(),
         name);
  line.label = name.substr(bar + 1);
  line.image = name.substr(0, bar);
}

// The next whole number in the text; nothing at its end.
std::optional<int64_t> take_number(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  if (text.empty()) return std::nullopt;
  int64_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto used = static_cast<size_t>(stop - text.data());
  check(error == std::errc() && (used == text.size() || text[used] == ' '),
        "the runs have '{:.20}', expected whole numbers", text);
  text.remove_prefix(used);
  return number;
}

}  // namespace

bool detail::holds_run_lengths(const std::filesystem::path& path) {
  return runs_column(path).has_value();
}

std::vector<RunLengths> detail::read_run_lengths(const std::filesystem::path& path) {
  const std::optional<size_t> runs = runs_column(path);
  CsvReader csv(path);
  const auto both = csv.column({"imagelabel", "imageidclassid", "imageclass", "imageidlabel",
                                "imageclassid", "imgidclassid", "imagenamelabel", "idclass"});
  const auto image = both ? both : image_column(csv), label = label_column(csv);
  check(
      runs && image,
      "'{}' speaks of run lengths, but its columns are {}: expected Image_Label,EncodedPixels, or "
      "ImageId,ClassId,EncodedPixels",
      path.string(), some_of(csv.columns()));
  std::vector<RunLengths> all;
  while (csv.next()) {
    RunLengths line{csv[*image], label ? csv[*label] : "mask", csv[*runs], csv.line()};
    if (line.image.empty() || line.label.empty())
      fail("{}: there is no {}", csv.here(), line.image.empty() ? "image" : "label");
    if (both) split_label(line, csv);
    if (means_none(line.runs)) line.runs.clear();
    all.push_back(std::move(line));
  }
  check(!all.empty(), "'{}' has no masks: expected a line for each", path.string());
  return all;
}

void detail::draw_runs(std::span<uint8_t> plane, ImageSize size, const std::string& runs) {
  const int64_t pixels = size.height * size.width;
  std::string_view text = runs;
  while (const std::optional<int64_t> start = take_number(text)) {
    const std::optional<int64_t> length = take_number(text);
    check(length.has_value(), "the run from pixel {} has no length", *start);
    check(*start >= 1 && *length >= 0 && *start <= pixels && *length <= pixels - *start + 1,
          "the run of {} pixels from pixel {} is not within an image of {} (height "
          "x width)",
          *length, *start, height_by_width(size));
    for (int64_t p = *start - 1; p < *start - 1 + *length; ++p)
      plane[static_cast<size_t>(p % size.height * size.width + p / size.height)] = 255;
  }
}

}  // namespace accrue
