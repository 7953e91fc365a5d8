#include "apps/commands/predict.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>

#include "apps/cli/load_data.h"
#include "apps/cli/load_network.h"
#include "apps/cli/messages.h"
#include "apps/cli/overwriting.h"
#include "data/atomic_file.h"
#include "data/new_directory.h"
#include "fonts/glyphs.h"
#include "images/cifar.h"
#include "images/mask_files.h"
#include "images/mnist.h"
#include "images/segmentation.h"
#include "images/tiled.h"
#include "images/tiled_unet.h"
#include "train/class_table.h"
#include "train/memory_prediction.h"
#include "train/score.h"
#include "train/training.h"
#include "train/weights.h"

namespace accrue::app {
namespace {

namespace fs = std::filesystem;

// The model in the tiles that are asked for; null if none are.
std::unique_ptr<Module> in_tiles(const Module& model, const PredictOptions& asked) {
  if (!asked.tile) return nullptr;
  if (asked.overlap) return std::make_unique<Tiled>(model, *asked.tile, *asked.overlap);
  const auto* const unet = dynamic_cast<const UNet*>(&model);
  check(unet, "--tile: the network is no U-Net: expected an --overlap, too");
  return std::make_unique<TiledUNet>(*unet, *asked.tile);
}

// True for the sets that find_dataset() knows by name or by their files, whose samples have no
// paths.
bool is_set(const std::string& data) {
  constexpr std::array by_name{"", "mnist", "fashion", "digits", "shapes", "strokes"};
  return std::ranges::find(by_name, data) != by_name.end() || holds_glyphs(data) ||
         holds_mnist(data) || holds_cifar10(data);
}

// The images and folders of images that are asked for; none if that is a data set of another kind.
std::vector<fs::path> paths_of(const Options& options, const PredictOptions& asked) {
  std::vector<fs::path> paths(asked.images.begin(), asked.images.end());
  const bool is_path = !is_set(options.data);
  check(is_path || paths.empty() || options.data.empty(),
        "--data {} is a data set, and {} an image or a folder of images: expected one or the other",
        options.data, asked.images.empty() ? "" : asked.images.front());
  if (is_path) paths.insert(paths.begin(), options.data);
  return paths;
}

Classes classes_called(const std::vector<std::string>& names) {
  return classes_of(Field{.name = "labels",
                          .values = {},
                          .encoding = Encoding::index,
                          .classes = static_cast<int64_t>(names.size()),
                          .class_names = names});
}

// Folders may be those of the network's classes, or of any images; some of them and some of others
// are a mistake.
void check_folders(const ImageFolder& folder, const Options& options) {
  if (!options.classes_of_weights || task_of(options.network.kind) != Task::classification) return;
  const Classes here = classes_called(folder.classes);
  const ClassMatch match = match_classes(here, *options.classes_of_weights);
  std::vector<std::string> unknown;
  for (size_t k = 0; k < match.places.size(); ++k)
    if (match.places[k] < 0) unknown.push_back(here.names[k]);
  check(unknown.empty() || std::ssize(unknown) == here.size(),
        "{} knows the classes {}, but {} has folders of {}: {} is unknown; expected folders of the "
        "known classes, or images without labels in folders of other names alone",
        options.weights, options.classes_of_weights->describe(), folder.directory.string(),
        here.describe(), fmt::join(unknown, ", "));
}

// The classes that a folder's names or masks have, if it has such.
std::optional<Classes> classes_beside(const Options& options, const ImageFolder& folder) {
  if (task_of(options.network.kind) == Task::classification)
    return folder.classes.empty() ? std::nullopt : std::optional(classes_called(folder.classes));
  std::error_code ignored;
  const auto found =
      fs::is_directory(options.data, ignored) ? find_images(options.data) : std::nullopt;
  if (!found || found->answer == ImageFolder::Answer::classes) return std::nullopt;
  return classes_of(load_data(options, DataUse::prediction).train);
}

// The classes of weights whose file does not name them: those of the folder, if it has as many, or
// numbers.
Classes unnamed_classes(const Options& options, const ImageFolder& folder, const Dataset& data) {
  auto model = make_model(options.model_for(data));
  const int64_t K = classes_of_head(
      options.weights, place(*model, DType::f32, Device::meta, 0, GradientStorage::on_demand));
  const auto beside = classes_beside(options, folder);
  if (beside && beside->size() == K) {
    say("{} does not name its classes: those of {} are taken: {}\n", options.weights, data.name,
        beside->describe());
    return *beside;
  }
  say("{} does not name its classes: they are numbers\n", options.weights);
  Classes numbers;
  const bool has_values = task_of(options.network.kind) == Task::segmentation && K > 1;
  for (int64_t k = 0; k < K; ++k) {
    numbers.names.push_back(std::to_string(k));
    if (has_values) numbers.values.push_back(static_cast<uint8_t>(k));
  }
  return numbers;
}

// The classes with the names of --classes, if there are some.
Classes called(const Options& options, Classes classes) {
  if (options.classes.empty()) return classes;
  check(std::ssize(options.classes) == classes.size() &&
            (!classes.have_names() || options.classes == classes.names),
        "--classes {}: {} knows the classes {}; expected the same, or no --classes",
        fmt::join(options.classes, ","), options.weights, classes.describe());
  classes.names = options.classes;
  return classes;
}

// What is to be answered, and what the answers mean.
struct Questions {
  Dataset data;
  Classes classes;
};

Questions questions_of(const Options& options, const PredictOptions& asked) {
  check(asked.split || !options.given.contains("hold-out"),
        "--hold-out has no effect without --split: all images of a folder are answered");
  const std::vector<fs::path> paths = paths_of(options, asked);
  if (paths.empty()) {
    Datasets both = load_data(options, DataUse::prediction);
    Dataset data = asked.split == Split::train ? std::move(both.train) : std::move(both.test);
    if (!options.classes_of_weights) say_whose_classes(options, data);
    const std::optional<Classes> classes = classes_of(data);
    return {std::move(data), *classes};
  }
  const ImageFolder folder = find_images_to_answer(
      paths, asked.split,
      options.given.contains("hold-out") ? std::optional(options.hold_out) : std::nullopt);
  check_folders(folder, options);
  Dataset data = load_images(options, folder);
  Options beside = options;
  if (paths.size() == 1) beside.data = paths.front().string();
  Classes classes = options.classes_of_weights ? *options.classes_of_weights
                                               : unnamed_classes(beside, folder, data);
  return {std::move(data), called(options, std::move(classes))};
}

// A field of such answers.
Field answers_of(const Classes& classes, Task task) {
  const bool planes = task == Task::segmentation && classes.values.empty();
  return {.name = task == Task::segmentation ? "masks" : "labels",
          .values = {},
          .encoding = planes ? Encoding::mask : Encoding::index,
          .classes = classes.size(),
          .class_names = classes.names,
          .class_values = classes.values};
}

void check_tiles(const Options& options, const PredictOptions& asked, Task task) {
  check(task == Task::segmentation || (!asked.overlays && !asked.tile),
        "--{}: {} holds weights of a network that answers with classes, not with masks: expected "
        "neither --overlay nor --tile",
        asked.overlays ? "overlay" : "tile", options.init);
  if (!asked.tile) return;
  constexpr int64_t grid = 32;  // of which the pools of every network see the same in a tile
  const int64_t tile = *asked.tile, overlap = asked.overlap.value_or(0);
  check(tile % grid == 0 && overlap % grid == 0 && overlap < tile,
        "--tile {}{}: expected multiples of {}, and an overlap smaller than a tile", tile,
        asked.overlap ? fmt::format(" --overlap {}", overlap) : "", grid);
}

std::vector<fs::path> mask_paths(const Dataset& data, const Field& masks, const fs::path& directory,
                                 Overlays overlays) {
  std::vector<fs::path> all;
  for (int64_t n = 0; n < data.size(); ++n)
    std::ranges::move(accrue::mask_paths(n, data, masks, directory, overlays),
                      std::back_inserter(all));
  return all;
}

void check_answers(const Options& options, const PredictOptions& asked,
                   const std::vector<fs::path>& answers) {
  Paths paths;
  paths.read("--data", options.data);
  for (const std::string& path : asked.images) paths.read("an image", path);
  paths.read("--weights", options.init);
  paths.check_answers("--out " + asked.out, answers, asked.force);
}

}  // namespace

Settings settings_of(PredictOptions& asked, Options& options) {
  static const std::map<std::string, Split> splits{{"train", Split::train}, {"test", Split::test}};
  constexpr Decides no_result = Decides::no_result;
  const Settings all = settings_of(options);
  Settings s;
  s.group("Options")
      .add(options.init, {"weights", no_result, "As train saves them", "FILE.safetensors"})
      .add(asked.out, {"out", no_result, "Where the answers are written", "DIR"})
      .add(asked.split, splits,
           {.name = "split",
            .decides = no_result,
            .help = "Answer to this part of a data set",
            .takes = "train|test",
            .unset = "test, of a folder without a test of its own all images"})
      .add_flag(asked.overlays, true,
                {"overlay", no_result, "Also write the images with their masks drawn over them"})
      .add(asked.tile,
           {.name = "tile",
            .decides = no_result,
            .help = "Answer to images with masks in tiles of so many pixels, a multiple "
                    "of 32, where they are larger: the same answer in less memory, in about four "
                    "times the time",
            .takes = "PIXELS",
            .range = {.low = 32}})
      .add(asked.overlap, {.name = "overlap",
                           .decides = no_result,
                           .help = "Take each tile for an image, which is faster, but group norms "
                                   "then see a tile only; neighbours share so many pixels, a "
                                   "multiple of 32 and less than a tile, and each answers to its "
                                   "half of them",
                           .takes = "PIXELS",
                           .unset = "the whole images' answer",
                           .range = not_negative,
                           .needs = "tile"})
      .add(options.micro_batch, {.name = "micro-batch",
                                 .decides = no_result,
                                 .help = "Samples in memory at a time",
                                 .range = positive})
      .add_flag(asked.force, true,
                {"force", no_result, "Replace files in --out that accrue has not written"});
  return s
      .append(all.in({"Model and data"})
                  .without({"init", "augment", "dropout", "init-scheme", "seed", "loss",
                            "class-weights", "new-head"}))
      .append(all.in({"Machine"}));
}

void predict(const Options& options, const PredictOptions& asked) {
  const Device device = apply_machine_options(options);
  const Task task = task_of(options.network.kind);
  check(task != Task::drawing,
        "{} holds weights of a network that draws glyphs: expected a model that answers with "
        "classes or masks; glyphs are drawn by accrue font draw",
        options.init);
  check_tiles(options, asked, task);
  Questions questions = questions_of(options, asked);
  const Field answers = answers_of(questions.classes, task);
  const Dataset data = place_data({.train = {}, .test = std::move(questions.data)}, device).test;
  ModelOptions shown = options.model_for(data);
  shown.classes = questions.classes.size();
  const LoadedNetwork network = load_network(options, shown, device);
  const auto tiled = in_tiles(*network.model, asked);
  const Module& model = tiled ? *tiled : *network.model;
  const fs::path directory(asked.out);
  const fs::path table = directory / "predictions.csv";
  const Overlays overlays = asked.overlays ? Overlays::on : Overlays::off;
  check_answers(options, asked,
                task == Task::classification ? std::vector{table}
                                             : mask_paths(data, answers, directory, overlays));
  make_directory(directory);
  if (task == Task::classification) check_writable(table);

  const ObjectivePtr objective = task == Task::segmentation ? segmentation() : classification();
  const std::string text = with_fewer_samples(options.micro_batch, [&](int64_t samples) {
    std::string lines;
    for_each_answer(model, *objective, data, samples, network.parameters.compute_dtype(), device,
                    [&](const Tensor& answer, const Samples& part, int64_t begin) {
                      if (task == Task::segmentation)
                        write_masks(answer, part, begin, data, answers, directory, overlays);
                      else lines += class_table_lines(answer, begin, data, answers);
                    });
    return lines;
  });
  if (task == Task::classification)
    write_text_atomically(table, class_table_heading(answers) + text);
  say("{}: {} of {}\n", task == Task::classification ? table.string() : asked.out,
      counted(data.size(), task == Task::classification ? "sample" : "mask"), data.name);
}

}  // namespace accrue::app
