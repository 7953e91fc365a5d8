#include "images/predict.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "data/atomic_file.h"
#include "data/new_directory.h"
#include "images/domain.h"
#include "images/mask_files.h"
#include "images/segmentation.h"
#include "images/tiled.h"
#include "images/tiled_unet.h"
#include "job/load_data.h"
#include "job/load_network.h"
#include "job/machine.h"
#include "job/paths.h"
#include "train/class_table.h"
#include "train/memory_prediction.h"
#include "train/score.h"
#include "train/training.h"
#include "train/weights.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

// The model in tiles of the size that the user gave; null without one.
std::unique_ptr<Layer> in_tiles(const Layer& model, const PredictOptions& asked) {
  if (!asked.tile) return nullptr;
  if (asked.overlap) return std::make_unique<Tiled>(model, *asked.tile, *asked.overlap);
  const auto* const unet = dynamic_cast<const UNet*>(&model);
  check(unet, "--tile: the network is no U-Net: expected an --overlap, too");
  return std::make_unique<TiledUNet>(*unet, *asked.tile);
}

// True for sets that are known by name or by their files, whose samples have no paths.
bool is_set(const Request& options) {
  return options.data.empty() || options.domains.claim(options.data) == Domain::Claim::own;
}

const Images& images_of(const Request& options) { return options.domains.get<Images>(); }

DomainModel model_of(const Request& options) { return options.domains.model(options.model_name); }

bool has_masks(const Request& options) { return answers_with_masks(model_of(options)); }

