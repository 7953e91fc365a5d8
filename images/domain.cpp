#include "images/domain.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>
#include <set>
#include <sstream>

#include "data/classes.h"
#include "images/contrastive.h"
#include "images/find_dataset.h"
#include "images/mnist.h"
#include "layers/models.h"

namespace accrue {
namespace {

bool is_looked_for(const std::string& data) { return data == "mnist" || data == "fashion"; }

Settings settings_of_folder(Images& o) {
  Settings s;
  s.group("Model and data")
      .add(o.hold_out, {.name = "hold-out",
                        .decides = Decides::result,
                        .help = "The part of a folder's images that is for the test, where it has "
                                "no folder test, val, valid or validation",
                        .range = {0, 0.99},
                        .data = "a folder of images",
                        .acts_in = ActsIn::samples})
      .add_flag(o.skip_bad, true,
                {.name = "skip-bad",
                 .decides = Decides::result,
                 .help = "Leave out a folder's bad files; without, they are refused",
                 .data = "a folder of images",
                 .acts_in = ActsIn::samples})
      .add(o.cache, cache_names(),
           {.name = "cache",
            .decides = Decides::no_result,
            .help = "Hold a folder's decoded images, or read them as they are needed; auto: hold "
                    "them if they take at most 1 GiB, and a quarter of --memory-limit",
            .data = "a folder of images",
            .acts_in = ActsIn::samples});
  return s;
}

Settings settings_of_masks(Images& o) {
  std::vector<std::string> all, classifiers;
  for (const auto& [name, kind] : model_names()) {
    all.push_back(name);
    if (kind != ModelKind::unet) classifiers.push_back(name);
  }
  const ActsWith with_unet{{"model", {"unet"}}},
      with_labels{{"model", classifiers}, {"objective", {"labels"}}};
  Settings s;
  s.group("Model and data")
      .add(
          o.mask_loss,
          {.name = "loss",
           .decides = Decides::result,
           .help = "The loss of masks: bce for foreground and background, cross-entropy if each "
                   "pixel has one of several classes, dice of each sample and class, or a sum such "
                   "as bce+dice; without, bce or cross-entropy",
           .takes = "LOSS[+LOSS]",
           .acts_with = with_unet,
           .saved = Saved::with_scores,
           .acts_in = ActsIn::scores});
  add_settings(s, o.labels, with_unet || with_labels, with_labels);
  s.add(o.classes, {.name = "classes",
                    .decides = Decides::no_result,
                    .help = "Names of the classes of masks, or of labels that are numbers, by "
                            "their order, for scores and files and to find them in weights",
                    .takes = "NAME,NAME,...",
                    .acts_with = {{"model", all}},
                    .acts_in = ActsIn::samples})
      // The objective's name has it.
      .add(
          o.ignore_mask,
          {.name = "ignore-mask",
           .decides = Decides::no_result,
           .help = "Value in masks of pixels that nobody has judged, such as 255: they count in no "
                   "loss and no score",
           .takes = "VALUE",
           .range = {0, 255},
           .acts_with = with_unet,
           .saved = Saved::with_scores,
           .data = "a folder of images and masks",
           .acts_in = ActsIn::samples});
  return s;
}

Settings settings_of_contrast(Images& o) {
  static const std::map<std::string, ImageObjective> names{{"labels", ImageObjective::answers},
                                                           {"simclr", ImageObjective::simclr}};
  std::vector<std::string> classifiers;
  for (const auto& [name, kind] : model_names())
    if (kind != ModelKind::unet) classifiers.push_back(name);
  const ActsWith with_classifiers{{"model", classifiers}}, with_simclr{{"objective", {"simclr"}}};
  Settings s;
  s.group("Model and data")
      .add(o.to_learn, names,
           {.name = "objective",
            .decides = Decides::result,
            .help = "Learn the labels; or simclr: to tell two views of an image (--augment) from "
                    "all other images of the effective batch, with labels for scores alone",
            .acts_with = with_classifiers,
            .saved = Saved::with_scores,
            .acts_in = ActsIn::answers})
      .add(o.temperature, {.name = "temperature",
                           .decides = Decides::result,
                           .help = "For simclr: products of unit vectors are divided by it",
                           .range = above_zero,
                           .acts_with = with_simclr,
                           .saved = Saved::with_scores,
                           .acts_in = ActsIn::scores,
                           .costs = Costs::nothing})
      .add(o.embedding_size, {.name = "embedding-size",
                              .decides = Decides::result,
                              .help = "For simclr: how many numbers the network answers for a view",
                              .range = {.low = 1},
                              .acts_with = with_simclr,
                              .saved = Saved::with_weights});
  return s;
}

// The model with GroupNorm to take in place of one with BatchNorm.
std::string model_with_group_norm(ModelKind kind) {
  switch (kind) {
    case ModelKind::cnn_bn: return name(ModelKind::cnn_gn);
    case ModelKind::resnet18: return name(ModelKind::resnet18_gn);
    case ModelKind::resnet34: return name(ModelKind::resnet34_gn);
    case ModelKind::resnet50: return name(ModelKind::resnet50_gn);
    default: return name(ModelKind::resnet);
  }
}

std::vector<Field*> masks_in(Datasets& data) {
  std::vector<Field*> found;
  for (Dataset* each : {&data.train, &data.test})
    for (Field& field : each->fields)
      if (field.name == "masks") found.push_back(&field);
  return found;
}

}  // namespace

const std::map<std::string, CacheChoice>& detail::cache_names() {
  static const std::map<std::string, CacheChoice> names{
      {"auto", CacheChoice::automatic}, {"yes", CacheChoice::yes}, {"no", CacheChoice::no}};
  return names;
}

const std::map<std::string, Channels>& detail::channels_names() {
  static const std::map<std::string, Channels> names{{"first", Channels::first},
                                                     {"last", Channels::last}};
  return names;
}

bool detail::answers_with_masks(const DomainModel& model) { return model.classes() == "masks"; }

Settings Images::settings(TrainingOptions&) {
  Settings s;
  s.group("Model and data")
      .add(depth,
           {.name = "depth",
            .decides = Decides::result,
            .help = "Levels of the U-Net, each at half the size of the last with twice the "
                    "channels. Images whose sides are no multiples of 2^(depth - 1) are filled up "
                    "with the colour of --mean below and on the right, and the answer is cut to "
                    "their size",
            .range = Interval{1, 10},
            .saved = Saved::with_weights,
            .before = "data"})
      .add(request.size,
           {.name = "image-size",
            .decides = Decides::no_result,
            .help = "Height and width that the images of a folder are brought to, or of the "
                    "built-in strokes: 32, 64, 128 or 256",
            .takes = "N|HxW",
            .unset = "64 of strokes; of a folder, what all its images have",
            .saved = Saved::by_domain,
            .acts_in = ActsIn::samples})
      .add(request.crop,
           {.name = "crop",
            .decides = Decides::result,
            .help =
                "Train on a part of this height and width of each image and its mask, another one "
                "each time; for images of one size, or after --image-size. Classes are scored and "
                "predicted by the images' middle, masks on whole images",
            .takes = "N|HxW",
            .unset = "whole images",
            .saved = Saved::by_domain,
            .acts_in = ActsIn::answers})
      .add(request.pixels.mean, {.name = "mean",
                                 .decides = Decides::result,
                                 .help = "Pixels in [0, 1] are x: the net sees (x - mean) / std; "
                                         "one number, or one for each channel",
                                 .takes = "NUMBER,...",
                                 .saved = Saved::with_weights,
                                 .before = "dropout"})
      .add(request.pixels.std, {.name = "std",
                                .decides = Decides::result,
                                .help = "The same; a net of PyTorch's that was trained on "
                                        "ToTensor() alone takes --mean 0 --std 1",
                                .takes = "NUMBER,... above 0",
                                .range = above_zero,
                                .saved = Saved::with_weights,
                                .before = "dropout"});
  s.append(settings_of_folder(*this)).append(settings_of_masks(*this));
  s.append(settings_of_contrast(*this));
  s.group("Model and data")
      .add(augmentation,
           {"augment", Decides::result,
            "Change training images, and their masks alike, anew each time: flip and vflip "
            "(half of them), rotate=DEGREES at most either way (10), crop=PART of the sides at "
            "least, enlarged (0.8), brightness=PART and contrast=PART at most up or down (0.2); "
            "what lies outside is black",
            "NAME[=N],...", "images as they are"})
      .add(channels, channels_names(),
           {.name = "channels",
            .decides = Decides::no_result,
            .help = "Where the network keeps the channels of its images on a GPU: first, "
                    "[N, C, H, W], or last, [N, H, W, C], which tensor cores multiply without "
                    "copies; for networks of convolutions without other norms than BatchNorm",
            .acts_on = ActsOn::gpu})
      .add(data_dir, {.name = "data-dir",
                      .decides = Decides::no_result,
                      .help = "The first directory to search for mnist and fashion",
                      .takes = reads("DIR"),
                      .data = "--data mnist or fashion",
                      .acts_in = ActsIn::samples});
  return s;
}

std::vector<DomainModel> Images::models() const {
  std::vector<DomainModel> models;
  for (const auto& [name, kind] : model_names()) {
    const bool has_masks = kind == ModelKind::unet;
    const ModelOptions shown = default_model(kind);
    const SampleSpec::Field answer{.name = has_masks ? "masks" : "labels",
                                   .encoding = has_masks ? Encoding::mask : Encoding::index,
                                   .classes = shown.classes};
    std::vector<std::string> heeds{"width", "dropout", "init-scheme"};
    if (has_masks) heeds.emplace_back("depth");
    if (takes_channels_last(kind)) heeds.emplace_back("channels");
    if (kind != ModelKind::mlp && kind != ModelKind::mlp_small) heeds.emplace_back("pack");
    models.push_back({.name = name,
                      .sample = {{{"images", Encoding::pixel, shown.image}, answer}},
                      .data = has_masks ? "shapes" : "digits",
                      .heeds = std::move(heeds),
                      .takes_any_size = has_masks,
                      .other_norm = model_with_group_norm(kind) + " (GroupNorm)"});
  }
  return models;
}

ModelFactory Images::factory(const std::string& model, const NetworkOptions& options,
                             const SampleSpec& sample) const {
  const bool answers = to_learn == ImageObjective::answers;
  return model_factory({.kind = model_names().at(model),
                        .dropout = options.dropout,
                        .init = options.init,
                        .width = options.width,
                        .depth = depth,
                        .image = sample.input().shape,
                        .classes = answers ? sample.classes() : embedding_size,
                        .channels = channels});
}

ObjectivePtr Images::objective(const Dataset& data) const {
  if (to_learn == ImageObjective::simclr)
    return contrastive({.temperature = temperature,
                        .answers = embedding_size,
                        .classes = data.field("labels").classes});
  if (!data.has("masks")) return labels.objective(data);
  const Field& masks = data.field("masks");
  return segmentation(
      masks, {.losses = mask_losses_of(mask_loss), .class_weights = labels.weights_of(masks)});
}

Metadata Images::seen(const DomainModel& model) const {
  Metadata said;
  if (model.takes_any_size && (request.size.empty() || request.has_own_sizes))
    said[image_sizes_key] = own_image_sizes;
  if (request.crop.empty()) return said;
  said["crop"] = request.crop;
  said["answers"] = model.classes();
  if (!request.size.empty()) said["image-size"] = request.size;
  return said;
}

// Restores the sizes from the weights, because built-in strokes and a folder's images can have any
// size. The input of a network that learned from crops has the crop's size, not the image's.
void Images::see(const SampleSpec& learned, const Metadata& said,
                 const std::set<std::string>& given) {
  const Shape& image = learned.input().shape;
  if (image.rank() != 3) return;
  const auto said_of = [&](const char* name) {
    const auto found = said.find(name);
    return found == said.end() ? std::string() : found->second;
  };
  const std::string crop = said_of("crop");
  if (!given.contains("crop")) request.crop = crop;
  if (given.contains("image-size")) return;
  request.size = crop.empty() ? fmt::format("{}x{}", image[1], image[2]) : said_of("image-size");
  request.has_own_sizes = said_of(image_sizes_key) == own_image_sizes;
}

SampleSpec Images::asked(const SampleSpec& learned, const std::set<std::string>& given) const {
  const auto size = read_image_size(request.size, "--image-size");
  if (!size || !given.contains("image-size")) return learned;
  return learned.with({learned.input().shape[0], size->height, size->width}, learned.classes());
}

Descriptions Images::descriptions() const {
  return {{"dice", "Mean Dice coefficient of the masks, from 0 to 1."},
          {"iou", "Mean intersection over union of the masks, from 0 to 1."},
          {"balanced_accuracy", "The mean over the classes of the accuracy in each."},
          {"probe", "The part of the labels' variance that is a linear function of the answers."}};
}

Domain::Claim Images::claim(const std::string& data) const {
  const std::vector<std::string> names = data_sets();
  if (std::ranges::find(names, data) != names.end()) return Claim::own;
  std::error_code ignored;
  if (!std::filesystem::is_directory(data, ignored)) return Claim::none;
  return holds_image_set(data) ? Claim::own : Claim::directory;
}

std::vector<std::string> Images::data_sets() const {
  return {"mnist", "fashion", "digits", "shapes"};
}

std::optional<std::filesystem::path> Images::directory_of(const std::string& data) const {
  return find_mnist(data, data_dir);
}

bool Images::heeds(const std::string& setting, const std::string& data) const {
  return setting == "data-dir" ? is_looked_for(data) : claim(data) != Claim::own;
}

std::optional<double> Images::given_hold_out(const DataRequest& asked) const {
  return asked.given.contains("hold-out") ? std::optional(hold_out) : std::nullopt;
}

ImageFolderOptions Images::folder_options(const DataRequest& asked) const {
  constexpr size_t any = std::numeric_limits<size_t>::max(), usual = size_t{1} << 30;
  // Below `any`: then Dataset::about says that the images are held.
  size_t held = cache == CacheChoice::yes ? any - 1 : 0;
  if (cache == CacheChoice::automatic) held = std::min(usual, asked.memory_limit.value_or(any) / 4);
  const Shape learned = asked.learned.fields.empty() ? Shape{} : asked.learned.input().shape;
  const auto size = read_image_size(request.size, "--image-size");
  read_image_size(request.crop, "--crop");  // before files are read
  return {.size = size,
          .hold_out = given_hold_out(asked),
          .channels = learned.rank() == 3 ? learned[0] : 1,
          .skip_bad = skip_bad ? SkipBad::yes : SkipBad::no,
          .unjudged_mask_value = ignore_mask,
          .has_named_mask_values = !classes.empty(),
          .one_class = asked.use == DataUse::training ? OneClass::refused : OneClass::allowed,
          .most_held_bytes = held,
          .most_image_bytes = std::min(usual_most_image_bytes, asked.memory_limit.value_or(any))};
}

Datasets Images::load(const DataRequest& asked) const {
  return find_dataset(asked.data, data_dir, folder_options(asked));
}

void Images::fit(Datasets& data, const DomainModel& model, const DataRequest& asked) const {
  const std::string& set = data.train.name;
  const bool has_masks = data.train.has("masks");
  check(has_masks || data.train.has("labels"),
        "--model {} needs images with labels or masks, but the data set {} has {}: expected --data "
        "digits, shapes, mnist, fashion, a folder of images or a directory of IDX files",
        model.name, set, data.train.fields.front().name);
  if (answers_with_masks(model))
    check(has_masks,
          "--model {} answers with a mask for each image, but the data set {} has labels: expected "
          "--data shapes, or a folder of images and masks",
          model.name, set);
  else
    check(!has_masks,
          "--model {} answers with a class, but the data set {} has masks: expected --model unet, "
          "or images with classes, such as --data digits",
          model.name, set);
  labels.check_data(data.train, asked.use);
  if (has_masks && ignore_mask) {
    int64_t most = 0;
    for (Field* masks : masks_in(data)) {
      ignore_value(*masks, static_cast<uint8_t>(*ignore_mask));
      most = std::max(most, masks->classes);
    }
    for (Field* masks : masks_in(data)) masks->classes = most;
  }
  if (to_learn == ImageObjective::simclr) add_views(data.test, Views::equal);
  crop(data, model, asked);
  name_classes(data, classes);
}

void Images::check_sizes(const Dataset& data, const DataRequest& asked) const {
  const auto size = read_image_size(request.size, "--image-size");
  read_image_size(request.crop, "--crop");
  const Field& seen = data.fields.front();
  const Shape& shape = seen.values.shape();
  const bool are_images = shape.rank() == 4;
  check(are_images || !asked.given.contains("crop"),
        "--crop {}: the {} of --data {} are {}: expected images [N, C, H, W]", request.crop,
        seen.name, asked.data, shape);
  check(!size || !asked.given.contains("image-size") ||
            (are_images && shape[2] == size->height && shape[3] == size->width),
        "--image-size {}: the {} of --data {} are {}; expected a folder of images, or "
        "--data strokes",
        request.size, seen.name, asked.data,
        are_images ? fmt::format("{}x{}", shape[2], shape[3]) : to_string(shape));
}

void Images::augment(Dataset& data, const DataRequest& asked) const {
  check_sizes(data, asked);
  for (const char* name : {"mean", "std"})
    if (asked.given.contains(name)) data.check_pixels(fmt::format("--{}", name));
  Augmentation wish = parse_augmentation(augmentation);
  if (wish.is_any()) data.check_pixels("--augment " + augmentation);
  wish.crops_anywhere = !request.crop.empty() && asked.use == DataUse::training;
  data.augmentation = changes_of(wish);
  if (const std::string weights = labels.describe(data);
      asked.use == DataUse::training && !weights.empty())
    data.about += (data.about.empty() ? "" : "; ") + weights;
  if (to_learn == ImageObjective::simclr && data.has("images"))
    add_views(data, asked.use == DataUse::training ? Views::differ : Views::equal);
}

std::vector<MaskLoss> detail::mask_losses_of(const std::string& text) {
  std::vector<MaskLoss> losses;
  std::istringstream rest(text);
  for (std::string part; std::getline(rest, part, '+');) {
    const auto found = mask_loss_names().find(part);
    check(found != mask_loss_names().end(), "--loss {}: expected {}, or a sum of some, with +",
          text, fmt::join(mask_loss_names() | std::views::keys, ", "));
    losses.push_back(found->second);
  }
  return losses;
}

void detail::name_classes(Datasets& data, const std::vector<std::string>& names) {
  if (names.empty()) return;
  const std::set<std::string> different(names.begin(), names.end());
  check(different.size() == names.size(), "--classes {}: expected different names",
        fmt::join(names, ","));
  check(data.train.has("masks") || data.train.has("labels"),
        "--classes {}: {} has neither labels nor masks: expected no --classes",
        fmt::join(names, ","), data.train.name);
  for (Dataset* each : {&data.train, &data.test})
    for (Field& field : each->fields) {
      if (field.name != "masks" && field.name != "labels") continue;
      const int64_t count = std::ssize(names), classes = field.class_count();
      const bool may_be_more = field.encoding == Encoding::index && field.class_values.empty();
      check(count == classes || (may_be_more && count > classes),
            "--classes has {} names, but the {} have {}: expected one for each", count, field.name,
            counted_classes(classes));
      check(field.name == "masks" || !classes_of(field).have_names(),
            "--classes {}: the labels of {} have the names {}: expected no --classes",
            fmt::join(names, ","), each->name, classes_of(field).describe());
      field.class_names = names;
      if (may_be_more) field.classes = count;
    }
}

void crop(Datasets& data, const DomainModel& model, const DataRequest& request) {
  const std::string text = request.value("crop");
  const auto size = read_image_size(text, "--crop");
  if (!size) return;
  const bool is_trained = request.use == DataUse::training, sees_whole = answers_with_masks(model);
  check(is_trained || !sees_whole || !request.given.contains("crop"),
        "--crop {}: masks are scored and predicted on whole images; expected no --crop", text);
  if (is_trained || !sees_whole) data.train.crop_to(*size);
  if (!sees_whole) data.test.crop_to(*size);
}

}  // namespace accrue
