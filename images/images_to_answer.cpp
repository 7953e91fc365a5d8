#include <algorithm>
#include <set>

#include "core/inside.h"
#include "images/image_folder.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

// The result of find_images(); nothing if that throws Error. With `split`, throws Error instead of
// returning nothing.
std::optional<ImageFolder> layout_of(const fs::path& directory, std::optional<Split> split,
                                     std::optional<double> hold_out) {
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

void add_bad(ImageFolder& folder, const FolderTree& tree) {
  folder.bad.insert(folder.bad.end(), tree.bad.begin(), tree.bad.end());
  for (const FolderTree& each : tree.folders) add_bad(folder, each);
}

void add_images_of(ImageFolder& folder, const fs::path& directory, std::optional<Split> split,
                   std::optional<double> hold_out) {
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
    const FolderTree tree = read_folder_tree(directory);
    for (const fs::path& image : images_below(tree)) images.insert(image);
    if (!found) add_bad(folder, tree);
  }
  for (const fs::path& image : images) folder.samples.push_back({.image = image});
  if (!found) return;
  if (!has_masks) folder.classes = found->classes;
  for (const BadFile& bad : found->bad)  // only images are needed
    if (bad.lacks == BadFile::Lacks::nothing && !images.contains(bad.path))
      folder.bad.push_back(bad);
}

// The deepest directory that has all samples in it or below.
fs::path directory_of(const std::vector<FolderSample>& samples) {
  fs::path common = fs::absolute(samples.front().image).lexically_normal().parent_path();
  for (const FolderSample& sample : samples) {
    const fs::path path = fs::absolute(sample.image).lexically_normal();
    while (path.lexically_relative(common).begin()->string() == "..") common = common.parent_path();
  }
  return common;
}

}  // namespace

ImageFolder detail::find_images_to_answer(const std::vector<fs::path>& paths,
                                          std::optional<Split> split,
                                          std::optional<double> hold_out) {
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
