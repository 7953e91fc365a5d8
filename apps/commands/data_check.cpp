#include "apps/commands/data_check.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "apps/cli/output.h"
#include "core/error.h"
#include "data/atomic_file.h"
#include "data/image_folder.h"
#include "data/image_sheet.h"

namespace accrue::app {
namespace {

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
  size_t widest = 5;
  for (const std::string& name : folder.classes) widest = std::max(widest, name.size());
  fmt::print("  {:<{}} {:>8} {:>8}\n", "class", widest, "training", "test");
  for (size_t k = 0; k < counts.size(); ++k)
    fmt::print("  {:<{}} {:>8} {:>8}\n", folder.classes[k], widest, counts[k][0], counts[k][1]);
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
  const Augmentation augmentation = parse_augmentation(asked.augment);
  const std::optional<ImageFolder> folder = find_images(asked.directory, asked.hold_out);
  check(folder.has_value(),
        "'{}' is no folder of images: expected folders of images for each class, images/ and "
        "masks/, x.png beside x_mask.png, or a CSV of run lengths",
        asked.directory);
  const ImageSurvey found = survey(*folder, Look::pixels);
  fmt::print("{}: {}\n", asked.directory, describe(*folder, found));
  print_counts(*folder, found);
  if (!found.mask_values.empty())
    fmt::print("  values in masks: {}\n", fmt::join(found.mask_values, ", "));
  for (const BadFile& bad : found.bad) fmt::print("bad: {}\n", bad.describe());
  if (!asked.sheet.empty()) {
    write_text_atomically(asked.sheet, encode_png(image_sheet(*folder, found, augmentation)));
    fmt::print("wrote {}\n", asked.sheet);
  }
  check(found.bad.empty(), "'{}' has {}", asked.directory,
        counted(static_cast<int64_t>(found.bad.size()), "bad file"));
}

}  // namespace accrue::app
