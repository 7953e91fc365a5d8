#include "images/image_folder.h"

#include <algorithm>
#include <functional>
#include <map>

#include "core/error.h"
#include "core/random.h"
#include "data/csv_reader.h"
#include "data/words.h"
#include "images/image_layout.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_of(const std::vector<const FolderTree*>& folders) {
  std::vector<std::string> names;
  for (const FolderTree* folder : folders) names.push_back(folder->name());
  return names;
}

std::vector<const FolderTree*> folders_with_images(const FolderTree& tree) {
  std::vector<const FolderTree*> folders;
  for (const FolderTree& folder : tree.folders)
    if (folder.has_images()) folders.push_back(&folder);
  return folders;
}

std::optional<ImageFolder> find_layout(const FolderTree& tree);

const char* answer_of(const ImageFolder& folder) {
  switch (folder.answer) {
    case ImageFolder::Answer::classes: return "classes";
    case ImageFolder::Answer::masks: return "masks";
    case ImageFolder::Answer::run_lengths: return "run lengths";
    case ImageFolder::Answer::none: break;
  }
  return "images alone";
}

// Adds the samples of `part` to `all`, in this split.
void add_part(ImageFolder& all, ImageFolder part, Split split) {
  for (FolderSample& sample : part.samples) {
    sample.split = split;
    if (!part.classes.empty() && part.answer == ImageFolder::Answer::classes) {
      const std::string& name = part.classes[static_cast<size_t>(sample.label)];
      auto known = std::ranges::find(all.classes, name);
      if (known == all.classes.end()) known = all.classes.insert(known, name);
      sample.label = static_cast<int32_t>(known - all.classes.begin());
    }
    all.samples.push_back(std::move(sample));
  }
  all.bad.insert(all.bad.end(), part.bad.begin(), part.bad.end());
  all.unused.merge(part.unused);
  all.tables.merge(part.tables);
  all.notes.insert(all.notes.end(), part.notes.begin(), part.notes.end());
}

// Notes that the data lies in this folder inside the directory.
ImageFolder entered(ImageFolder found, const FolderTree& tree) {
  found.notes.insert(found.notes.begin(), "in " + tree.path.string());
  return found;
}

// DIR/train and DIR/test. A folder train that only holds images is no such part: it may be a class.
std::optional<ImageFolder> find_divided(const FolderTree& tree) {
  std::vector<const FolderTree*> parts = folders_with_images(tree), others;
  const auto is_part = [](const FolderTree* folder) {
    return part_named(folder->name()).has_value();
  };
  std::ranges::copy_if(parts, std::back_inserter(others), std::not_fn(is_part));
  std::erase_if(parts, std::not_fn(is_part));
  const auto is_for_training = [](const FolderTree* folder) {
    return part_named(folder->name()) == SetPart::train;
  };
  if (std::ranges::count_if(parts, is_for_training) != 1) return std::nullopt;
  const FolderTree& train = **std::ranges::find_if(parts, is_for_training);
  std::optional<ImageFolder> found = find_layout(train);
  if (!found) return std::nullopt;
  if (!others.empty())
    fail(
        "'{}' holds {}, like a part for training, but '{}' lies beside it: expected only such "
        "parts "
        "(train, test, val) or only classes, or '{}' alone as the data",
        train.path.string(), answer_of(*found), others.front()->path.string(), train.path.string());
  if (parts.size() == 1 && found->is_divided) return entered(std::move(*found), train);
  ImageFolder all{.directory = tree.path, .answer = found->answer, .runs_file = found->runs_file};
  if (all.answer == ImageFolder::Answer::run_lengths) all.classes = found->classes;
  add_part(all, std::move(*found), Split::train);
  for (const FolderTree& folder : tree.folders)
    if (part_named(folder.name()) && !folder.has_images())
      all.notes.push_back(folder.name() + " has no images");
  for (const SetPart wanted : {SetPart::test, SetPart::validation})
    for (const FolderTree* part : parts) {
      if (part_named(part->name()) != wanted) continue;
      std::optional<ImageFolder> test = all.is_divided ? std::nullopt : find_layout(*part);
      if (!test) {
        all.unused.insert(part->path);
        all.notes.push_back(fmt::format("{} is not used{}", part->name(),
                                        all.is_divided ? "" : ", as it has no classes or masks"));
        continue;
      }
      check(test->answer == all.answer && test->answer != ImageFolder::Answer::run_lengths,
            "'{}' holds {}, but '{}' {}: expected the same of both, and not run lengths",
            train.path.string(), answer_of(all), part->path.string(), answer_of(*test));
      add_part(all, std::move(*test), Split::test);
      all.is_divided = true;
    }
  return all;
}

