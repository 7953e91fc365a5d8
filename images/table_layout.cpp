// Images that a CSV file names.

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "core/error.h"
#include "data/words.h"
#include "images/image_columns.h"
#include "images/image_layout.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

// The images of a folder by the names that a CSV gives them: "a.jpg", "a", "train/a.jpg",
// ".\train\a.jpg". If several folders have an image of a name, the folder that has most of the
// names counts.
class ImagesByName {
 public:
  explicit ImagesByName(const FolderTree& tree) {
    for (const fs::path& image : images_below(tree)) {
      of_file_[image.filename().string()].push_back(image);
      if (image.has_extension()) of_file_[image.stem().string()].push_back(image);
    }
  }

  // Counts a name for each folder that it could be in. Call this for all names before find().
  void add(const std::string& name) {
    for (const Place& place : places_of(name)) ++names_within_[place.root];
  }
  bool has_any() const { return !names_within_.empty(); }

  struct Found {
    fs::path image{};
    std::string problem{};
  };
  Found find(const std::string& name) const {
    std::vector<Place> places = places_of(name);
    if (places.empty()) return {{}, "there is no such image"};
    const auto names_within = [&](const Place& place) { return names_within_.at(place.root); };
    std::ranges::stable_sort(places, std::greater(), names_within);
    if (places.size() > 1 && names_within(places[0]) == names_within(places[1]))
      return {{},
              fmt::format("it could be '{}' or '{}'", places[0].image.string(),
                          places[1].image.string())};
    return {places.front().image, {}};
  }

 private:
  struct Place {
    fs::path image, root;
  };

  std::vector<Place> places_of(std::string name) const {
    std::ranges::replace(name, '\\', '/');
    const fs::path wanted = fs::path(name).lexically_normal().relative_path();
    const auto found = of_file_.find(wanted.filename().string());
    std::vector<Place> places;
    if (found == of_file_.end()) return places;
    for (const fs::path& image : found->second) {
      fs::path root = image.parent_path(), folders = wanted.parent_path();
      while (!folders.empty() && folders.filename() == root.filename()) {
        root = root.parent_path();
        folders = folders.parent_path();
      }
      if (folders.empty()) places.push_back({image, root});
    }
    return places;
  }

  std::map<std::string, std::vector<fs::path>> of_file_;
  std::map<fs::path, int64_t> names_within_;
};

// Marks folders as unused if the CSV names none of their images.
void leave_other_folders(ImageFolder& found, const FolderTree& tree) {
  std::set<fs::path> used;
  for (const FolderSample& sample : found.samples)
    for (fs::path folder = sample.image.parent_path(); used.insert(folder).second;)
      folder = folder.parent_path();
  const auto leave = [&](const FolderTree& folder, const auto& self) -> void {
    for (const FolderTree& each : folder.folders) {
      if (used.contains(each.path)) self(each, self);
      else if (each.has_images()) {
        found.unused.insert(each.path);
        found.notes.push_back(within(tree.path, each.path) + " is not used");
      }
    }
  };
  leave(tree, leave);
}

// Kaggle's sample of a submission has the columns of the true labels.
bool is_example(const fs::path& csv) {
  return lower(csv.filename().string()).find("submission") != std::string::npos;
}

std::string names_of(const std::vector<fs::path>& paths) {
  std::vector<std::string> names;
  for (const fs::path& path : paths) names.push_back(path.filename().string());
  return some_of(names);
}

bool is_empty_file(const fs::path& path) {
  std::error_code ignored;
  return fs::file_size(path, ignored) == 0;
}

std::vector<fs::path> tables_of(const FolderTree& tree) {
  std::vector<fs::path> tables;
  std::ranges::copy_if(tree.tables, std::back_inserter(tables),
                       [](const fs::path& csv) { return !is_example(csv) && !is_empty_file(csv); });
  return tables;
}

}  // namespace

std::optional<ImageFolder> find_run_lengths(const FolderTree& tree) {
  std::vector<fs::path> tables = tables_of(tree);
  if (!tree.has_images()) return std::nullopt;
  std::erase_if(tables, [](const fs::path& csv) { return !holds_run_lengths(csv); });
  if (tables.empty()) return std::nullopt;
  check(tables.size() == 1, "'{}' has several CSV files of run lengths, {}: expected one",
        tree.path.string(), names_of(tables));
  const fs::path& csv = tables.front();
  ImageFolder found{.directory = tree.path,
                    .answer = ImageFolder::Answer::run_lengths,
                    .runs_file = csv,
                    .tables = {csv}};
  std::map<std::string, std::vector<RunLengths>> of_image;
  std::set<std::string> labels;
  ImagesByName images(tree);
  for (RunLengths& line : read_run_lengths(csv)) {
    labels.insert(line.label);
    of_image[line.image].push_back(std::move(line));
  }
  for (const auto& [name, lines] : of_image) images.add(name);
  found.classes.assign(labels.begin(), labels.end());
  for (auto& [name, lines] : of_image) {
    const auto [image, problem] = images.find(name);
    if (!problem.empty())
      found.bad.push_back({csv, fmt::format("line {}: {}: {}", lines.front().line, name, problem)});
    else found.samples.push_back({.image = image, .runs = std::move(lines)});
  }
  check(!found.samples.empty(), "'{}' has none of the images that '{}' names, such as '{}'",
        tree.path.string(), csv.filename().string(), of_image.begin()->first);
  found.notes.push_back("run lengths of " + csv.filename().string());
  divide_by_folders(found, tree.path);
  leave_other_folders(found, tree);
  return found;
}

