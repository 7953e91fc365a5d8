#include "apps/commands/predict.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "apps/cli/load_data.h"
#include "apps/cli/load_network.h"
#include "apps/cli/messages.h"
#include "apps/cli/overwriting.h"
#include "data/atomic_file.h"
#include "data/mask_files.h"
#include "data/new_directory.h"
#include "layers/tiled.h"
#include "layers/tiled_unet.h"
#include "train/class_table.h"
#include "train/memory_prediction.h"
#include "train/score.h"
#include "train/training.h"

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

std::vector<fs::path> mask_paths(const Dataset& data, const fs::path& directory,
                                 Overlays overlays) {
  std::vector<fs::path> all;
  for (int64_t n = 0; n < data.size(); ++n)
    std::ranges::move(accrue::mask_paths(n, data, directory, overlays), std::back_inserter(all));
  return all;
}

void check_answers(const Options& options, const PredictOptions& asked,
                   const std::vector<fs::path>& answers) {
  Paths paths;
  paths.read("--data", options.data);
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
      .add(asked.split, splits, {"split", no_result, "The samples to answer to"})
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
  return s.append(all.in({"Model and data"}).without({"init", "augment"}))
      .append(all.in({"Machine"}));
}

void predict(const Options& options, const PredictOptions& asked) {
  const Device device = apply_machine_options(options);
  const Task task = task_of(options.network.kind);
  check(task != Task::drawing,
        "{} holds weights of a network that draws glyphs: expected a model that answers with "
        "classes or masks; glyphs are drawn by accrue font draw",
        options.init);
  const Datasets both = place_data(load_data(options, DataUse::answers), device);
  const Dataset& data = asked.split == Split::test ? both.test : both.train;
  check(task == Task::segmentation || (!asked.overlays && !asked.tile),
        "--{}: {} holds weights of a network that answers with classes, not with masks: expected "
        "neither --overlay nor --tile",
        asked.overlays ? "overlay" : "tile", options.init);
  constexpr int64_t grid = 32;  // of which the pools of every network see the same in a tile
  if (asked.tile) {
    const int64_t tile = *asked.tile, overlap = asked.overlap.value_or(0);
    check(tile % grid == 0 && overlap % grid == 0 && overlap < tile,
          "--tile {}{}: expected multiples of {}, and an overlap smaller than a tile", tile,
          asked.overlap ? fmt::format(" --overlap {}", overlap) : "", grid);
  }
  const LoadedNetwork network = load_network(options, options.model_for(both.train), device);
  const auto tiled = in_tiles(*network.model, asked);
  const Module& model = tiled ? *tiled : *network.model;
  const fs::path directory(asked.out);
  const fs::path table = directory / "predictions.csv";
  const Overlays overlays = asked.overlays ? Overlays::on : Overlays::off;
  check_answers(
      options, asked,
      task == Task::classification ? std::vector{table} : mask_paths(data, directory, overlays));
  make_directory(directory);
  if (task == Task::classification) check_writable(table);

  const std::string text = with_fewer_samples(options.micro_batch, [&](int64_t samples) {
    std::string lines;
    for_each_answer(model, *options.objective_on(data), data, samples,
                    network.parameters.compute_dtype(), device,
                    [&](const Tensor& answer, const Samples& part, int64_t begin) {
                      if (task == Task::segmentation)
                        write_masks(answer, part, begin, data, directory, overlays);
                      else lines += class_table_lines(answer, begin, data);
                    });
    return lines;
  });
  if (task == Task::classification)
    write_text_atomically(table, class_table_heading(data.field("labels")) + text);
  say("{}: {} of {}\n", task == Task::classification ? table.string() : asked.out,
      counted(data.size(), task == Task::classification ? "sample" : "mask"), data.name);
}

}  // namespace accrue::app