// Throws Error if all folders have folders of the same names: either level could be the classes.
void refuse_same_folders(const FolderTree& tree, const std::vector<const FolderTree*>& folders) {
  const std::vector<std::string> names = names_of(folders_with_images(*folders.front()));
  if (folders.size() < 2 || names.size() < 2) return;
  for (const FolderTree* folder : folders)
    if (!folder->images.empty() || names_of(folders_with_images(*folder)) != names) return;
  fail(
      "'{}' has the folders {}, and each of them the folders {}: either could be the classes; "
      "expected one level of classes, or '{}' alone as the data",
      tree.path.string(), some_of(names_of(folders)), some_of(names),
      folders.front()->path.string());
}

// Throws Error if all folders are named like parts of a data set, but hold no classes.
void refuse_parts_without_classes(const FolderTree& tree,
                                  const std::vector<const FolderTree*>& folders) {
  const bool are_parts = std::ranges::all_of(
      folders, [](const FolderTree* folder) { return part_named(folder->name()).has_value(); });
  check(!are_parts,
        "'{}' has only the folder{} {}, which sound{} like parts of a data set, not like classes: "
        "expected one for training with a folder for each class in it, or masks, or a CSV of "
        "classes (file,label) in '{}'",
        tree.path.string(), folders.size() == 1 ? "" : "s", some_of(names_of(folders)),
        folders.size() == 1 ? "s" : "", tree.path.string());
}

std::optional<ImageFolder> find_classes(const FolderTree& tree) {
  const std::vector<const FolderTree*> folders = folders_with_images(tree);
  if (folders.empty()) return std::nullopt;
  if (folders.size() == 1)
    if (std::optional<ImageFolder> only = find_layout(*folders.front()))
      return entered(std::move(*only), *folders.front());
  refuse_parts_without_classes(tree, folders);
  refuse_same_folders(tree, folders);
  ImageFolder found{.directory = tree.path};
  for (const FolderTree& folder : tree.folders) {
    if (!folder.has_images()) {
      found.bad.push_back({folder.path, "it is a class without images", BadFile::Lacks::images});
      continue;
    }
    if (part_named(folder.name())) found.notes.push_back(folder.name() + " is taken for a class");
    const auto label = static_cast<int32_t>(found.classes.size());
    found.classes.push_back(folder.name());
    for (const fs::path& image : images_below(folder))
      found.samples.push_back({.image = image, .label = label});
  }
  return found;
}

// A folder of images alone has no layout. So find_classes() enters a single folder only if that has
// a layout, and otherwise takes it for a class.
std::optional<ImageFolder> find_layout(const FolderTree& tree) {
  if (auto found = find_run_lengths(tree)) return found;
  if (auto found = find_mask_folders(tree)) return found;
  if (auto found = find_labels(tree, Guess::no)) return found;
  if (auto found = find_divided(tree)) return found;
  if (auto found = find_masks_beside(tree)) return found;
  if (auto found = find_labels(tree, Guess::yes)) return found;
  return find_classes(tree);
}

// Adds every image that has no use yet to the bad files.
void account_for_images(ImageFolder& folder, const FolderTree& tree) {
  std::set<fs::path> known = folder.unused;
  for (const FolderSample& sample : folder.samples) known.insert({sample.image, sample.mask});
  for (const BadFile& bad : folder.bad) known.insert(bad.path);
  const auto is_known = [&](fs::path path) {
    for (; path != tree.path && path.has_relative_path(); path = path.parent_path())
      if (known.contains(path)) return true;
    return false;
  };
  const bool has_classes = folder.answer == ImageFolder::Answer::classes;
  for (const fs::path& image : images_below(tree))
    if (!is_known(image))
      folder.bad.push_back(has_classes ? BadFile{image, "nothing says its class"}
                                       : BadFile{image, "it has no mask", BadFile::Lacks::mask});
}

