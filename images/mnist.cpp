#include "images/mnist.h"

#include <fmt/ranges.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "data/idx.h"
#include "data/words.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

// The names by which one of the four files may go: "train-images-idx3-ubyte" and the like.
std::vector<std::string> spellings(Split split, const std::string& what) {
  const std::string format = what == "images" ? "idx3-ubyte" : "idx1-ubyte";
  const std::vector<std::string> stems = split == Split::train
                                             ? std::vector<std::string>{"train-"}
                                             : std::vector<std::string>{"t10k-", "test-"};
  std::vector<std::string> names;
  for (const std::string& stem : stems)
    for (const char* separator : {"-", "."})
      for (const char* suffix : {"", ".gz"})
        names.push_back(stem + what + separator + format + suffix);
  return names;
}

// A file in a directory with one of these names, perhaps after a prefix, which is `beginning`
// ("emnist-letters-").
struct NamedFile {
  fs::path path;
  std::string beginning{};
};
std::vector<NamedFile> files_named(const fs::path& directory,
                                   const std::vector<std::string>& names) {
  std::error_code ignored;  // a directory that cannot be reached lacks the file
  for (const std::string& name : names)
    if (fs::exists(directory / name, ignored)) return {{directory / name}};
  std::vector<NamedFile> found;
  for (fs::directory_iterator entry(directory, ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    const std::string file = entry->path().filename().string();
    const auto name = std::ranges::find_if(
        names, [&](const std::string& each) { return file.ends_with('-' + each); });
    if (name == names.end()) continue;
    const std::string beginning = file.substr(0, file.size() - name->size());
    if (std::ranges::find(found, beginning, &NamedFile::beginning) == found.end())
      found.push_back({entry->path(), beginning});
  }
  std::ranges::sort(found, {}, &NamedFile::beginning);
  return found;
}

// Not $HOME: the result must not depend on the environment.
fs::path home() {
  const passwd* user = ::getpwuid(::getuid());
  return user && user->pw_dir ? user->pw_dir : "/";
}

std::vector<fs::path> places(const std::string& name, const fs::path& data_dir) {
  const std::vector<std::string> folders =
      name == "mnist" ? std::vector<std::string>{"mnist", "MNIST/raw"}
                      : std::vector<std::string>{"fashion", "fashion-mnist", "FashionMNIST/raw"};
  std::vector<fs::path> found;
  const auto add_folders_of = [&](const fs::path& base) {
    for (const std::string& folder : folders) found.push_back(base / folder);
  };
  if (!data_dir.empty()) {
    add_folders_of(data_dir);
    // The files of mnist and fashion have the same names. A directory must therefore be named after
    // the data set, unless the user gave it.
    found.push_back(data_dir);
  }
  add_folders_of("data");
  add_folders_of(home() / ".cache/accrue");
  return found;
}

// The classes of a directory's files, from their labels.
struct IdxClasses {
  int64_t first = 0, last = 0;            // labels
  std::array<std::set<int>, 2> labels{};  // the ones that occur in each split

  int64_t count() const { return last - first + 1; }
  // "labels 1 to 26 are the classes", and the classes that only one split has
  std::string about() const {
    std::vector<std::string> parts;
    if (first > 0) parts.push_back(fmt::format("labels {} to {} are the classes", first, last));
    const auto add = [&](size_t in, size_t not_in, const char* where) {
      std::vector<std::string> names;
      for (const int label : labels[in])
        if (!labels[not_in].contains(label)) names.push_back(std::to_string(label));
      if (!names.empty()) parts.push_back(fmt::format("no class {} {}", some_of(names), where));
    };
    add(0, 1, "in the test");
    add(1, 0, "in training");
    return fmt::format("{}", fmt::join(parts, "; "));
  }
};

void add_labels(IdxClasses& classes, const fs::path& directory, Split split) {
  const auto found = files_named(directory, spellings(split, "labels"));
  if (found.size() != 1) return;
  std::set<int>& labels = classes.labels[split == Split::train ? 0 : 1];
  try {
    const Tensor all = read_idx_labels(found.front().path);
    for (const int32_t label : all.span<int32_t>()) labels.insert(label);
  } catch (const Error&) {  // the function that needs the file reports it
  }
}

IdxClasses idx_classes_in(const fs::path& directory) {
  IdxClasses classes;
  for (const Split split : {Split::train, Split::test}) add_labels(classes, directory, split);
  std::set<int> all = classes.labels[0];
  all.insert(classes.labels[1].begin(), classes.labels[1].end());
  if (all.empty()) return classes;
  classes.first = *all.begin() == 1 ? 1 : 0;
  classes.last = *all.rbegin();
  // A part of MNIST may lack some of the ten classes.
  check(classes.count() <= 10 || 2 * static_cast<int64_t>(all.size()) >= classes.count(),
        "'{}': the labels go up to {}, but only {} different ones occur: expected labels from 0 or "
        "1 on without such gaps",
        directory.string(), classes.last, all.size());
  return classes;
}

}  // namespace

