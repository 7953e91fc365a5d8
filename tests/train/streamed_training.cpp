// A training whose images are read when they are needed has the same weights and the predicted
// peak.

#include "images/augmentation.h"
#include "images/image_folder.h"
#include "kernels/parallel.h"
#include "layers/models.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/files.h"
#include "tests/support/image_files.h"
#include "train/memory_prediction.h"
#include "train/score.h"
#include "train/trainer.h"

namespace accrue::test {
namespace {

Datasets load_photos(const TemporaryDirectory& folder, size_t most_held_bytes) {
  return place_data(load_images(folder.path(), {.most_held_bytes = most_held_bytes}),
                    test_device());
}

void write_photos(const TemporaryDirectory& folder) {
  for (int i = 0; i < 60; ++i) {
    Image image = some_planes(3, 8, 8);
    for (uint8_t& value : image.pixels) value = static_cast<uint8_t>(value + 17 * i);
    folder.write(fmt::format("{}/c{}/{:02}.png", i < 40 ? "train" : "test", i % 3, i),
                 png_of(image));
  }
}

TrainingOptions options_of_photos(int64_t micro, const std::string& checkpoints) {
  TrainingOptions options;
  options.model = model_factory(
      {.kind = ModelKind::mlp_small, .dropout = 0.1, .image = {3, 8, 8}, .classes = 3});
  options.batches = {.micro = micro, .effective = 12};
  options.epochs = 2;
  options.eval_every = each_epoch;
  options.checkpoints = {.directory = checkpoints, .every = 3, .resume = true};
  return options;
}

}  // namespace

TEST_CASE("a training with images on demand resumes one with images in memory", "[trainer]") {
  const TemporaryDirectory folder;
  write_photos(folder);
  const Datasets held = load_photos(folder, size_t{1} << 30), read = load_photos(folder, 0);
  REQUIRE(read.train.is_streamed());
  const auto weights_of = [&](const Datasets& first, const Datasets& rest) {
    const TemporaryDirectory checkpoints;
    const TrainingOptions options = options_of_photos(5, checkpoints.path().string());
    Observer nobody;
    {
      Trainer trainer(options, first.train, test_device(), first.test);
      trainer.run(nobody, [&] { return trainer.windows() < 2 ? Stop::no : Stop::after_window; });
    }
    Trainer trainer(options, rest.train, test_device(), rest.test);
    trainer.resume(nobody);
    REQUIRE(trainer.windows() == 2);
    trainer.run(nobody, [] { return Stop::no; });
    return to_doubles(trainer.training().parameters().values());
  };
  const auto expected = weights_of(held, held);
  REQUIRE(weights_of(read, read) == expected);
  REQUIRE(weights_of(held, read) == expected);
}

TEST_CASE("the peak of images that are read is predicted to the byte", "[plan][memory]") {
  const TemporaryDirectory folder;
  write_photos(folder);
  const Datasets read = load_photos(folder, 0);
  const size_t any = size_t{1} << 40;
  for (const int64_t micro : {1, 5, 12}) {
    const TrainingOptions options = options_of_photos(micro, "");
    const Usage measured = peak_of_windows(options, read.train, test_device(), &read.test);
    for (const bool is_told_memory : {false, true}) {
      const Datasets planned =
          is_told_memory ? plan_data(read, test_device(), any) : plan_data(read, test_device());
      const Usage predicted = planned_peak(options, planned.train, test_device(), &planned.test);
      INFO("measured " << to_string(measured) << ", predicted " << to_string(predicted));
      REQUIRE(measured.bytes == predicted.bytes);
    }
  }
}

TEST_CASE("the peak of images that are augmented is predicted to the byte", "[plan][memory]") {
  const TemporaryDirectory folder;
  write_photos(folder);
  Datasets host = load_images(folder.path(), {});
  host.train.augmentation = changes_of(parse_augmentation("flip,rotate,brightness"));
  const Datasets data = place_data(host, test_device());
  REQUIRE(data.train.device() == Device::cpu);  // on any device
  for (const int64_t micro : {1, 5, 12}) {
    const TrainingOptions options = options_of_photos(micro, "");
    const Usage measured = peak_of_windows(options, data.train, test_device(), &data.test);
    const Datasets planned = plan_data(host, test_device(), size_t{1} << 40);
    const Usage predicted = planned_peak(options, planned.train, test_device(), &planned.test);
    INFO("measured " << to_string(measured) << ", predicted " << to_string(predicted));
    REQUIRE(measured.bytes == predicted.bytes);
  }
}

}  // namespace accrue::test