void add_findings(ImageFolder& folder, const FolderTree& tree) {
  folder.bad.insert(folder.bad.end(), tree.bad.begin(), tree.bad.end());
  for (const auto& paths : {tree.ignored, tree.tables})
    std::ranges::copy_if(paths, std::back_inserter(folder.ignored),
                         [&](const fs::path& path) { return !folder.tables.contains(path); });
  for (const FolderTree& each : tree.folders) add_findings(folder, each);
}

// Notes the CSV files that are not used: the user may expect the classes to come from them.
void name_unused_tables(ImageFolder& folder) {
  std::vector<std::string> names;
  for (const fs::path& path : folder.ignored)
    if (lower(path.extension().string()) == ".csv") names.push_back(within(folder.directory, path));
  if (!names.empty())
    folder.notes.push_back(some_of(names, 3) + (names.size() == 1 ? " is" : " are") + " not used");
}

// Names the columns of the first CSV in the folder, which no layout understands.
std::string columns_there(const ImageFolder& folder) {
  for (const fs::path& path : folder.ignored) {
    if (lower(path.extension().string()) != ".csv") continue;
    const std::string name = within(folder.directory, path);
    try {
      return fmt::format(" ({} has the columns {})", name, some_of(CsvReader(path).columns(), 6));
    } catch (const Error& error) {
      return fmt::format(" ({})", error.what());
    }
  }
  return "";
}

// FNV-1a of the text, mixed, in [0, 1).
double fraction_of(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const unsigned char c : text) hash = (hash ^ c) * 0x100000001b3;
  return double(mix_bits(hash) >> 11) * 0x1p-53;
}

// Numbers classes in the order of their names, or of their values if all are numbers.
void sort_classes(ImageFolder& folder) {
  if (folder.classes.empty()) return;
  const auto is_number = [](const std::string& name) {
    return !name.empty() && std::ranges::all_of(name, [](char c) { return is_digit(c); });
  };
  std::vector<std::string> sorted = folder.classes;
  if (std::ranges::all_of(sorted, is_number)) std::ranges::sort(sorted, natural_less);
  else std::ranges::sort(sorted);
  std::vector<int32_t> place;  // in `sorted`
  for (const std::string& name : folder.classes)
    place.push_back(static_cast<int32_t>(std::ranges::find(sorted, name) - sorted.begin()));
  for (FolderSample& sample : folder.samples)
    sample.label = place[static_cast<size_t>(sample.label)];
  folder.classes = sorted;
}

// Holds out the images whose paths have hashes below the share. A class that would have no image
// left for training keeps the one with the highest hash.
void hold_out_some(ImageFolder& folder, double share) {
  struct Highest {
    double fraction = -1;
    size_t sample = 0;
    bool is_trained_on = false;
  };
  std::vector<Highest> of_class(folder.classes.size());
  for (size_t i = 0; i < folder.samples.size(); ++i) {
    FolderSample& sample = folder.samples[i];
    const double fraction = fraction_of(within(folder.directory, sample.image));
    if (fraction < share) sample.split = Split::test;
    if (folder.answer != ImageFolder::Answer::classes) continue;
    Highest& highest = of_class[static_cast<size_t>(sample.label)];
    highest.is_trained_on |= fraction >= share;
    if (fraction > highest.fraction) {
      highest.fraction = fraction;
      highest.sample = i;
    }
  }
  for (const Highest& highest : of_class)
    if (highest.fraction >= 0 && !highest.is_trained_on)
      folder.samples[highest.sample].split = Split::train;
}

}  // namespace

std::optional<SetPart> part_named(const std::string& name) {
  for (const std::string& word : words_of(name)) {
    if (word == "train" || word == "training") return SetPart::train;
    if (word == "test" || word == "testing") return SetPart::test;
    if (word == "val" || word == "valid" || word == "validation") return SetPart::validation;
  }
  return std::nullopt;
}

