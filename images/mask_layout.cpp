// Images with masks: in folders of their own, or side by side.

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "core/error.h"
#include "data/byte_stream.h"
#include "data/words.h"
#include "images/image_layout.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

using Words = std::set<std::string>;
const Words image_words{"image", "images", "img", "imgs", "im", "sat", "photo", "rgb"};
const Words mask_words{"mask", "masks", "label", "labels",       "lbl",        "gt",
                       "seg",  "segs",  "annot", "segmentation", "annotation", "groundtruth"};
const Words image_folders{"image",  "images", "img",      "imgs",     "jpegimages", "jpgimages",
                          "input",  "inputs", "photo",    "photos",   "pictures",   "pngimages",
                          "frames", "rgb",    "original", "originals"};
const Words mask_folders{"mask",
                         "masks",
                         "label",
                         "labels",
                         "lbl",
                         "annotation",
                         "annotations",
                         "annot",
                         "segmentation",
                         "segmentations",
                         "seg",
                         "segs",
                         "gt",
                         "gts",
                         "segmentationclass",
                         "groundtruth",
                         "groundtruths",
                         "segmentationclasspng",
                         "target",
                         "targets",
                         "segmentationclassraw"};

// The stem without a word at its end or its beginning: x of x_mask and of mask_x.
std::string without_word(const std::string& stem, const Words& words) {
  const auto is_joint = [](char c) { return c == '_' || c == '-' || c == '.' || c == ' '; };
  const auto last = std::find_if(stem.rbegin(), stem.rend(), is_joint);
  if (last != stem.rend() && words.contains(lower(std::string(last.base(), stem.end()))))
    return {stem.begin(), last.base() - 1};
  const auto first = std::ranges::find_if(stem, is_joint);
  if (first != stem.end() && words.contains(lower(std::string(stem.begin(), first))))
    return {first + 1, stem.end()};
  return stem;
}

// One side of the pairs: its files, and the folder that their names are relative to.
struct Side {
  fs::path root;
  std::vector<fs::path> files;

  std::string key(const fs::path& file, const std::string& stem) const {
    return within(root, file.parent_path() / stem);
  }
};

using Places = std::map<std::string, size_t>;

std::optional<size_t> place_in(const Places& places, const std::string& name) {
  const auto found = places.find(name);
  return found == places.end() ? std::nullopt : std::optional(found->second);
}

// Pairs images with masks of the same names, or of names that differ only by the words above.
void add_pairs(ImageFolder& folder, const Side& images, const Side& masks) {
  Places by_name, by_base;  // in images.files
  for (size_t i = 0; i < images.files.size(); ++i) {
    const fs::path& image = images.files[i];
    const std::string stem = image.stem().string();
    by_name.emplace(images.key(image, stem), i);
    by_base.emplace(images.key(image, without_word(stem, image_words)), i);
  }
  // The first of several images of one name. Only this one can have its mask.
  const auto namesake = [&](const fs::path& image) -> const fs::path& {
    const size_t first = by_name.at(images.key(image, image.stem().string()));
    return images.files[first];
  };
  std::vector<fs::path> mask_of(images.files.size());
  for (const fs::path& mask : masks.files) {
    const std::string name = masks.key(mask, mask.stem().string()),
                      base = masks.key(mask, without_word(mask.stem().string(), mask_words));
    std::optional<size_t> i = place_in(by_name, name);
    if (!i) i = place_in(by_name, base);
    if (!i) i = place_in(by_base, base);
    if (!i) folder.bad.push_back({mask, "it has no image", BadFile::Lacks::images});
    else if (!mask_of[*i].empty())
      folder.bad.push_back({mask, "there is another mask for the same image"});
    else mask_of[*i] = mask;
  }
  for (size_t i = 0; i < mask_of.size(); ++i)
    if (const fs::path& image = images.files[i]; namesake(image) != image)
      folder.bad.push_back(
          {image, fmt::format("it has the name of {} with another extension, and a mask is for "
                              "one image: expected one of the two",
                              namesake(image).filename().string())});
    else if (mask_of[i].empty())
      folder.bad.push_back({image, "it has no mask", BadFile::Lacks::mask});
    else folder.samples.push_back({.image = images.files[i], .mask = mask_of[i]});
}

// The content of a folder by its name, without words like train.
std::string role_of(const FolderTree& folder) {
  std::string role;
  for (const std::string& word : words_of(folder.name()))
    if (!part_named(word)) role += word;
  return role;
}

struct FolderPair {
  const FolderTree *images, *masks;
};

bool share_a_name(const FolderTree& images, const FolderTree& masks) {
  ImageFolder pairs;
  add_pairs(pairs, {images.path, images_below(images)}, {masks.path, images_below(masks)});
  return !pairs.samples.empty();
}

bool belong_together(const FolderTree& images, const FolderTree& masks) {
  if (image_folders.contains(role_of(images)) && mask_folders.contains(role_of(masks)))
    return part_named(images.name()) == part_named(masks.name());
  const std::string name = lower(images.name()), longer = lower(masks.name());
  return longer.starts_with(name) &&
         mask_folders.contains(letters_and_digits(longer.substr(name.size()))) &&
         share_a_name(images, masks);
}

std::vector<FolderPair> pairs_in(const FolderTree& tree) {
  std::vector<FolderPair> pairs;
  for (const FolderTree& images : tree.folders)
    for (const FolderTree& masks : tree.folders) {
      if (&images == &masks || !images.has_images() || !belong_together(images, masks)) continue;
      for (const FolderPair& other : pairs)
        check(other.images != &images && other.masks != &masks,
              "'{}' has masks in {} or in {}, and images in {} or in {}: expected one folder for "
              "each; move the others away",
              tree.path.string(), other.masks->name(), masks.name(), other.images->name(),
              images.name());
      pairs.push_back({&images, &masks});
    }
  return pairs;
}

