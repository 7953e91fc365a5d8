#include "apps/cli/load_data.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "apps/cli/messages.h"
#include "data/byte_stream.h"
#include "data/checkpoint_directory.h"
#include "data/safetensors.h"
#include "fonts/glyphs.h"
#include "fonts/strokes.h"
#include "images/augmentation.h"
#include "images/cifar.h"
#include "images/find_dataset.h"
#include "images/mnist.h"
#include "train/weights.h"

namespace accrue::app {
namespace {

// The numbers of "1x64x64"; none if the file does not say it.
std::vector<int64_t> numbers_of(const Metadata& said, const std::string& key) {
  std::vector<int64_t> numbers;
  const auto found = said.find(key);
  std::istringstream text(found == said.end() ? "" : found->second);
  for (int64_t number = 0; text >> number; text.ignore()) numbers.push_back(number);
  return numbers;
}

// Gives masks' classes the names of --classes.
void name_classes(Field& masks, const std::vector<std::string>& names) {
  const int64_t classes = masks.class_count();
  check(static_cast<int64_t>(names.size()) == classes,
        "--classes has {} names, but the masks have {}: expected one for each", names.size(),
        counted_classes(classes));
  masks.class_names = names;
}

bool is_built_in(const std::string& data) {
  return data == "digits" || data == "shapes" || data == "strokes";
}

// The options that only some data sets heed.
void check_options_of_data(const Options& options) {
  const std::string data = options.data_name();
  const bool is_looked_for = data == "mnist" || data == "fashion";
  const bool is_folder = !is_looked_for && !is_built_in(data) && !holds_mnist(data) &&
                         !holds_cifar10(data) && !holds_glyphs(data);
  struct Heeded {
    const char* option;
    bool is_heeded;
    const char* expected;
  };
  for (const auto& [option, is_heeded, expected] :
       {Heeded{"data-dir", is_looked_for, "--data mnist or fashion"},
        {"hold-out", is_folder, "a folder of images"},
        {"skip-bad", is_folder, "a folder of images"},
        {"cache", is_folder, "a folder of images"},
        {"ignore-mask", is_folder, "a folder of images and masks"}})
    check(is_heeded || !options.given.contains(option),
          "--{} has no effect with --data {}: expected {}, or no --{}", option, data, expected,
          option);
}

// The data set has what the model learns from.
void check_data_for_model(const Datasets& data, const Options& options) {
  const std::string model = name(options.network.kind), set = data.train.name;
  if (task_of(options.network.kind) == Task::drawing) {
    check(options.pixels == Normalization(),
          "--mean {} --std {}: --model {} draws pixels from -1 to 1, as its last layer gives them: "
          "expected neither option",
          fmt::join(options.pixels.mean, ","), fmt::join(options.pixels.std, ","), model);
    check(
        data.train.has("sources"),
        "--model {} draws the glyphs of one font in the style of another, but the data set {} has "
        "{}: expected --data strokes, or a directory of accrue font prepare",
        model, set, data.train.fields.front().name);
    return;
  }
  const bool has_masks = data.train.has("masks");
  check(has_masks || data.train.has("labels"),
        "--model {} needs images with labels or masks, but the data set {} has {}: expected --data "
        "digits, shapes, mnist, fashion, a folder of images or a directory of IDX files",
        model, set, data.train.fields.front().name);
  if (task_of(options.network.kind) == Task::segmentation)
    check(has_masks,
          "--model {} answers with a mask for each image, but the data set {} has labels: expected "
          "--data shapes, or a folder of images and masks",
          model, set);
  if (task_of(options.network.kind) != Task::segmentation)
    check(!has_masks,
          "--model {} answers with a class, but the data set {} has masks: expected --data digits, "
          "mnist or fashion (--data shapes is for --model unet)",
          model, set);
}

void crop(Datasets& data, ImageSize size, const Options& options, DataUse use) {
  const Task task = task_of(options.network.kind);
  check(task != Task::drawing, "--crop {}: a glyph is drawn as a whole; expected no --crop",
        options.crop);
  const bool is_trained = use == DataUse::training, sees_whole = task == Task::segmentation;
  check(is_trained || !sees_whole || !options.given.contains("crop"),
        "--crop {}: masks are scored and predicted on whole images; expected no --crop",
        options.crop);
  if (is_trained || !sees_whole) data.train.crop_to(size);
  if (!sees_whole) data.test.crop_to(size);
}

std::optional<double> asked_hold_out(const Options& options) {
  return options.given.contains("hold-out") ? std::optional(options.hold_out) : std::nullopt;
}

ImageFolderOptions folder_options(const Options& options, DataUse use) {
  return {.size = options.size_of_images(),
          .hold_out = asked_hold_out(options),
          .channels = options.weights.empty() ? 1 : options.network.image[0],
          .skip_bad = options.skip_bad ? SkipBad::yes : SkipBad::no,
          .unjudged_mask_value = options.ignore_mask,
          .has_named_mask_values = !options.classes.empty(),
          .one_class = use == DataUse::training ? OneClass::refused : OneClass::allowed,
          .most_held_bytes = options.most_held_bytes(),
          .most_image_bytes = options.most_image_bytes()};
}

void say_what_was_found(const Dataset& data) {
  if (!data.about.empty()) say("{}: {}\n", data.name, data.about);
}

void normalize(Dataset& data, const Options& options) {
  for (Field& field : data.fields) {
    field.normalization = options.pixels;
    if (field.encoding == Encoding::pixel)
      check_normalization(field.normalization, field.values.shape(), "--mean and --std:");
  }
}

std::string described(const Classes& classes, const Dataset& data) {
  const bool is_one = classes.size() == 1 && !classes.have_names() && data.has("masks");
  return is_one && classes.values.empty() ? "one mask of what is there and what not"
                                          : "the classes " + classes.describe();
}

// Numbers the classes as the network does.
void match_to_weights(Datasets& data, const Options& options, DataUse use) {
  const std::optional<Classes>& network = options.classes_of_weights;
  const std::optional<Classes> here = classes_of(data.train);
  if (!here || options.new_head) return;
  if (!network) {
    if (use == DataUse::scoring) say_whose_classes(options, data.train);
    return;
  }
  const ClassMatch match = match_classes(*here, *network);
  const bool fits = use == DataUse::prediction ? match.is_known() : match.is_complete();
  if (!fits && use == DataUse::training) {
    // A head of another size is made new, and a run that resumes is compared as a whole.
    const bool is_resumed = options.weights != options.init;
    if (is_resumed || here->size() != network->size()) return;
  }
  check(fits, "{} knows {}, but {} has {}: expected the same{}", options.weights,
        described(*network, data.train), data.train.name, described(*here, data.train),
        use == DataUse::training ? ", or --new-head to learn these with a new last layer" : "");
  for (Dataset* each : {&data.train, &data.test})
    for (Field& field : each->fields)
      if (field.name == "labels" || field.name == "masks") renumber_classes(field, match, *network);
}

}  // namespace

void say_whose_classes(const Options& options, const Dataset& data) {
  const std::optional<Classes> classes = classes_of(data);
  if (options.weights.empty() || !classes) return;
  const Field& field = data.field(data.has("masks") ? "masks" : "labels");
  if (field.class_names.empty() && field.class_values.empty()) return;
  say("{} does not name its classes: those of {} are taken: {}\n", options.weights, data.name,
      classes->describe());
}

Datasets load_data(const Options& options, DataUse use) {
  check_options_of_data(options);
  const std::optional<ImageSize> size = options.size_of_images(), crops = options.size_of_crops();
  const bool is_strokes = options.data_name() == "strokes";
  check(!size || !is_strokes || size->height == size->width,
        "--image-size {}: the strokes of --data strokes are as high as wide", options.image_size);
  Datasets data = reading(options.data_name(), [&] {
    const std::string name = options.data_name();
    if (is_strokes) {
      const StrokesOptions strokes{.train_size = 2000,
                                   .test_size = 200,
                                   .side = size ? size->height : Options::default_strokes};
      return Datasets{make_strokes(Split::train, strokes), make_strokes(Split::test, strokes)};
    }
    std::error_code ignored;
    check(name == "mnist" || name == "fashion" || is_built_in(name) ||
              std::filesystem::is_directory(name, ignored),
          "'{}' is neither a data set nor a directory: expected mnist, fashion, digits, shapes, "
          "strokes, or a directory of images, of glyphs or of files in MNIST's format",
          name);
    if (holds_glyphs(name)) return load_glyphs(name);
    return find_dataset(name, options.data_dir, folder_options(options, use));
  });
  const Shape& images = data.train.fields.front().values.shape();
  check(!size || !options.given.contains("image-size") ||
            (images[2] == size->height && images[3] == size->width),
        "--image-size {}: the images of --data {} are {}x{}; expected a folder of images, or "
        "--data strokes",
        options.image_size, options.data_name(), images[2], images[3]);
  Augmentation augmentation = parse_augmentation(options.augment);
  augmentation.crops_anywhere = crops && use == DataUse::training;
  data.train.augmentation = changes_of(augmentation);
  say_what_was_found(data.train);
  for (Dataset* each : {&data.train, &data.test}) normalize(*each, options);
  check_data_for_model(data, options);
  if (crops) crop(data, *crops, options, use);
  if (data.train.has("masks") && !options.classes.empty())
    for (Dataset* each : {&data.train, &data.test})
      for (Field& field : each->fields)
        if (field.name == "masks") name_classes(field, options.classes);
  match_to_weights(data, options, use);
  return data;
}

Dataset load_images(const Options& options, const ImageFolder& folder) {
  check(!options.given.contains("data-dir"),
        "--data-dir has no effect with a folder of images: expected --data mnist or fashion");
  Dataset data = load_images_to_answer(folder, folder_options(options, DataUse::prediction));
  say_what_was_found(data);
  normalize(data, options);
  const int64_t channels = data["images"].size(1), known = options.network.image[0];
  check(!options.classes_of_weights || channels == known,
        "'{}' has images with colours, but the network of {} has learned gray ones: expected gray "
        "images",
        data.name, options.weights);
  Datasets sets{.train = {}, .test = std::move(data)};
  if (const auto crops = options.size_of_crops()) crop(sets, *crops, options, DataUse::prediction);
  return std::move(sets.test);
}

namespace {

// Asks for what a file does not say, as PyTorch's do not, or warns of what is assumed.
void check_what_is_said(const Metadata& said, const Options& options) {
  const bool draws = task_of(options.network.kind) == Task::drawing;
  const auto is_given = [&](const char* name) { return options.given.contains(name); };
  const bool says = draws || said.contains("model");
  check(says || is_given("model"),
        "{} does not say which model its weights are of: expected --model", options.init);
  if (!says && !(is_given("mean") && is_given("std")))
    say_error(
        "warning: {} does not say how its pixels were normalized: (x - {}) / {} is assumed; "
        "expected --mean and --std\n",
        options.init, fmt::join(options.pixels.mean, ","), fmt::join(options.pixels.std, ","));
  if (holds_float64(options.init))
    say_error("warning: {} holds float64, which is rounded to float32\n", options.init);
}

std::optional<Classes> classes_said(const Metadata& said, const std::string& file) {
  try {
    return classes_in(said);
  } catch (const Error& error) {
    fail("{}: {}", file, error.what());
  }
}

}  // namespace

Options with_options_of_weights(const Options& options) {
  Options result = options;
  if (options.checkpoints.resume)
    result.weights = latest_weights_in(options.checkpoints.directory).string();
  const bool is_resumed = !result.weights.empty();
  if (!is_resumed) result.weights = options.init;
  if (result.weights.empty()) return result;
  const Metadata said = read_safetensors_metadata(result.weights);
  result.classes_of_weights = classes_said(said, result.weights);
  const auto image = numbers_of(said, "image");
  if (image.size() == 3) result.network.image = {image[0], image[1], image[2]};
  if (options.init.empty()) return result;
  if (!is_resumed) check_what_is_said(said, options);
  const Settings settings = settings_of(result);
  std::string problems;
  for (const char* name : settings_of_weights) {
    const auto found = said.find(name);
    if (found == said.end()) continue;
    const Setting& setting = settings.at(name);
    if (!options.given.contains(name)) setting.set(found->second);
    else if (setting.text() != found->second)
      problems += fmt::format("\n  --{} is {}, but they were trained with {}", name, setting.text(),
                              found->second);
  }
  for (const char* name : settings_of_scores)
    if (const auto found = said.find(name);
        found != said.end() && !found->second.empty() && !options.given.contains(name))
      settings.at(name).set(found->second);
  if (image.size() == 3) {
    const auto said_of = [&](const char* name) {
      const auto found = said.find(name);
      return found == said.end() ? std::string() : found->second;
    };
    const std::string crop = said_of("crop");
    if (!options.given.contains("crop")) result.crop = crop;
    // The built-in strokes and a folder's images can be of any size. That of a crop is not that of
    // the image.
    if (!options.given.contains("image-size"))
      result.image_size =
          crop.empty() ? fmt::format("{}x{}", image[1], image[2]) : said_of("image-size");
  }
  if (const auto classes = numbers_of(said, "classes"); classes.size() == 1)
    result.network.classes = classes[0];
  // A run that resumes is compared with its checkpoint as a whole.
  check(is_resumed || problems.empty(),
        "{} holds weights of another network; leave out what the file says:{}", options.init,
        problems);
  return result;
}

}  // namespace accrue::app