fs::path find_mnist_file(const fs::path& directory, Split split, const std::string& what) {
  const std::vector<std::string> names = spellings(split, what);
  const std::vector<NamedFile> found = files_named(directory, names);
  check(!found.empty(), "no {} in '{}' (nor {}, nor with .gz)", names[0], directory.string(),
        names[2]);
  std::vector<std::string> beginnings;
  for (const NamedFile& file : found) beginnings.push_back(file.path.filename().string());
  check(found.size() == 1, "'{}' has several sets of IDX files, {}: expected one in a directory",
        directory.string(), some_of(beginnings));
  return found.front().path;
}

bool holds_mnist(const fs::path& directory) {
  return !files_named(directory, spellings(Split::train, "images")).empty();
}

Dataset load_mnist(const fs::path& directory, Split split) {
  const MemoryScope scope(split == Split::train ? "training data" : "test data");
  const fs::path images_path = find_mnist_file(directory, split, "images");
  const fs::path labels_path = find_mnist_file(directory, split, "labels");
  Dataset dataset{directory.string(), directory.string()};
  dataset.fields = {{"images", read_idx_images(images_path), Encoding::pixel},
                    {"labels", read_idx_labels(labels_path), Encoding::index}};
  Field& labels = dataset.fields[1];
  check(labels.values.size(0) == dataset.size(),
        "'{}' has {} images but '{}' has {} labels; they belong to different data sets",
        images_path.string(), dataset.size(), labels_path.string(), labels.values.size(0));
  const IdxClasses classes = idx_classes_in(directory);
  dataset.about = classes.about();
  labels.classes = classes.count();
  if (classes.first == 0) return dataset;
  for (int32_t& label : labels.values.span<int32_t>()) label -= static_cast<int32_t>(classes.first);
  for (int64_t label = classes.first; label <= classes.last; ++label)
    labels.class_names.push_back(std::to_string(label));
  return dataset;
}

std::optional<fs::path> find_mnist(const std::string& name, const fs::path& data_dir) {
  if (name != "mnist" && name != "fashion") return std::nullopt;
  const auto searched = places(name, data_dir);
  const auto place = std::ranges::find_if(searched, holds_mnist);
  return place == searched.end() ? std::nullopt : std::optional(*place);
}

fs::path mnist_directory(const std::string& name, const fs::path& data_dir) {
  if (const auto place = find_mnist(name, data_dir)) return *place;
  std::vector<std::string> names;
  for (const fs::path& path : places(name, data_dir))
    names.push_back(fmt::format("'{}'", path.string()));
  fail(
      "the data set {} was not found: no train-images-idx3-ubyte[.gz] in {}; expected its "
      "directory (the setting data-dir), {}or the built-in digits",
      name, fmt::join(names, ", "),
      name == "mnist" ? "scripts/fetch_mnist.sh to download it, " : "");
}

Datasets load_mnist(const fs::path& directory, const std::string& name, OneClass one_class) {
  Datasets sets{load_mnist(directory, Split::train), load_mnist(directory, Split::test)};
  const Shape& train = sets.train["images"].shape();
  const Shape& test = sets.test["images"].shape();
  check(train == test.with(0, sets.train.size()),
        "'{}': the training images are {} but the test images {}; they belong to different data "
        "sets",
        directory.string(), train, test);
  const auto labels = sets.train["labels"].span<int32_t>();
  check(one_class == OneClass::allowed ||
            std::ranges::any_of(labels, [&](int32_t label) { return label != labels.front(); }),
        "'{}': all labels for training are {}, which teaches nothing: expected two classes or more",
        directory.string(), sets.train.field("labels").class_name(labels.front()));
  sets.train.name = sets.test.name = name;
  return sets;
}

}  // namespace accrue