namespace {

// A CSV of classes, and the name of the column that has them.
struct LabelTable {
  fs::path csv;
  std::string label_name;
  std::vector<ImageLabel> lines;
};

// True if there are folders that may be classes and not just hold the images of a CSV.
bool holds_classes(const FolderTree& tree) {
  const auto may_be_class = [](const FolderTree& folder) {
    return folder.has_images() && !part_named(folder.name());
  };
  return std::ranges::count_if(tree.folders, may_be_class) > 1;
}

std::vector<LabelTable> label_tables(const FolderTree& tree, Guess guess) {
  std::vector<LabelTable> tables;
  for (const fs::path& csv : tables_of(tree)) {
    const std::optional<LabelColumns> columns = label_columns(csv);
    if (!columns) continue;
    if (guess == Guess::no && columns->certainty == LabelColumns::Certainty::guessed) continue;
    LabelTable table{csv, columns->label_name, read_labels(csv)};
    ImagesByName images(tree);
    for (const ImageLabel& line : table.lines) images.add(line.image);
    if (images.has_any()) tables.push_back(std::move(table));
  }
  return tables;
}

// The parts of the data set: the names of several tables, or the different fields in one table's
// column of parts.
std::vector<std::string> names_of_parts(const std::vector<LabelTable>& tables) {
  std::vector<std::string> names;
  if (tables.size() > 1)
    for (const LabelTable& table : tables) names.push_back(table.csv.stem().string());
  else
    for (const ImageLabel& line : tables.front().lines)
      if (std::ranges::find(names, line.part) == names.end()) names.push_back(line.part);
  return names;
}

void add_labelled(ImageFolder& found, const std::vector<LabelTable>& tables, const FolderTree& tree,
                  const std::optional<SetParts>& parts,
                  const std::vector<std::string>& part_names) {
  ImagesByName images(tree);
  for (const LabelTable& table : tables)
    for (const ImageLabel& line : table.lines) images.add(line.image);
  std::map<std::string, int32_t> classes;
  std::set<fs::path> seen;
  for (const LabelTable& table : tables)
    for (const ImageLabel& line : table.lines) {
      const auto refuse = [&](const std::string& problem) {
        found.bad.push_back(
            {table.csv, fmt::format("line {}: {}: {}", line.line, line.image, problem)});
      };
      const auto [image, problem] = images.find(line.image);
      if (!problem.empty()) {
        refuse(problem);
        continue;
      }
      const std::string& part = tables.size() > 1 ? table.csv.stem().string() : line.part;
      const auto place = std::ranges::find(part_names, part) - part_names.begin();
      const bool is_test = parts && parts->test == static_cast<size_t>(place);
      if (!seen.insert(image).second) {
        refuse("it has a line already");
      } else if (line.label.empty()) {
        found.unused.insert(image);
        refuse("it has no label");
      } else if (parts && !is_test && parts->train != static_cast<size_t>(place)) {
        found.unused.insert(image);
      } else {
        const auto label = static_cast<int32_t>(classes.size());
        found.samples.push_back({.image = image,
                                 .label = classes.emplace(line.label, label).first->second,
                                 .split = is_test ? Split::test : Split::train});
      }
    }
  found.classes.resize(classes.size());
  for (const auto& [name, label] : classes) found.classes[static_cast<size_t>(label)] = name;
}

}  // namespace

std::optional<ImageFolder> find_labels(const FolderTree& tree, Guess guess) {
  if (!tree.has_images() || (guess == Guess::yes && holds_classes(tree))) return std::nullopt;
  const std::vector<LabelTable> tables = label_tables(tree, guess);
  if (tables.empty()) return std::nullopt;
  std::vector<fs::path> paths;
  for (const LabelTable& table : tables) paths.push_back(table.csv);
  const std::vector<std::string> part_names = names_of_parts(tables);
  const std::optional<SetParts> parts = parts_of(part_names);
  check(parts || tables.size() == 1,
        "'{}' has several CSV files of classes, {}: expected one, or one for training and one for "
        "the test (train.csv, test.csv)",
        tree.path.string(), names_of(paths));
  ImageFolder found{.directory = tree.path, .tables = {paths.begin(), paths.end()}};
  add_labelled(found, tables, tree, parts, part_names);
  found.is_divided = parts && parts->test;
  check(found.classes.size() < found.samples.size() || found.samples.size() < 3,
        "'{}', column {}: each of the {} images has a label of its own, '{}' for one: expected "
        "classes",
        paths.front().string(), tables.front().label_name, found.samples.size(),
        found.classes.empty() ? "" : found.classes.front());
  std::ranges::sort(found.samples, {}, &FolderSample::image);
  found.notes.push_back(
      fmt::format("classes are the column {} of {}", tables.front().label_name, names_of(paths)));
  if (!parts) divide_by_folders(found, tree.path);
  else
    for (const size_t i : parts->unused) found.notes.push_back(part_names[i] + " is not used");
  leave_other_folders(found, tree);
  return found;
}

}  // namespace accrue
