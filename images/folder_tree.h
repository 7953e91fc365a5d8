#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace accrue::detail {

// A file or folder of a data set that cannot be used, and why.
struct BadFile {
  std::filesystem::path path;
  std::string reason;
  // The missing part, if nothing else is wrong: an image lacks its mask, or a mask or a class its
  // images.
  enum class Lacks { nothing, mask, images } lacks = Lacks::nothing;

  // The path and the reason, with the path only once.
  std::string describe() const;
};

// A folder and everything below it. Each entry is in exactly one of these lists, in the order of
// the names. Links are followed. A link to a folder that the link itself lies in is not followed
// again; it is among `ignored`.
struct FolderTree {
  std::filesystem::path path;
  std::vector<FolderTree> folders{};
  // Files with the extension of an image format, also of formats that accrue does not read, so that
  // readers report them; and other files whose first bytes say PNG or JPEG.
  std::vector<std::filesystem::path> images{};
  std::vector<std::filesystem::path> tables{};  // .csv and .tsv
  // Entries that commonly lie among images: names that begin with a dot, the traces of operating
  // systems (__MACOSX, Thumbs.db, desktop.ini, ...), and documents, archives and the like by their
  // extensions.
  std::vector<std::filesystem::path> ignored{};
  // Links to nowhere, folders that cannot be listed, and files of any other kind.
  std::vector<BadFile> bad{};

  std::string name() const { return path.filename().string(); }
  bool has_images() const;  // here or below
};

// Lists a folder. Throws no Error for its entries: the ones that cannot be used are in `bad`.
FolderTree read_folder_tree(const std::filesystem::path& directory);

// All images of a folder and below it, in the order of their paths.
std::vector<std::filesystem::path> images_below(const FolderTree& tree);

bool has_image_extension(const std::filesystem::path& path);

}  // namespace accrue::detail