void leave(ImageFolder& folder, const fs::path& path, const std::string& name) {
  folder.unused.insert(path);
  folder.notes.push_back(name + " is not used");
}

// The names in a list of VOC, a line each, and the lines' numbers.
std::map<std::string, int64_t> read_list(const fs::path& path) {
  const std::vector<std::byte> content = file_content(path);
  std::istringstream text(
      std::string(reinterpret_cast<const char*>(content.data()), content.size()));
  std::map<std::string, int64_t> names;
  std::string line, name;
  for (int64_t number = 1; std::getline(text, line); ++number)
    if (std::istringstream(line) >> name) names.emplace(name, number);
  return names;
}

// Keeps the samples that VOC's lists name.
void divide_by_lists(ImageFolder& found, const fs::path& folder) {
  std::vector<fs::path> lists;
  std::vector<std::string> names;
  for (const char* name : {"train", "val", "test"}) {
    const fs::path list = folder / (std::string(name) + ".txt");
    if (std::error_code ignored; !fs::exists(list, ignored)) continue;
    lists.push_back(list);
    names.emplace_back(name);
  }
  const std::optional<SetParts> parts = parts_of(names);
  if (!parts) return;
  std::map<std::string, FolderSample> of_name;
  for (FolderSample& sample : found.samples)
    of_name.emplace(sample.image.stem().string(), std::move(sample));
  std::vector<BadFile> bad;
  std::swap(bad, found.bad);
  found.samples.clear();
  const auto take = [&](size_t list, Split split) {
    found.tables.insert(lists[list]);
    for (const auto& [name, line] : read_list(lists[list])) {
      const auto sample = of_name.find(name);
      if (sample == of_name.end()) {
        found.bad.push_back(
            {lists[list], fmt::format("line {}: {} has no image with a mask", line, name)});
        continue;
      }
      sample->second.split = split;
      found.samples.push_back(std::move(sample->second));
      of_name.erase(sample);
    }
  };
  take(parts->train, Split::train);
  if (parts->test) take(*parts->test, Split::test);
  found.is_divided = parts->test.has_value();
  for (const auto& [name, sample] : of_name) found.unused.insert({sample.image, sample.mask});
  for (const BadFile& each : bad) found.unused.insert(each.path);
  const size_t unnamed = of_name.size() + bad.size();
  found.notes.push_back(
      "by the lists in " + folder.string() +
      (unnamed == 0 ? ""
                    : fmt::format("; {} that they do not name {} not used",
                                  counted(unnamed, "image"), unnamed == 1 ? "is" : "are")));
}

const FolderTree* folder_named(const FolderTree& tree, const std::string& name) {
  const auto found = std::ranges::find_if(
      tree.folders, [&](const FolderTree& each) { return lower(each.name()) == name; });
  return found == tree.folders.end() ? nullptr : &*found;
}

ImageFolder pair_up(const FolderTree& tree, const FolderPair& pair) {
  ImageFolder found{.directory = tree.path, .answer = ImageFolder::Answer::masks};
  add_pairs(found, {pair.images->path, images_below(*pair.images)},
            {pair.masks->path, images_below(*pair.masks)});
  for (const std::string& name : divide_by_folders(found, pair.images->path))
    found.unused.insert(pair.masks->path / name);
  if (const FolderTree* sets = folder_named(tree, "imagesets"))
    if (const FolderTree* lists = folder_named(*sets, "segmentation"))
      divide_by_lists(found, lists->path);
  return found;
}

}  // namespace

std::optional<ImageFolder> find_mask_folders(const FolderTree& tree) {
  const std::vector<FolderPair> pairs = pairs_in(tree);
  if (pairs.empty()) return std::nullopt;
  ImageFolder found = pair_up(tree, pairs.front());
  std::vector<std::string> names;
  for (const FolderPair& pair : pairs) names.push_back(pair.images->name());
  if (pairs.size() > 1) {
    const std::optional<SetParts> parts = parts_of(names);
    check(parts.has_value(),
          "'{}' has images and masks in {}: expected one pair of folders, or one for training and "
          "one for the test (train, test)",
          tree.path.string(), some_of(names));
    found = pair_up(tree, pairs[parts->train]);
    if (parts->test) {
      ImageFolder test = pair_up(tree, pairs[*parts->test]);
      for (FolderSample& sample : test.samples) sample.split = Split::test;
      found.samples.insert(found.samples.end(), test.samples.begin(), test.samples.end());
      found.bad.insert(found.bad.end(), test.bad.begin(), test.bad.end());
      found.is_divided = true;
    }
    for (const size_t i : parts->unused) {
      leave(found, pairs[i].images->path, names[i]);
      found.unused.insert(pairs[i].masks->path);
    }
  }
  for (const FolderTree& folder : tree.folders)
    if (folder.has_images() && std::ranges::none_of(pairs, [&](const FolderPair& pair) {
          return pair.images == &folder || pair.masks == &folder;
        }))
      leave(found, folder.path, folder.name());
  return found;
}

std::optional<ImageFolder> find_masks_beside(const FolderTree& tree) {
  Side images{tree.path, {}}, masks{tree.path, {}};
  for (const fs::path& file : images_below(tree)) {
    const std::string stem = file.stem().string();
    (without_word(stem, mask_words) == stem ? images : masks).files.push_back(file);
  }
  ImageFolder found{.directory = tree.path, .answer = ImageFolder::Answer::masks};
  add_pairs(found, images, masks);
  if (found.samples.empty()) return std::nullopt;
  return found;
}

}  // namespace accrue
