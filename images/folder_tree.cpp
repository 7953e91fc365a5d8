#include "images/folder_tree.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "core/error.h"
#include "data/byte_stream.h"
#include "data/png.h"
#include "data/words.h"
#include "images/jpeg.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

bool has_extension(const fs::path& path, const std::set<std::string_view>& known) {
  return known.contains(lower(path.extension().string()));
}

bool is_left_by_systems(const std::string& name) {
  static const std::set<std::string_view> known{
      "__macosx",  "thumbs.db", "ehthumbs.db",  "desktop.ini",
      "@eadir",    "icon\r",    "$recycle.bin", "system volume information",
      "lost+found"};
  return name.starts_with('.') || known.contains(lower(name));
}

bool is_document(const fs::path& path) {
  static const std::set<std::string_view> extensions{
      ".7z",     ".bib",         ".bz2",   ".cfg",  ".ckpt",   ".csv",     ".db",    ".doc",
      ".docx",   ".gz",          ".h5",    ".hdf5", ".html",   ".htm",     ".ini",   ".ipynb",
      ".js",     ".json",        ".jsonl", ".lock", ".log",    ".lst",     ".mat",   ".md",
      ".md5",    ".names",       ".npy",   ".npz",  ".onnx",   ".parquet", ".pbtxt", ".pdf",
      ".pickle", ".pkl",         ".pt",    ".pth",  ".py",     ".r",       ".rar",   ".rst",
      ".rtf",    ".safetensors", ".sh",    ".sha1", ".sha256", ".sqlite",  ".tar",   ".tex",
      ".tgz",    ".toml",        ".tsv",   ".txt",  ".url",    ".xls",     ".xlsx",  ".xml",
      ".xz",     ".yaml",        ".yml",   ".zip",  ".zst"};
  static const std::set<std::string_view> names{"authors", "changelog", "citation",   "contents",
                                                "copying", "license",   "licence",    "makefile",
                                                "notice",  "readme",    "sha256sums", "md5sums"};
  return has_extension(path, extensions) || names.contains(lower(path.filename().string()));
}

bool is_table(const fs::path& path) {
  const std::string extension = lower(path.extension().string());
  return extension == ".csv" || extension == ".tsv";
}

// Throws Error if the file cannot be read.
bool begins_as_images_do(const fs::path& path) {
  InputFile file(path);
  std::array<std::byte, 8> start{};
  const auto content = std::span(start).first(file.read(start));
  return is_png(content) || is_jpeg(content);
}

class TreeReader {
 public:
  FolderTree read(const fs::path& directory) {
    FolderTree tree{.path = directory};
    std::error_code error;
    above_.push_back(fs::canonical(directory, error));
    std::vector<fs::path> entries;
    for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
         entry.increment(error))
      entries.push_back(entry->path());
    if (error) tree.bad.push_back({directory, "it cannot be listed: " + error.message()});
    std::ranges::sort(entries);
    for (const fs::path& entry : entries) add(tree, entry);
    above_.pop_back();
    return tree;
  }

 private:
  void add(FolderTree& tree, const fs::path& entry) {
    std::error_code error;
    const fs::file_status status = fs::status(entry, error);
    if (is_left_by_systems(entry.filename().string())) {
      tree.ignored.push_back(entry);
    } else if (fs::is_directory(status)) {
      if (std::ranges::count(above_, fs::canonical(entry, error)) > 0)
        tree.ignored.push_back(entry);
      else tree.folders.push_back(read(entry));
    } else if (fs::is_regular_file(status) && is_table(entry)) {
      tree.tables.push_back(entry);
    } else if (is_document(entry)) {
      tree.ignored.push_back(entry);
    } else if (status.type() == fs::file_type::not_found) {
      tree.bad.push_back({entry, "it is a link to nothing"});
    } else if (error) {
      tree.bad.push_back({entry, "it cannot be read: " + error.message()});
    } else if (!fs::is_regular_file(status)) {
      tree.bad.push_back({entry, "it is neither a file nor a folder"});
    } else {
      add_file(tree, entry);
    }
  }

  static void add_file(FolderTree& tree, const fs::path& file) try {
    if (has_image_extension(file) || begins_as_images_do(file)) tree.images.push_back(file);
    else
      tree.bad.push_back({file,
                          "it is no image, and of no kind that is left alone among images: "
                          "expected PNG or JPEG"});
  } catch (const Error& error) {
    tree.bad.push_back({file, error.what()});
  }

  std::vector<fs::path> above_;  // the folders that are being read
};

void add_images(std::vector<fs::path>& images, const FolderTree& tree) {
  images.insert(images.end(), tree.images.begin(), tree.images.end());
  for (const FolderTree& folder : tree.folders) add_images(images, folder);
}

}  // namespace

std::string BadFile::describe() const {
  const std::string file = path.string();
  return reason.find(file) == std::string::npos ? file + ": " + reason : reason;
}

bool FolderTree::has_images() const {
  return !images.empty() || std::ranges::any_of(folders, &FolderTree::has_images);
}

FolderTree detail::read_folder_tree(const fs::path& directory) {
  return TreeReader().read(directory);
}

std::vector<fs::path> detail::images_below(const FolderTree& tree) {
  std::vector<fs::path> images;
  add_images(images, tree);
  std::ranges::sort(images);
  return images;
}

bool detail::has_image_extension(const fs::path& path) {
  static const std::set<std::string_view> known{
      ".png",  ".jpg",  ".jpeg", ".jpe", ".jfif", ".gif", ".bmp", ".dib", ".tif", ".tiff", ".webp",
      ".heic", ".heif", ".avif", ".jxl", ".jp2",  ".j2k", ".ppm", ".pgm", ".pbm", ".pnm",  ".tga",
      ".dcm",  ".ico",  ".psd",  ".exr", ".hdr",  ".dng", ".cr2", ".nef", ".arw", ".svg"};
  return has_extension(path, known);
}

}  // namespace accrue
