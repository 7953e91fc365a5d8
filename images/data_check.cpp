#include "images/data_check.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "core/error.h"
#include "data/atomic_file.h"
#include "data/words.h"
#include "images/image_folder.h"
#include "images/image_sheet.h"
#include "images/packed_images.h"

namespace accrue {
namespace {

// Each class with its numbers of images for training and for the test.
void say_counts(const std::vector<std::string>& classes,
                const std::vector<std::array<int64_t, 2>>& counts, const Notices& notices) {
  size_t widest = 5;
  for (const std::string& name : classes) widest = std::max(widest, name.size());
  notices.say("  {:<{}} {:>8} {:>8}", "class", widest, "training", "test");
  for (size_t k = 0; k < counts.size(); ++k)
    notices.say("  {:<{}} {:>8} {:>8}", classes[k], widest, counts[k][0], counts[k][1]);
}

void say_ignored(const ImageFolder& folder, const Notices& notices) {
  std::vector<std::string> names;
  for (const auto& path : folder.ignored)
    names.push_back(path.lexically_relative(folder.directory).generic_string());
  if (!names.empty()) notices.say("  {} left alone: {}", names.size(), some_of(names));
}

void say_packed(const std::string& directory, const PackedImages& found, const Notices& notices) {
  std::string about;
  if (!found.parts.empty()) {
    const Shape& images = found.parts.front().data["images"].shape();
    about = fmt::format(", {}, {}", counted_classes(found.classes()),
                        height_by_width({images[2], images[3]}));
  }
  notices.say("{}: {}, {} for training and {} for the test{}", directory, found.format,
              counted(found.count(Split::train), "image"), found.count(Split::test), about);
  if (!found.parts.empty() && !found.parts.front().data.about.empty())
    notices.say("  {}", found.parts.front().data.about);
  std::vector<std::string> classes;
  std::vector<std::array<int64_t, 2>> counts;
  for (int64_t k = 0; k < found.classes(); ++k) {
    classes.push_back(found.parts.front().data.field("labels").class_name(k));
    counts.push_back({found.count(k, Split::train), found.count(k, Split::test)});
  }
  if (!classes.empty()) say_counts(classes, counts, notices);
}

// Lists the bad files and writes a sheet of the good images. Throws Error if there are bad files.
template <class DrawSheet>
void finish(const DataCheckOptions& asked, const std::vector<BadFile>& all_bad, DrawSheet&& draw,
            const Notices& notices) {
  for (const BadFile& bad : all_bad) notices.say("bad: {}", bad.describe());
  if (!asked.sheet.empty()) {
    write_text_atomically(asked.sheet, encode_png(draw(parse_augmentation(asked.augment))));
    notices.say("wrote {}", asked.sheet);
  }
  check(all_bad.empty(), "'{}' has {}", asked.directory,
        counted(static_cast<int64_t>(all_bad.size()), "bad file"));
}

}  // namespace

Settings settings_of(DataCheckOptions& asked) {
  Settings s;
  s.group("Options")
      .add(asked.hold_out, {.name = "hold-out",
                            .decides = Decides::no_result,
                            .help = "The part that is for the test, as train has it",
                            .unset = fmt::format("{}", usual_hold_out),
                            .range = {0, 0.99}})
      .add(asked.sheet, {"sheet", Decides::no_result,
                         "Write images of each class, or with their masks drawn over them",
                         writes("FILE.png", Path::sample)})
      .add(asked.augment, {.name = "augment",
                           .decides = Decides::no_result,
                           .help = "Change the sheet's images as training with this --augment does",
                           .takes = "NAME[=N],...",
                           .needs = "sheet"});
  return s;
}

void check_images(const DataCheckOptions& asked, const Notices& notices) {
  if (!asked.sheet.empty()) check_writable(asked.sheet);
  parse_augmentation(asked.augment);  // throws Error before the work begins
  if (const auto packed = find_packed_images(asked.directory)) {
    say_packed(asked.directory, *packed, notices);
    finish(
        asked, packed->bad,
        [&](const Augmentation& augmentation) { return image_sheet(*packed, augmentation); },
        notices);
    int64_t learned = 0;
    for (int64_t k = 0; k < packed->classes(); ++k)
      learned += packed->count(k, Split::train) > 0 ? 1 : 0;
    return check(learned > 1,
                 "'{}' has {} for training, which teaches nothing: expected two or more",
                 asked.directory, learned == 1 ? "one class" : "no class");
  }
  const std::optional<ImageFolder> folder = find_images(asked.directory, asked.hold_out);
  if (!folder) refuse_layout(asked.directory);
  const ImageSurvey found = survey(*folder, SurveyDepth::pixels);
  notices.say("{}: {}", asked.directory, describe(*folder, found));
  // Counts good images only; for run lengths, the images of each label.
  if (!folder->classes.empty()) say_counts(folder->classes, class_counts(*folder, found), notices);
  if (!found.mask_values.empty())
    notices.say("  values in masks: {}", fmt::join(found.mask_values, ", "));
  for (const std::string& note : notes_of(*folder, found)) notices.say("  {}", note);
  say_ignored(*folder, notices);
  std::vector<BadFile> bad = found.bad;
  if (const std::string smoothed = found.masks.smoothed(); !smoothed.empty())
    bad.push_back({asked.directory, "its masks " + smoothed});
  finish(
      asked, bad,
      [&](const Augmentation& augmentation) { return image_sheet(*folder, found, augmentation); },
      notices);
  check_has_classes(*folder, found);
}

}  // namespace accrue
