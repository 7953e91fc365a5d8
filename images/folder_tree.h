#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace accrue::detail {

// A file or folder of a data set that cannot be used, and why.
struct BadFile {
  std::filesystem::path path;
  std::string reason;
  // What it lacks to be a sample, if that is all that is bad: an image its mask, a mask or a class
  // its images.
  enum class Lacks { nothing, mask, images } lacks = Lacks::nothing;

  // The path and the reason, with the path only once.
  std::string describe() const;
};

// A folder and all that is below it. Each of its entries is in exactly one of these lists, in the
// order of the names. Links are followed, but a link to a folder that it lies in is not entered
// again; it is among `ignored`.
struct FolderTree {
  std::filesystem::path path;
  std::vector<FolderTree> folders{};
  // Files by the extensions of images, also of formats that are not read, so that these are
  // reported; and any that begin as PNG or JPEG files do.
  std::vector<std::filesystem::path> images{};
  std::vector<std::filesystem::path> tables{};  // .csv and .tsv
  // What lies among images by custom: names that begin with a dot, what operating systems leave
  // behind (__MACOSX, Thumbs.db, desktop.ini, ...), and documents, archives and the like by their
  // extensions.
  std::vector<std::filesystem::path> ignored{};
  // Links to nowhere, folders that cannot be listed, and files of any other kind.
  std::vector<BadFile> bad{};

  std::string name() const { return path.filename().string(); }
  bool has_images() const;  // here or below
};

// Lists a folder. Throws nothing for what is in it: that is `bad`.
FolderTree read_folder_tree(const std::filesystem::path& directory);

// All images of a folder and below it, in the order of their paths.
std::vector<std::filesystem::path> images_below(const FolderTree& tree);

bool has_image_extension(const std::filesystem::path& path);

}  // namespace accrue::detail
