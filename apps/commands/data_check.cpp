#include "apps/commands/data_check.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "apps/cli/messages.h"
#include "core/error.h"
#include "data/atomic_file.h"
#include "data/image_folder.h"
#include "data/image_sheet.h"
#include "data/packed_images.h"

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

// Of each class, or of each label of run lengths, how many good images there are.
void print_counts(const ImageFolder& folder, const ImageSurvey& found) {
  if (folder.classes.empty()) return;
  std::vector<std::array<int64_t, 2>> counts(folder.classes.size());
  const auto count = [&](size_t label, Split split) {
    ++counts[label][split == Split::test ? 1 : 0];
  };
  for (size_t i = 0; i < folder.samples.size(); ++i) {
    const FolderSample& sample = folder.samples[i];
    if (!found.is_good[i]) continue;
    if (folder.answer == ImageFolder::Answer::classes)
      count(static_cast<size_t>(sample.label), sample.split);
    for (const RunLengths& line : sample.runs) {
      const auto label = std::ranges::lower_bound(folder.classes, line.label);
      if (!line.runs.empty())
        count(static_cast<size_t>(label - folder.classes.begin()), sample.split);
    }
  }
  print_table(folder.classes, counts);
}

void print_packed(const std::string& directory, const PackedImages& found) {
  std::string about;
  if (!found.parts.empty()) {
    const Shape& images = found.parts.front().data["images"].shape();
    about =
        fmt::format(", {} classes, {}", found.classes(), width_by_height({images[2], images[3]}));
  }
  say("{}: {}, {} for training and {} for the test{}\n", directory,
      found.format == PackedImages::Format::idx ? "IDX files" : "CIFAR-10's binary files",
      counted(found.count(Split::train), "image"), found.count(Split::test), about);
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
                            .range = {0, 0.99}})
      .add(asked.sheet,
           {"sheet", Decides::no_result,
            "Write images of each class, or with their masks drawn over them", "FILE.png"})
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
    return finish(asked, packed->bad, [&](const Augmentation& augmentation) {
      return image_sheet(*packed, augmentation);
    });
  }
  const std::optional<ImageFolder> folder = find_images(asked.directory, asked.hold_out);
  check(
      folder.has_value(),
      "'{}' is no folder of images: expected folders of images for each class, images/ and "
      "masks/, x.png beside x_mask.png, a CSV of run lengths, CIFAR-10's binary files or IDX files",
      asked.directory);
  const ImageSurvey found = survey(*folder, Look::pixels);
  say("{}: {}\n", asked.directory, describe(*folder, found));
  print_counts(*folder, found);
  if (!found.mask_values.empty())
    say("  values in masks: {}\n", fmt::join(found.mask_values, ", "));
  finish(asked, found.bad, [&](const Augmentation& augmentation) {
    return image_sheet(*folder, found, augmentation);
  });
}

}  // namespace accrue::app
