#include "data/image_folder.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>

#include "core/random.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

// Also of formats that are not read, so that they are reported and not passed over.
bool has_image_extension(const fs::path& path) {
  static const std::set<std::string> known{".png", ".jpg", ".jpeg", ".gif",
                                           ".bmp", ".tif", ".tiff", ".webp"};
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return known.contains(extension);
}

// In the order of their names, whatever the file system's.
template <class Wanted>
std::vector<fs::path> entries_of(const fs::path& directory, Wanted wanted) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored))
    if (!is_hidden(entry.path()) && wanted(entry)) found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

std::vector<fs::path> folders_in(const fs::path& directory) {
  return entries_of(directory, [](const auto& entry) {
    std::error_code ignored;
    return entry.is_directory(ignored);
  });
}

std::vector<fs::path> images_in_folder(const fs::path& directory) {
  return entries_of(directory, [](const auto& entry) {
    std::error_code ignored;
    return entry.is_regular_file(ignored) && has_image_extension(entry.path());
  });
}

std::vector<fs::path> images_below(const fs::path& directory) {
  std::vector<fs::path> found = images_in_folder(directory);
  for (const fs::path& folder : folders_in(directory)) {
    if (fs::is_symlink(folder)) continue;  // which may lead back here
    const std::vector<fs::path> more = images_below(folder);
    found.insert(found.end(), more.begin(), more.end());
  }
  std::ranges::sort(found);
  return found;
}

constexpr std::string_view mask_ending = "_mask";

bool is_mask_name(const fs::path& path) { return path.stem().string().ends_with(mask_ending); }

// Images beside the masks of their stems, with or without the ending.
void add_pairs(ImageFolder& folder, const std::vector<fs::path>& images,
               const std::vector<fs::path>& masks, Split split) {
  std::map<std::string, fs::path> mask_of;
  for (const fs::path& mask : masks) {
    std::string stem = mask.stem().string();
    if (is_mask_name(mask)) stem.resize(stem.size() - mask_ending.size());
    if (!mask_of.emplace(stem, mask).second)
      folder.bad.push_back({mask, "there is another mask for the same image"});
  }
  for (const fs::path& image : images) {
    const auto found = mask_of.find(image.stem().string());
    if (found == mask_of.end()) {
      folder.bad.push_back({image, "it has no mask", BadFile::Lacks::mask});
      continue;
    }
    folder.samples.push_back({.image = image, .mask = found->second, .split = split});
    mask_of.erase(found);
  }
  for (const auto& [stem, mask] : mask_of)
    folder.bad.push_back({mask, "it has no image", BadFile::Lacks::images});
}

fs::path run_lengths_in(const fs::path& directory) {
  for (const fs::path& path :
       entries_of(directory, [](const auto& entry) { return entry.path().extension() == ".csv"; }))
    if (holds_run_lengths(path)) return path;
  return {};
}

void add_run_lengths(ImageFolder& folder, const fs::path& csv) {
  folder.answer = ImageFolder::Answer::run_lengths;
  folder.runs_file = csv;
  std::map<std::string, std::vector<RunLengths>> of_image;
  std::set<std::string> labels;
  for (RunLengths& line : read_run_lengths(csv)) {
    labels.insert(line.label);
    of_image[line.image].push_back(std::move(line));
  }
  folder.classes.assign(labels.begin(), labels.end());
  // That with the first image, of those that may have one.
  fs::path place = csv.parent_path();
  for (const fs::path& each : folders_in(csv.parent_path()))
    if (std::error_code ignored; fs::exists(each / of_image.begin()->first, ignored)) place = each;
  for (auto& [name, lines] : of_image) {
    const fs::path image = place / name;
    if (std::error_code ignored; fs::exists(image, ignored))
      folder.samples.push_back({.image = image, .runs = std::move(lines)});
    else folder.bad.push_back({image, "it is missing, but the CSV file has masks of it"});
  }
}

// The samples of a directory that is not divided; false if it is none.
bool add_samples(ImageFolder& folder, const fs::path& directory, Split split) {
  using Answer = ImageFolder::Answer;
  const fs::path images = directory / "images", masks = directory / "masks";
  std::error_code ignored;
  if (fs::is_directory(images, ignored) && fs::is_directory(masks, ignored)) {
    folder.answer = Answer::masks;
    add_pairs(folder, images_in_folder(images), images_in_folder(masks), split);
    return true;
  }
  std::vector<fs::path> beside = images_in_folder(directory), found_masks;
  std::ranges::copy_if(beside, std::back_inserter(found_masks), is_mask_name);
  if (!found_masks.empty()) {
    folder.answer = Answer::masks;
    std::erase_if(beside, is_mask_name);
    add_pairs(folder, beside, found_masks, split);
    return true;
  }
  const std::vector<fs::path> classes = folders_in(directory);
  std::vector<std::vector<fs::path>> files(classes.size());
  std::ranges::transform(classes, files.begin(), images_below);
  if (std::ranges::all_of(files, [](const auto& none) { return none.empty(); })) return false;
  for (size_t k = 0; k < classes.size(); ++k) {
    const std::string name = classes[k].filename().string();
    if (files[k].empty())
      folder.bad.push_back({classes[k], "it is a class without images", BadFile::Lacks::images});
    auto known = std::ranges::find(folder.classes, name);
    if (known == folder.classes.end()) known = folder.classes.insert(known, name);
    const auto label = static_cast<int32_t>(known - folder.classes.begin());
    for (const fs::path& file : files[k])
      folder.samples.push_back({.image = file, .label = label, .split = split});
  }
  folder.answer = Answer::classes;
  return true;
}

