#include "apps/cli/options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <ranges>
#include <sstream>

#include "apps/cli/environment.h"
#include "apps/cli/messages.h"
#include "core/cpus.h"
#include "core/cuda.h"
#include "kernels/parallel.h"
#include "train/process.h"
#include "train/run_identity.h"
#include "train/segmentation.h"

namespace accrue::app {
const std::map<std::string, InitScheme>& init_scheme_names() {
  static const std::map<std::string, InitScheme> names{{"kaiming", InitScheme::kaiming},
                                                       {"xavier", InitScheme::xavier},
                                                       {"lecun", InitScheme::lecun},
                                                       {"normal", InitScheme::normal}};
  return names;
}

const std::map<std::string, RankExchange>& rank_exchange_names() {
  static const std::map<std::string, RankExchange> names{{"auto", RankExchange::automatic},
                                                         {"host", RankExchange::host}};
  return names;
}

const std::map<std::string, Device>& device_names() {
  static const std::map<std::string, Device> names{{"cpu", Device::cpu}, {"cuda", Device::cuda}};
  return names;
}

const std::map<std::string, ScoredSplit>& split_names() {
  static const std::map<std::string, ScoredSplit> names{
      {"both", ScoredSplit::both}, {"train", ScoredSplit::train}, {"test", ScoredSplit::test}};
  return names;
}

const std::map<std::string, CacheChoice>& cache_names() {
  static const std::map<std::string, CacheChoice> names{
      {"auto", CacheChoice::automatic}, {"yes", CacheChoice::yes}, {"no", CacheChoice::no}};
  return names;
}

size_t Options::most_held_bytes() const {
  constexpr size_t any = std::numeric_limits<size_t>::max(), usual = size_t{1} << 30;
  // Below `any`, so that what is held is told.
  if (cache != CacheChoice::automatic) return cache == CacheChoice::yes ? any - 1 : 0;
  return memory_limit.empty() ? usual : std::min(usual, parse_bytes(memory_limit) / 4);
}

size_t Options::most_image_bytes() const {
  return memory_limit.empty() ? usual_most_image_bytes
                              : std::min(usual_most_image_bytes, parse_bytes(memory_limit));
}

std::string Options::data_name() const {
  if (!data.empty()) return data;
  switch (task_of(network.kind)) {
    case Task::segmentation: return "shapes";
    case Task::drawing: return "strokes";
    case Task::classification: break;
  }
  return "digits";
}

namespace {

// Reads --option N or HxW.
std::optional<ImageSize> size_of(const std::string& text, const char* option) {
  if (text.empty()) return std::nullopt;
  constexpr int64_t most = 1 << 14;
  const size_t cross = std::min(text.find('x'), text.size());
  const auto number = [&](size_t begin, size_t end) {
    int64_t value = 0;
    const char* const last = text.data() + end;
    const auto [stop, error] = std::from_chars(text.data() + begin, last, value);
    check(error == std::errc() && stop == last && 1 <= value && value <= most,
          "--{} {}: expected a number of 1 to {} pixels, or HEIGHTxWIDTH", option, text, most);
    return value;
  };
  const int64_t height = number(0, cross);
  if (cross == text.size()) return ImageSize{height, height};
  return ImageSize{height, number(cross + 1, text.size())};
}

}  // namespace

std::optional<ImageSize> Options::size_of_images() const {
  return size_of(image_size, "image-size");
}
std::optional<ImageSize> Options::size_of_crops() const { return size_of(crop, "crop"); }

Batches Options::batches_of(int64_t samples) const {
  check(micro_batch != auto_micro_batch,
        "--micro-batch auto is chosen by train and bench train: expected a number here");
  check(micro_batch <= samples, "--micro-batch {} is larger than the data: {} has {} samples",
        micro_batch, data_name(), samples);
  // Before it is multiplied.
  check(!accum || *accum <= samples / micro_batch,
        "--micro-batch {} x --accum {} is larger than the data: {} has {} samples", micro_batch,
        accum.value_or(0), data_name(), samples);
  if (accum && effective_batch)
    check(*accum * micro_batch == *effective_batch,
          "--micro-batch {} x --accum {} is {}, but --effective-batch is {}; leave out --accum and "
          "it is derived",
          micro_batch, *accum, *accum * micro_batch, *effective_batch);
  const int64_t effective = effective_batch ? *effective_batch : micro_batch * accum.value_or(4);
  check(effective <= samples, "an effective batch of {} is larger than the data: {} has {} samples",
        effective, data_name(), samples);
  return {std::min(micro_batch, effective), effective};
}

TrainingOptions Options::training(const Dataset& data) const {
  TrainingOptions result = training_with(batches_of(data.size()), data);
  check(!noise_scale || result.batches.accumulation_steps() > 1,
        "--noise-scale compares a window with its first micro-batch, but {} is one micro-batch: "
        "expected a smaller --micro-batch, or no --noise-scale",
        result.batches.describe());
  check_options(result);
  const int64_t windows = result.total_steps(data.size()), every = zi2zi.generator_every;
  check(network.kind != ModelKind::zi2zi || windows == 0 || windows >= every,
        "--n-critic {}: the generator plays in one window of {}, and the run has {}: expected more "
        "--epochs or --steps, or a smaller --n-critic or --effective-batch",
        every, every, windows);
  return result;
}

TrainingOptions Options::to_plan(const Dataset& data) const {
  if (micro_batch != auto_micro_batch) return training_with(batches_of(data.size()), data);
  check(!accum,
        "--micro-batch auto derives the number of micro-batches: expected --effective-batch "
        "instead of --accum {}",
        accum.value_or(0));
  Options smallest = *this;
  smallest.effective_batch = effective_batch.value_or(default_effective_batch);
  smallest.micro_batch = 1;
  return training_with(smallest.batches_of(data.size()), data);
}

ObjectivePtr Options::objective_on(const Dataset& data) const {
  if (!data.has("masks")) return objective_of(data);
  SegmentationOptions chosen{.class_weights = class_weights};
  std::istringstream rest(mask_loss);
  for (std::string part; std::getline(rest, part, '+');) {
    const auto found = mask_loss_names().find(part);
    check(found != mask_loss_names().end(), "--loss {}: expected {}, or a sum of some, with +",
          mask_loss, fmt::join(mask_loss_names() | std::views::keys, ", "));
    chosen.losses.push_back(found->second);
  }
  return segmentation(data.field("masks"), std::move(chosen));
}

ModelOptions Options::model_for(const Dataset& data) const {
  const bool draws = task_of(network.kind) == Task::drawing;
  const Shape images = data.field(draws ? "sources" : "images").shape_of(1);
  ModelOptions model = network;
  model.image = {images[1], images[2], images[3]};
  for (const char* classes : {"labels", "masks", "styles"})
    if (data.has(classes)) model.classes = data.field(classes).class_count();
  return model;
}

int64_t Options::steps_in(int64_t windows) const {
  const bool alternates = network.kind == ModelKind::zi2zi && order == Order::alternating;
  if (!alternates) return windows;
  return windows + windows / zi2zi.generator_every * zi2zi.generator_times;
}

TrainingOptions Options::training_with(Batches chosen, const Dataset& data) const {
  TrainingOptions result = *this;
  result.batches = chosen;
  Options o = *this;
  result.identity = deciding(settings_of(o));
  if (!memory_limit.empty() && pack == Pack::where_it_pays) result.pack = Pack::off;
  const ModelOptions model = model_for(data);
  if (network.kind == ModelKind::zi2zi) {
    Zi2ziGame game = zi2zi;
    game.networks = zi2zi_options(model);
    game.step = *this;
    result.players = zi2zi_players(game);
  } else {
    result.model = model_factory(model);
    result.objective = objective_on(data);
  }
  const Settings all = settings_of(o);
  const auto tell = [&](const char* name) {
    if (const Setting& setting = all.at(name); all.has_effect(setting) && !setting.text().empty())
      result.about_weights[name] = setting.text();
  };
  std::ranges::for_each(settings_of_weights, tell);
  std::ranges::for_each(settings_of_scores, tell);
  result.about_weights["image"] = fmt::format("{}", fmt::join(model.image.sizes(), "x"));
  if (!crop.empty()) {
    result.about_weights["crop"] = crop;
    if (!image_size.empty()) result.about_weights["image-size"] = image_size;
  }
  result.about_weights["classes"] = fmt::format("{}", model.classes);
  if (const auto classes = classes_of(data)) add_classes(*classes, result.about_weights);
  result.checkpoints.origin = {{"command", command_line()}};
  return result;
}

Options font_defaults() {
  Options options;
  options.network.kind = ModelKind::zi2zi;
  options.network.init = InitScheme::normal;
  options.beta1 = 0.5;
  return options;
}

Settings settings_of_folder(Options& o) {
  Settings s;
  s.group("Model and data")
      .add(o.hold_out, {.name = "hold-out",
                        .decides = Decides::result,
                        .help = "The part of a folder's images that is for the test, where it has "
                                "no folder test, val, valid or validation",
                        .range = {0, 0.99}})
      .add_flag(o.skip_bad, true,
                {"skip-bad", Decides::result,
                 "Leave out a folder's bad files; without, they are refused"})
      .add(o.cache, cache_names(),
           {"cache", Decides::no_result,
            "Hold a folder's decoded images, or read them as they are needed; auto: hold them if "
            "they take at most 1 GiB, and a quarter of --memory-limit"});
  return s;
}

Settings settings_of_masks(Options& o) {
  const decltype(About::acts_with) with_unet{{"model", {"unet"}}};
  Settings s;
  s.group("Model and data")
      .add(
          o.mask_loss,
          {.name = "loss",
           .decides = Decides::result,
           .help = "Of masks: bce where they say what is there and what not, cross-entropy where "
                   "each pixel has one of several classes, dice of each sample and class, or a sum "
                   "such as bce+dice; without, bce or cross-entropy",
           .takes = "LOSS[+LOSS]",
           .acts_with = with_unet})
      .add(o.class_weights,
           {.name = "class-weights",
            .decides = Decides::result,
            .help = "How much each class counts in the loss, by the classes' order",
            .takes = "W,W,...",
            .range = {0, 1e6},
            .acts_with = with_unet})
      .add(o.classes, {.name = "classes",
                       .decides = Decides::no_result,
                       .help = "Names of the masks' classes, by their order, for scores and files",
                       .takes = "NAME,NAME,...",
                       .acts_with = with_unet})
      // The objective's name has it.
      .add(
          o.ignore_mask,
          {.name = "ignore-mask",
           .decides = Decides::no_result,
           .help = "Value in masks of pixels that nobody has judged, such as 255: they count in no "
                   "loss and no score",
           .takes = "VALUE",
           .range = {0, 255},
           .acts_with = with_unet});
  return s;
}

Settings settings_of_zi2zi(Options& o) {
  constexpr Decides result = Decides::result;
  const decltype(About::acts_with) with_zi2zi{{"model", {"zi2zi"}}};
  Zi2ziOptions& networks = o.network.zi2zi;
  Zi2ziLosses& losses = o.zi2zi.losses;
  const auto about = [&](std::string name, std::string help) {
    return About{.name = std::move(name),
                 .decides = result,
                 .help = std::move(help),
                 .acts_with = with_zi2zi};
  };
  const auto weight = [&](std::string name, std::string help) {
    About all = about(std::move(name), std::move(help));
    all.range = not_negative;
    return all;
  };
  const auto count = [&](std::string name, std::string help) {
    About all = about(std::move(name), std::move(help));
    all.range = {.low = 1};
    return all;
  };
  About adaptive = weight("adversarial-weight",
                          "Of the generator's wish to deceive; without, 0.05 to 0.6, by the "
                          "discriminator's loss of a window");
  About lr_d = about("lr-d", "Learning rate of the discriminator");
  lr_d.unset = "--lr";
  About dropout = about("g-dropout", "Dropout in the generator's inner levels");
  dropout.range = {0, 0.999};
  Settings s;
  s.group("Font GAN")
      .add(networks.upsampling, upsampling_names(),
           about("upsampling", "How the generator doubles height and width"))
      .add(networks.skip, skip_names(),
           about("skip", "How its decoders take in what the encoders saw"))
      .add(networks.norm, glyph_norm_names(),
           about("norm", "Norm of both networks; batch depends on the micro-batch"))
      .add(networks.embedding, count("embedding", "Numbers that a style is"))
      .add_flag(networks.self_attention, true,
                about("self-attention", "Self-attention in two levels of the generator"))
      .add_flag(networks.spectral_norm, true,
                about("d-spectral-norm", "Spectral norm in the discriminator"))
      .add(networks.dropout, std::move(dropout))
      .add(o.order, order_names(),
           about("order",
                 "alternating: the discriminator steps, then the generator plays against it; "
                 "simultaneous: both step at the end of a window"))
      .add(o.zi2zi.generator_every,
           count("n-critic", "Windows of the discriminator to one of the generator"))
      .add(o.zi2zi.generator_times,
           count("g-steps", "Steps of the generator in each window that it plays"))
      .add(o.zi2zi.discriminator_lr, std::move(lr_d))
      .add(losses.constancy, constancy_names(),
           about("constancy",
                 "Whose features shall agree: source and drawing (original) or source and target "
                 "(port)"))
      .add(losses.l1_weight, weight("l1-weight", "Of the mean distance to the target"))
      .add(losses.constancy_weight, weight("constancy-weight", "Of the distance of features"))
      .add(losses.category_weight, weight("category-weight", "Of telling styles apart"))
      .add(losses.adversarial_weight, std::move(adaptive));
  return s;
}

std::vector<std::string> arguments_of(const Options& options) {
  Options chosen = options, defaults;
  const Settings table = settings_of(chosen), default_table = settings_of(defaults);
  std::vector<std::string> arguments;
  auto unchosen = default_table.begin();
  for (const Setting& setting : table) {
    const std::string text = setting.text();
    if (text == (unchosen++)->text()) continue;
    arguments.push_back("--" + setting.about.name);
    if (!setting.is_flag) arguments.push_back(text);
  }
  return arguments;
}

Device wanted_device(const Options& options) {
  return options.device.value_or(cuda::unavailable_reason().empty() ? Device::cuda : Device::cpu);
}

void apply_threads(const Options& options) {
  const int64_t most = std::min(available_cpus(), most_threads);
  set_thread_count(static_cast<int>(std::min(options.threads, most)));
}

Device apply_machine_options(const Options& options) {
  const Device device = wanted_device(options);
  if (options.device == Device::cuda) cuda::require_device();
  if (!options.device) {
    const std::string reason = cuda::unavailable_reason();
    if (reason.empty()) say("device: cuda ({})\n", cuda::describe_device());
    else if (std::filesystem::exists("/dev/nvidiactl"))
      say("device: cpu (not cuda, although there is a GPU: {})\n", reason);
  }
  const bool tf32 = options.precision == Precision::tf32;
  check(!tf32 || device == Device::cuda,
        "--precision tf32 is a way of a GPU's tensor cores to multiply, but this run is on {}: "
        "expected fp32, bf16 or fp16, or --device cuda",
        name(device));
  if (device == Device::cuda) cuda::allow_tf32(tf32);
  apply_threads(options);
  if (!options.memory_limit.empty()) ledger(device).set_limit(parse_bytes(options.memory_limit));
  return device;
}

}  // namespace accrue::app