// The images and folders of images that the user gave; none for a data set of another kind.
std::vector<fs::path> paths_of(const Request& options, const PredictOptions& asked) {
  std::vector<fs::path> paths(asked.images.begin(), asked.images.end());
  const bool is_path = !is_set(options);
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

// Throws Error if some of the folders are named after the network's classes, but not all. All may
// be, or none.
void check_folders(const ImageFolder& folder, const Request& options) {
  if (!options.classes_of_weights || has_masks(options)) return;
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

// The classes that a folder shows by its names or masks, if any.
std::optional<Classes> classes_beside(const Request& options, const ImageFolder& folder,
                                      const Notices& notices) {
  if (!has_masks(options))
    return folder.classes.empty() ? std::nullopt : std::optional(classes_called(folder.classes));
  std::error_code ignored;
  const auto found =
      fs::is_directory(options.data, ignored) ? find_images(options.data) : std::nullopt;
  if (!found || found->answer == ImageFolder::Answer::classes) return std::nullopt;
  Request of_any_size = options;  // the values in masks are the same
  if (images_of(options).request.size.empty()) settings_of(of_any_size).at("image-size").set("1");
  return options.classes_in(load_data(of_any_size, DataUse::prediction, notices).train);
}

// The classes of weights whose file does not name them: the folder's classes if it has the same
// number, and otherwise numbers.
Classes unnamed_classes(const Request& options, const ImageFolder& folder, const Dataset& data,
                        const Notices& notices) {
  auto model = options.factory(options.sample_in(data))();
  const int64_t K = classes_of_head(
      options.weights, place(*model, DType::f32, Device::meta, 0, GradientStorage::on_demand));
  const auto beside = classes_beside(options, folder, notices);
  if (beside && beside->size() == K) {
    notices.say("{} does not name its classes: the names of {} are used: {}", options.weights,
                data.name, beside->describe());
    return *beside;
  }
  notices.say("{} does not name its classes: they are numbers", options.weights);
  Classes numbers;
  const bool has_values = has_masks(options) && K > 1;
  for (int64_t k = 0; k < K; ++k) {
    numbers.names.push_back(std::to_string(k));
    if (has_values) numbers.values.push_back(static_cast<uint8_t>(k));
  }
  return numbers;
}

// The classes with the names of --classes, if the user gave some.
Classes called(const Request& options, Classes classes) {
  const std::vector<std::string>& names = images_of(options).classes;
  if (names.empty()) return classes;
  check(std::ssize(names) == classes.size() && (!classes.have_names() || names == classes.names),
        "--classes {}: {} knows the classes {}; expected the same, or no --classes",
        fmt::join(names, ","), options.weights, classes.describe());
  classes.names = names;
  return classes;
}

// The images to answer, in parts of one size each, and the classes of the answers.
struct Questions {
  std::vector<Dataset> parts;
  Classes classes;
  fs::path stretched{};  // the directory of the images, if the parts resize them
};

// The images of a folder, on the cpu, and whether they are stretched.
Questions questions_in(const Request& options, const ImageFolder& folder, const Notices& notices) {
  const DataRequest request = options.data_request(DataUse::prediction);
  check(!request.given.contains("data-dir"),
        "--data-dir has no effect with a folder of images: expected --data mnist or fashion");
  const ImageFolderOptions read = images_of(options).folder_options(request);
  const DomainModel model = model_of(options);
  Questions asked;
  if (model.takes_any_size &&
      (images_of(options).request.has_own_sizes || images_of(options).request.size.empty())) {
    asked.parts = load_images_by_size(folder, read);
  } else {
    asked.parts.push_back(load_images_to_answer(folder, read));
    if (model.takes_any_size) asked.stretched = folder.directory;
  }
  for (Dataset& data : asked.parts) take_in(data, options, notices);
  const Dataset& first = asked.parts.front();
  const Shape& learned = options.sample.input().shape;
  check(!options.classes_of_weights || learned.rank() != 3 || first["images"].size(1) == learned[0],
        "'{}' has images with colours, but the network of {} has learned gray ones: expected gray "
        "images",
        first.name, options.weights);
  for (Dataset& data : asked.parts) {
    Datasets sets{.train = {}, .test = std::move(data)};
    crop(sets, model, request);
    data = std::move(sets.test);
  }
  return asked;
}

Questions questions_of(const Request& options, const PredictOptions& asked,
                       const Notices& notices) {
  check(asked.split || !options.given.contains("hold-out"),
        "--hold-out has no effect without --split: all images of a folder are answered");
  const std::vector<fs::path> paths = paths_of(options, asked);
  if (paths.empty()) {
    Datasets both = load_data(options, DataUse::prediction, notices);
    Dataset data = asked.split == Split::train ? std::move(both.train) : std::move(both.test);
    if (!options.classes_of_weights) say_whose_classes(options, data, notices);
    const std::optional<Classes> classes = options.classes_in(data);
    Questions questions{.parts = {}, .classes = *classes};
    questions.parts.push_back(std::move(data));
    return questions;
  }
  const DataRequest request = options.data_request(DataUse::prediction);
  const ImageFolder folder =
      find_images_to_answer(paths, asked.split, images_of(options).given_hold_out(request));
  check_folders(folder, options);
  Questions questions = questions_in(options, folder, notices);
  Request beside = options;
  if (paths.size() == 1) beside.data = paths.front().string();
  questions.classes =
      called(options, options.classes_of_weights
                          ? *options.classes_of_weights
                          : unnamed_classes(beside, folder, questions.parts.front(), notices));
  return questions;
}

// A field of answers with these classes.
Field answers_of(const Classes& classes, bool masks) {
  const bool planes = masks && classes.values.empty();
  return {.name = masks ? "masks" : "labels",
          .values = {},
          .encoding = planes ? Encoding::mask : Encoding::index,
          .classes = classes.size(),
          .class_names = classes.names,
          .class_values = classes.values};
}

void check_tiles(const Request& options, const PredictOptions& asked, bool masks) {
  check(masks || (!asked.overlays && !asked.tile),
        "--{}: {} holds weights of a network that answers with classes, not with masks: expected "
        "neither --overlay nor --tile",
        asked.overlays ? "overlay" : "tile", options.init);
  if (!asked.tile) return;
  constexpr int64_t grid = 32;  // every network's pools then see the same in a tile
  const int64_t tile = *asked.tile, overlap = asked.overlap.value_or(0);
  check(tile % grid == 0 && overlap % grid == 0 && overlap < tile,
        "--tile {}{}: expected multiples of {}, and an overlap smaller than a tile", tile,
        asked.overlap ? fmt::format(" --overlap {}", overlap) : "", grid);
}

std::vector<fs::path> all_mask_paths(const std::vector<Dataset>& parts, const Field& masks,
                                     const fs::path& directory, Overlays overlays) {
  std::vector<fs::path> all;
  for (const Dataset& data : parts)
    for (int64_t n = 0; n < data.size(); ++n)
      std::ranges::move(mask_paths(n, data, masks, directory, overlays), std::back_inserter(all));
  return all;
}

void check_answers(const Request& options, const PredictOptions& asked,
                   const std::vector<fs::path>& answers) {
  Paths paths;
  paths.read("--data", options.data);
  for (const std::string& path : asked.images) paths.read("an image", path);
  paths.read("--weights", options.init);
  paths.check_answers("--out " + asked.out, answers, asked.force);
}

}  // namespace

Settings settings_of(PredictOptions& asked, Request& options) {
  static const std::map<std::string, Split> splits{{"train", Split::train}, {"test", Split::test}};
  constexpr Decides no_result = Decides::no_result;
  const Settings all = settings_of(options);
  Settings s;
  s.group("Options")
      .add(options.init, trained_weights("As train saves them"))
      .add(asked.out, {.name = "out",
                       .decides = no_result,
                       .help = "Where the answers are written",
                       .takes = writes("DIR", Path::answers),
                       .asked_by = AskedBy::most_runs})
      .add(asked.split, splits,
           {.name = "split",
            .decides = no_result,
            .help = "Answer to this part of a data set",
            .takes = "train|test",
            .unset = "test, of a folder without a test of its own all images"})
      .add_flag(asked.overlays, true,
                {.name = "overlay",
                 .decides = no_result,
                 .help = "Also write the images with their masks drawn over them",
                 .asked_by = AskedBy::most_runs})
      .add(asked.tile,
           {.name = "tile",
            .decides = no_result,
            .help = "Answer images larger than a tile with masks in tiles of this many pixels, a "
                    "multiple of 32: the same answer in less memory, in about four times the time",
            .takes = "PIXELS",
            .range = {.low = 32},
            .asked_by = AskedBy::most_runs})
      .add(asked.overlap, {.name = "overlap",
                           .decides = no_result,
                           .help = "Take each tile for an image, which is faster, but group norms "
                                   "then see a tile only; neighbours share this many pixels, a "
                                   "multiple of 32 and less than a tile, and each answers for its "
                                   "half of them",
                           .takes = "PIXELS",
                           .unset = "the whole images' answer",
                           .range = zero_or_more,
                           .needs = "tile"})
      .add(options.micro_batch, {.name = "micro-batch",
                                 .decides = no_result,
                                 .help = "Samples in memory at a time",
                                 .range = above_zero,
                                 .asked_by = AskedBy::most_runs,
                                 .elsewhere = called_batch("the samples in memory")})
      .add_flag(asked.force, true,
                {"force", no_result, "Replace files in --out that accrue has not written"});
  return s
      .append(all.in({"Model and data"})
                  .where(acts_on_answers)
                  .without({"init", "objective", "embedding-size"}))
      .append(all.in({"Machine"}).where(acts_on_answers));
}

bool answers_images(const Request& options) {
  const DomainModel model = model_of(options);
  return model.input() == "images" && (model.classes() == "labels" || answers_with_masks(model));
}

void predict_images(const Request& options, const PredictOptions& asked, const Notices& notices) {
  const Device device = apply_machine_settings(options, notices);
  const Domain& domain = options.domains.of_model(options.model_name);
  check(answers_images(options),
        "{} holds weights of {}, which sees {}: expected a model that answers with classes or "
        "masks; {}",
        options.init, options.model_name, model_of(options).input(), domain.where_it_answers());
  check(images_of(options).to_learn == ImageObjective::answers,
        "{} holds weights of a network that tells images apart, and knows no classes: expected one "
        "that has learned them since (accrue train --init {} --objective labels --new-head)",
        options.init, options.init);
  const bool masks = has_masks(options);
  check_tiles(options, asked, masks);
  Questions questions = questions_of(options, asked, notices);
  const Field answers = answers_of(questions.classes, masks);
  const std::string name = questions.parts.front().name;
  const SampleSpec here = options.sample_in(questions.parts.front());
  const LoadedNetwork network =
      load_network(options, here.with(here.input().shape, questions.classes.size()), device);
  const auto tiled = in_tiles(*network.model, asked);
  const Layer& model = tiled ? *tiled : *network.model;
  const fs::path directory(asked.out);
  const fs::path table = directory / "predictions.csv";
  const Overlays overlays = asked.overlays ? Overlays::on : Overlays::off;
  check_answers(
      options, asked,
      masks ? all_mask_paths(questions.parts, answers, directory, overlays) : std::vector{table});
  make_directory(directory);
  if (!masks) check_writable(table);

  const ObjectivePtr objective = masks ? segmentation() : classification();
  std::string text;
  int64_t answered = 0;
  for (Dataset& part : questions.parts) {
    const Dataset data = place_data({.train = {}, .test = std::exchange(part, {})}, device).test;
    answered += data.size();
    text += with_fewer_samples(options.micro_batch, [&](int64_t samples) {
      std::string lines;
      for_each_answer(model, *objective, data, samples, network.parameters.compute_dtype(), device,
                      [&](const Tensor& answer, const Samples& some, int64_t begin) {
                        if (masks)
                          write_masks(answer, some, begin, data, answers, directory, overlays,
                                      questions.stretched);
                        else lines += class_table_lines(answer, begin, data, answers);
                      });
      return lines;
    });
  }
  if (!masks) write_text_atomically(table, class_table_heading(answers) + text);
  notices.say("{}: {} of {}", masks ? asked.out : table.string(),
              counted(answered, masks ? "mask" : "sample"), name);
}

}  // namespace accrue