// FNV-1a of the text, mixed, in [0, 1).
double fraction_of(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const unsigned char c : text) hash = (hash ^ c) * 0x100000001b3;
  return double(mix_bits(hash) >> 11) * 0x1p-53;
}

// Numbers classes in the order of their names.
void sort_classes(ImageFolder& folder) {
  std::vector<std::string> sorted = folder.classes;
  std::ranges::sort(sorted);
  for (FolderSample& sample : folder.samples) {
    if (folder.classes.empty()) break;
    const std::string& name = folder.classes[static_cast<size_t>(sample.label)];
    sample.label = static_cast<int32_t>(std::ranges::lower_bound(sorted, name) - sorted.begin());
  }
  folder.classes = sorted;
}

}  // namespace

std::string BadFile::describe() const {
  const std::string file = path.string();
  return reason.find(file) == std::string::npos ? file + ": " + reason : reason;
}

std::optional<ImageFolder> find_images(const fs::path& directory, double hold_out) {
  ImageFolder folder{.directory = directory};
  std::error_code ignored;
  bool divided = false;
  if (const fs::path csv = run_lengths_in(directory); !csv.empty()) {
    add_run_lengths(folder, csv);
  } else if (const fs::path train = directory / "train"; fs::is_directory(train, ignored)) {
    if (!add_samples(folder, train, Split::train)) return std::nullopt;
    const auto answer = folder.answer;
    for (const char* name : {"test", "val", "valid", "validation"}) {
      const fs::path test = directory / name;
      divided = fs::is_directory(test, ignored) && add_samples(folder, test, Split::test);
      check(!divided || folder.answer == answer,
            "'{}' holds {}, but '{}' {}: expected the same of both", train.string(),
            answer == ImageFolder::Answer::masks ? "masks" : "a folder for each class",
            test.string(), answer == ImageFolder::Answer::masks ? "none" : "masks");
      if (divided) break;
    }
  } else if (!add_samples(folder, directory, Split::train)) {
    return std::nullopt;
  }
  sort_classes(folder);
  folder.is_divided = divided;
  for (FolderSample& sample : folder.samples)
    if (!divided &&
        fraction_of(sample.image.lexically_relative(directory).generic_string()) < hold_out)
      sample.split = Split::test;
  return folder;
}

namespace {

// What a directory is to learn from; nothing if it cannot be, which matters to a split alone.
std::optional<ImageFolder> layout_of(const fs::path& directory, std::optional<Split> split,
                                     double hold_out) {
  try {
    auto found = find_images(directory, hold_out);
    check(found || !split,
          "'{}' has no parts for training and for the test: expected no split of it",
          directory.string());
    return found;
  } catch (const Error&) {
    if (split) throw;
    return std::nullopt;
  }
}

void add_images_of(ImageFolder& folder, const fs::path& directory, std::optional<Split> split,
                   double hold_out) {
  const auto found = layout_of(directory, split, hold_out);
  const bool has_masks = found && found->answer != ImageFolder::Answer::classes,
             is_in_parts = split || (found && found->is_divided);
  std::set<fs::path> images;
  if (has_masks || is_in_parts) {
    for (const FolderSample& sample : found->samples)
      if (!is_in_parts || sample.split == split.value_or(Split::test)) images.insert(sample.image);
    for (const BadFile& bad : found->bad)
      if (bad.lacks == BadFile::Lacks::mask && !is_in_parts) images.insert(bad.path);
  } else {
    for (const fs::path& image : images_below(directory)) images.insert(image);
  }
  for (const fs::path& image : images) folder.samples.push_back({.image = image});
  if (!found) return;
  if (!has_masks) folder.classes = found->classes;
  for (const BadFile& bad : found->bad)  // images are all that is wanted
    if (bad.lacks == BadFile::Lacks::nothing && !images.contains(bad.path))
      folder.bad.push_back(bad);
}

// The directory in which all of them lie.
fs::path directory_of(const std::vector<FolderSample>& samples) {
  fs::path common = fs::absolute(samples.front().image).lexically_normal().parent_path();
  for (const FolderSample& sample : samples) {
    const fs::path path = fs::absolute(sample.image).lexically_normal();
    while (path.lexically_relative(common).begin()->string() == "..") common = common.parent_path();
  }
  return common;
}

}  // namespace

ImageFolder find_images_to_answer(const std::vector<fs::path>& paths, std::optional<Split> split,
                                  double hold_out) {
  ImageFolder folder{.answer = ImageFolder::Answer::none};
  std::error_code ignored;
  for (const fs::path& path : paths) {
    const bool is_directory = fs::is_directory(path, ignored);
    check(is_directory || fs::exists(path, ignored),
          "'{}' is not there: expected an image, or a folder of images", path.string());
    check(is_directory || !split, "'{}' is a file: expected no split of it", path.string());
    if (is_directory) add_images_of(folder, path, split, hold_out);
    else folder.samples.push_back({.image = path});
  }
  const bool is_one_directory = paths.size() == 1 && fs::is_directory(paths.front(), ignored);
  check(!folder.samples.empty(), "'{}' holds no images: expected PNG or JPEG files",
        paths.front().string());
  folder.directory = is_one_directory ? paths.front() : directory_of(folder.samples);
  std::set<fs::path> seen;
  for (FolderSample& sample : folder.samples) {
    sample.split = Split::test;
    if (!is_one_directory) sample.image = fs::absolute(sample.image).lexically_normal();
    check(seen.insert(sample.image).second, "'{}' is given twice: expected each image once",
          sample.image.string());
  }
  std::ranges::sort(folder.samples, {}, &FolderSample::image);
  return folder;
}

}  // namespace accrue
