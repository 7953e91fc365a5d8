#include "apps/images/data_check.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "apps/cli/messages.h"
#include "core/error.h"
#include "data/atomic_file.h"
#include "data/words.h"
#include "images/image_folder.h"
#include "images/image_sheet.h"
#include "images/packed_images.h"

namespace accrue::app {
namespace {

// Each class with its numbers of images for training and for the test.
void print_table(const std::vector<std::string>& classes,
                 const std::vector<std::array<int64_t, 2>>& counts) {
  size_t widest = 5;
  for (const std::string& name : classes) widest = std::max(widest, name.size());
  say("  {:<{}} {:>8} {:>8}\n", "class", widest, "training", "test");
  for (size_t k = 0; k < counts.size(); ++k)
    say("  {:<{}} {:>8} {:>8}\n", classes[k], widest, counts[k][0], counts[k][1]);
}

// Prints how many good images each class has, or each label of run lengths.
void print_counts(const ImageFolder& folder, const ImageSurvey& found) {
  if (folder.classes.empty()) return;
  print_table(folder.classes, class_counts(folder, found));
}

void print_ignored(const ImageFolder& folder) {
  std::vector<std::string> names;
  for (const auto& path : folder.ignored)
    names.push_back(path.lexically_relative(folder.directory).generic_string());
  if (!names.empty()) say("  {} left alone: {}\n", names.size(), some_of(names));
}

void print_packed(const std::string& directory, const PackedImages& found) {
  std::string about;
  if (!found.parts.empty()) {
    const Shape& images = found.parts.front().data["images"].shape();
    about = fmt::format(", {}, {}", counted_classes(found.classes()),
                        height_by_width({images[2], images[3]}));
  }
  say("{}: {}, {} for training and {} for the test{}\n", directory,
      found.format == PackedImages::Format::idx ? "IDX files" : "CIFAR-10's binary files",
      counted(found.count(Split::train), "image"), found.count(Split::test), about);
  if (!found.parts.empty() && !found.parts.front().data.about.empty())
    say("  {}\n", found.parts.front().data.about);
  std::vector<std::string> classes;
  std::vector<std::array<int64_t, 2>> counts;
  for (int64_t k = 0; k < found.classes(); ++k) {
    classes.push_back(found.parts.front().data.field("labels").class_name(k));
    counts.push_back({found.count(k, Split::train), found.count(k, Split::test)});
  }
  if (!classes.empty()) print_table(classes, counts);
}

// What is bad, and a sheet of what is not.
template <class DrawSheet>
void finish(const DataCheckOptions& asked, const std::vector<BadFile>& all_bad, DrawSheet&& draw) {
  for (const BadFile& bad : all_bad) say("bad: {}\n", bad.describe());
  if (!asked.sheet.empty()) {
    write_text_atomically(asked.sheet, encode_png(draw(parse_augmentation(asked.augment))));
    say("wrote {}\n", asked.sheet);
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
                         writes("FILE.png", Path::image)})
      .add(asked.augment, {.name = "augment",
                           .decides = Decides::no_result,
                           .help = "Draw them there as a training with this --augment sees them",
                           .takes = "NAME[=N],...",
                           .needs = "sheet"});
  return s;
}

void check_data(const DataCheckOptions& asked) {
  if (!asked.sheet.empty()) check_writable(asked.sheet);
  parse_augmentation(asked.augment);  // an error in it comes before the work
  if (const auto packed = find_packed_images(asked.directory)) {
    print_packed(asked.directory, *packed);
    finish(asked, packed->bad,
           [&](const Augmentation& augmentation) { return image_sheet(*packed, augmentation); });
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
  say("{}: {}\n", asked.directory, describe(*folder, found));
  print_counts(*folder, found);
  if (!found.mask_values.empty())
    say("  values in masks: {}\n", fmt::join(found.mask_values, ", "));
  for (const std::string& note : notes_of(*folder, found)) say("  {}\n", note);
  print_ignored(*folder);
  std::vector<BadFile> bad = found.bad;
  if (const std::string smoothed = found.masks.smoothed(); !smoothed.empty())
    bad.push_back({asked.directory, "its masks " + smoothed});
  finish(asked, bad, [&](const Augmentation& augmentation) {
    return image_sheet(*folder, found, augmentation);
  });
  check_has_classes(*folder, found);
}

}  // namespace accrue::app