std::optional<SetParts> parts_of(const std::vector<std::string>& names) {
  std::optional<size_t> train;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::optional<SetPart> part = part_named(names[i]);
    if (!part || (part == SetPart::train && train)) return std::nullopt;
    if (part == SetPart::train) train = i;
  }
  if (!train) return std::nullopt;
  SetParts parts{*train, std::nullopt, {}};
  for (const SetPart wanted : {SetPart::test, SetPart::validation})
    for (size_t i = 0; i < names.size(); ++i) {
      if (part_named(names[i]) != wanted) continue;
      if (parts.test) parts.unused.push_back(i);
      else parts.test = i;
    }
  return parts;
}

std::vector<std::string> divide_by_folders(ImageFolder& found, const fs::path& root) {
  const auto folder_of = [&](const fs::path& path) {
    const fs::path inside = path.lexically_relative(root);
    return inside.has_parent_path() ? inside.begin()->string() : std::string();
  };
  std::set<std::string> folders;
  for (const FolderSample& sample : found.samples) folders.insert(folder_of(sample.image));
  const std::vector<std::string> names(folders.begin(), folders.end());
  const std::optional<SetParts> parts = parts_of(names);
  if (!parts) return {};
  std::set<std::string> unused;
  for (const size_t i : parts->unused) unused.insert(names[i]);
  for (const BadFile& bad : found.bad)
    if (const std::string name = folder_of(bad.path); part_named(name) && !folders.contains(name))
      unused.insert(name);
  std::erase_if(found.samples, [&](const FolderSample& sample) {
    return unused.contains(folder_of(sample.image));
  });
  std::erase_if(found.bad,
                [&](const BadFile& bad) { return unused.contains(folder_of(bad.path)); });
  for (const std::string& name : unused) {
    found.unused.insert(root / name);
    found.notes.push_back(within(found.directory, root / name) + " is not used");
  }
  found.is_divided = parts->test.has_value();
  for (FolderSample& sample : found.samples)
    if (parts->test && folder_of(sample.image) == names[*parts->test]) sample.split = Split::test;
  return {unused.begin(), unused.end()};
}

std::string within(const fs::path& directory, const fs::path& path) {
  return path.lexically_relative(directory).generic_string();
}

std::optional<ImageFolder> detail::find_images(const fs::path& directory,
                                               std::optional<double> hold_out) {
  std::error_code ignored;
  check(fs::is_directory(directory, ignored), "'{}' is no folder: expected one of images",
        directory.string());
  const FolderTree tree = read_folder_tree(directory);
  std::optional<ImageFolder> found = find_layout(tree);
  if (!found) return std::nullopt;
  found->directory = directory;
  check(!hold_out || !found->is_divided,
        "a share of {} to be held out has no effect on '{}', which itself says which samples are "
        "for the test; expected none",
        hold_out.value_or(0), directory.string());
  sort_classes(*found);
  account_for_images(*found, tree);
  add_findings(*found, tree);
  name_unused_tables(*found);
  if (!found->is_divided) hold_out_some(*found, hold_out.value_or(usual_hold_out));
  return found;
}

void detail::refuse_layout(const fs::path& directory) {
  const FolderTree tree = read_folder_tree(directory);
  ImageFolder found{.directory = directory};
  add_findings(found, tree);
  std::string holds = "nothing that is known";
  if (tree.has_images())
    holds = "images, but nothing that says their classes or masks" + columns_there(found);
  else if (!found.bad.empty())
    holds = fmt::format("no image, and {} that cannot be used ({})",
                        found.bad.size() == 1 ? "an entry" : "entries", found.bad[0].describe());
  fail(
      "'{}' holds {}: expected folders of images for each class, images/ and masks/, x.png beside "
      "x_mask.png, a CSV of classes (file,label) or of run lengths (Image_Label,EncodedPixels), "
      "each with train/ and test/ or without, CIFAR-10's binary files or IDX files "
      "(train-images-idx3-ubyte)",
      directory.string(), holds);
}

}  // namespace accrue
