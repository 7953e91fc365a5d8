// The program on a folder of images: training, scoring what was saved, and looking for bad files.

#include <algorithm>
#include <map>
#include <regex>

#include "images/image_folder.h"
#include "tests/support/cli.h"
#include "tests/support/image_files.h"

namespace accrue::test {
namespace {

// Writes images of different sizes in two classes, dark and bright. Some are JPEG files.
void write_classes(const Folder& folder) {
  for (int i = 0; i < 40; ++i) {
    Image image = some_planes(3, 20 + i % 3, 24);
    for (uint8_t& pixel : image.pixels) pixel = static_cast<uint8_t>(pixel / 4 + (i % 2) * 150);
    folder.TemporaryDirectory::write(fmt::format("{}/{}{}.{}", i % 2 ? "bright" : "dark", i,
                                                 i == 1 ? ", one" : "", i % 4 < 2 ? "png" : "jpg"),
                                     i % 4 < 2 ? png_of(image) : jpeg_file(image));
  }
}

}  // namespace

TEST_CASE("a folder of images is trained on and scored", "[cli][full]") {
  const Folder folder;
  write_classes(folder);
  const std::string data = " --data " + folder.path().string(), saved = folder / "w.safetensors";
  const std::string options = data + " --image-size 16x12 --model cnn --width 0.25 --hold-out 0.3";
  const std::string said =
      succeed("train" + options + " --epochs 8 --lr 0.01 --micro-batch 4 --save " + saved);
  REQUIRE_THAT(said, ContainsSubstring("40 images, 2 classes, 20x24 to 22x24 (height x width), "));
  // The image size comes from the weights' file.
  const std::string scored =
      succeed("eval --init " + saved + data + " --hold-out 0.3 --split test");
  REQUIRE_THAT(scored, ContainsSubstring("accuracy 100.00 %"));
  // Each image gets the class of its folder. A name with a comma is quoted.
  const Folder answers;
  std::map<std::string, int> lines_of;
  for (const std::string split : {"train", "test"}) {
    succeed("predict --weights " + saved + data + " --hold-out 0.3 --split " + split + " --out " +
            (answers / split));
    const std::string table = file_bytes(answers / split + "/predictions.csv");
    REQUIRE(table.starts_with("sample,class,bright,dark\n"));
    for (const std::string kind : {"bright", "dark"}) {
      const std::regex line("(^|\n)\"?" + kind + "/[^\n\"]*\\.(png|jpg)\"?," + kind + ",");
      lines_of[kind] += int(std::distance(std::sregex_iterator(table.begin(), table.end(), line),
                                          std::sregex_iterator()));
    }
    if (split == "train") REQUIRE_THAT(table, ContainsSubstring("\"bright/1, one.png\",bright,"));
  }
  REQUIRE(lines_of == std::map<std::string, int>{{"bright", 20}, {"dark", 20}});
  refuse("train" + data + " --model cnn", "20x24 to 22x24 (height x width): expected one size");
  refuse("train" + data + " --model cnn --image-size 3y", "--image-size 3y: expected a number");
  refuse("train" + data + " --model cnn --image-size 3x", "--image-size 3x: expected a number");
  refuse("train --model cnn --data digits --image-size 32", "are 28x28");
  refuse("train --model gpt-tiny --data grammar --crop 8", "are [7325, 256]: expected images");
  refuse("train" + data + " --model unet --image-size 16", "has labels");
  refuse("train" + data + " --image-size 16 --hold-out 1", "--hold-out");

  folder.TemporaryDirectory::write("dark/damaged.jpg", "no image");
  refuse("train" + options, "dark/damaged.jpg");
  refuse("train" + options, "the setting skip-bad leaves it out");
  REQUIRE_THAT(succeed("train" + options + " --skip-bad --micro-batch 4 --epochs 1"),
               ContainsSubstring("1 bad file left out"));
  const std::string sheet = answers / "sheet.png";
  const Output checked = accrue_run("data check " + folder.path().string() + " --sheet " + sheet);
  REQUIRE(checked.status == 1);
  REQUIRE_THAT(checked.text, ContainsSubstring("bad: ") &&
                                 ContainsSubstring("damaged.jpg': it is neither") &&
                                 ContainsSubstring("has 1 bad file"));
  const Image seen = read_image(sheet);
  REQUIRE(seen.size() == ImageSize{204, 804});
  fs::remove(folder / "dark/damaged.jpg");
  REQUIRE_THAT(succeed("data check " + folder.path().string()),
               ContainsSubstring("bright") && ContainsSubstring("dark"));
}

TEST_CASE("a folder of masks of several classes is trained on", "[cli][full]") {
  const Folder folder, answers;
  const std::array<uint8_t, 3> values{0, 80, 200};
  const bool learns = !computes_slowly();
  for (int i = 0; i < 12; ++i) {
    Image image = some_planes(1, 16, 16), mask = image;
    for (size_t p = 0; p < mask.pixels.size(); ++p) {
      const size_t k = p % 16 / 6;
      mask.pixels[p] = values[k];
      image.pixels[p] = static_cast<uint8_t>(100 * k + static_cast<size_t>(i));
    }
    folder.TemporaryDirectory::write(fmt::format("images/{}.png", i), png_of(image));
    folder.TemporaryDirectory::write(fmt::format("masks/{}.png", i), png_of(mask));
  }
  const std::string data = " --hold-out 0.4 --data " + folder.path().string();
  const std::string weights = answers / "w.safetensors";
  const std::string trained =
      succeed("train --model unet --width 0.5 --micro-batch 2 --accum 2 --lr 0.01 --epochs " +
              std::string(learns ? "40 " : "1 ") +
              "--class-weights 1,2,0.5 --classes sea,sand,wood --json " + (answers / "log") +
              " --save " + weights + data);
  REQUIRE_THAT(trained, ContainsSubstring("Dice") && ContainsSubstring("sand ") &&
                            ContainsSubstring("predicted to the byte"));
  const auto score = json_lines(answers / "log").back()["test"];
  if (learns) REQUIRE(score["dice.wood"] > 0.9);
  REQUIRE(score["dice"].get<double>() ==
          Approx((score["dice.sea"].get<double>() + score["dice.sand"].get<double>() +
                  score["dice.wood"].get<double>()) /
                 3));
  // The weights' file says which loss the training used, and the score uses it, too.
  const std::string evaluated =
      succeed("eval --split test --classes sea,sand,wood --init " + weights + data);
  REQUIRE_THAT(evaluated,
               ContainsSubstring(fmt::format("loss {:.4f}", score["loss"].get<double>())));
  // A network may be trained further with another loss.
  succeed("train --steps 1 --loss dice --class-weights 1,1,1 --init " + weights + data +
          " --micro-batch 2");
  succeed("predict --split test --overlay --weights " + weights + " --out " + (answers / "masks") +
          data);
  int predicted = 0, right = 0;
  for (int i = 0; i < 12; ++i) {
    const std::string path = answers / fmt::format("masks/images/{}.png", i);
    if (!fs::exists(path)) continue;
    const Image mask = read_mask(path);
    for (size_t p = 0; p < mask.pixels.size(); ++p, ++predicted) {
      REQUIRE(std::ranges::count(values, mask.pixels[p]) == 1);
      right += mask.pixels[p] == values[p % 16 / 6];
    }
  }
  REQUIRE(predicted > 0);
  if (learns) REQUIRE(right > 0.9 * predicted);
  const std::string train = "train --model unet --width 0.5 --steps 1 --micro-batch 2" + data;
  refuse(train + " --loss bce", "each pixel has one of 3 classes: expected cross-entropy");
  REQUIRE_THAT(succeed(train + " --loss cross-entropy+dice --class-weights 1,2,0.5"),
               ContainsSubstring("predicted to the byte"));
  refuse(train + " --loss bec", "expected bce, cross-entropy, dice, or a sum");
  refuse(train + " --class-weights 1,2", "2 class weights for 3 classes");
  refuse(train + " --class-weights 1,x,2", "--class-weights is x: expected");
  refuse(train + " --classes a,b", "--classes has 2 names, but the masks have 3 classes");
  refuse("train --model unet --steps 1 --loss cross-entropy", "expected bce");
  refuse("train --model mlp-small --steps 1 --classes a,b",
         "--classes has 2 names, but the labels have 10 classes");
}

TEST_CASE("pixels that nobody has judged count neither in windows nor in scores", "[cli][full]") {
  const Folder folder, answers;
  for (int i = 0; i < 5; ++i) {
    Image image = some_planes(1, 16, 16), mask = image;
    for (size_t p = 0; p < mask.pixels.size(); ++p) {
      const size_t column = p % 16, border = 4 + static_cast<size_t>(i);
      mask.pixels[p] = i == 4 || column == border ? 255 : column < border ? 0 : 80;
      image.pixels[p] = static_cast<uint8_t>(100 * (column / 6) + static_cast<size_t>(i));
    }
    for (const std::string part : {"train", "test"}) {
      if (part == "test" && i < 3) continue;
      folder.TemporaryDirectory::write(fmt::format("{}/images/{}.png", part, i), png_of(image));
      folder.TemporaryDirectory::write(fmt::format("{}/masks/{}.png", part, i), png_of(mask));
    }
  }
  const std::string data = " --data " + folder.path().string(),
                    train = "train --model unet --width 0.5 --depth 2 --ignore-mask 255" + data;
  const auto losses = [&](const std::string& batches) {
    const std::string log = answers / "log";
    const std::string told = succeed(train + " --epochs 2 --json " + log + " --save " +
                                     (answers / "w.safetensors") + batches);
    REQUIRE_THAT(told, ContainsSubstring("255 in masks is not judged") &&
                           ContainsSubstring("predicted to the byte"));
    return json_lines(log);
  };
  const auto whole = losses(" --micro-batch 5 --accum 1"),
             one_by_one = losses(" --micro-batch 1 --accum 5");
  for (size_t step = 0; step < 2; ++step)
    REQUIRE(one_by_one[step]["loss"].get<double>() ==
            Approx(whole[step]["loss"].get<double>()).epsilon(1e-5));
  // The weights' file says which pixels are not judged, and how to score.
  const auto score = one_by_one.back()["test"];
  const std::string weights = answers / "w.safetensors";
  REQUIRE_THAT(succeed("eval --split test --init " + weights + data),
               ContainsSubstring(fmt::format("loss {:.4f}", score["loss"].get<double>())));
  succeed("predict --weights " + weights + " --out " + (answers / "masks") + data);
  for (const uint8_t value : read_mask(answers / "masks/test/images/4.png").pixels)
    REQUIRE((value == 0 || value == 80));
  // The fifth image is a whole window.
  const std::string told = succeed(train + " --epochs 1 --micro-batch 1 --accum 1");
  REQUIRE_THAT(told, ContainsSubstring("nothing in this window is judged: window skipped"));
  refuse(train + " --steps 1 --micro-batch 1 --strategy moments",
         "strategy moments folds each gradient as its share of the window");
  refuse(train + " --steps 1 --micro-batch 1 --loss bce",
         "each pixel has one of 2 classes: expected cross-entropy");
  refuse("train --model unet --steps 1 --ignore-mask 256" + data, "--ignore-mask is 256");
  refuse("train --model unet --steps 1 --ignore-mask 255",
         "--ignore-mask has no effect with --data shapes: expected a folder of images and masks");
}

TEST_CASE("a folder of images is trained on by crops", "[cli][full]") {
  const Folder folder, output;
  write_classes(folder);
  const std::string data = " --hold-out 0.3 --data " + folder.path().string();
  const std::string saved = output / "w.safetensors", run = output / "run";
  const std::string train = "train --model cnn --width 0.25 --lr 0.01 --micro-batch 4 --crop 9x12" +
                            data + " --image-size 18x16";
  REQUIRE_THAT(succeed(train + " --epochs 8 --save " + saved + " --checkpoint-dir " + run),
               ContainsSubstring("predicted to the byte"));
  const Metadata said = read_safetensors_metadata(saved);
  REQUIRE(said.at("image") == "3x9x12");
  REQUIRE(said.at("crop") == "9x12");
  REQUIRE(said.at("image-size") == "18x16");
  // The file says how images are prepared for the network.
  const std::string scored = succeed("eval --split test --init " + saved + data);
  REQUIRE_THAT(scored, ContainsSubstring("accuracy 100.00 %"));
  REQUIRE(scored ==
          succeed("eval --split test --image-size 18x16 --crop 9x12 --init " + saved + data));
  REQUIRE(scored !=
          succeed("eval --split test --image-size 9x12 --crop 9x12 --init " + saved + data));
  succeed("predict --split test --weights " + saved + data + " --out " + (output / "answers"));
  // A run with another crop is another run, and is not resumed.
  refuse("train --resume --model cnn --width 0.25 --lr 0.01 --micro-batch 4 --image-size 18x16" +
             std::string(" --crop 9x11 --epochs 9 --checkpoint-dir ") + run + data,
         "crop");
  REQUIRE_THAT(succeed("plan --model cnn --effective-batch 8 --memory 16MiB --image-size 18x16 "
                       "--crop 9x12" +
                       data),
               ContainsSubstring("--crop 9x12"));
  refuse("train --model cnn --image-size 18x16 --crop 19x16" + data,
         "which are 18x16: expected a crop no larger");
  refuse("train --model cnn --crop 9y" + data, "--crop 9y: expected a number");
  refuse("train --model cnn --crop 9" + data, "the setting image-size HEIGHTxWIDTH");
  refuse("font train --crop 9", "a glyph is drawn as a whole");
}

TEST_CASE("masks are learned from crops and drawn whole", "[cli]") {
  const Folder folder, output;
  for (int i = 0; i < 12; ++i) {
    Image image = some_planes(1, 24, 32), mask = image;
    for (size_t p = 0; p < mask.pixels.size(); ++p) {
      mask.pixels[p] = p % 32 / 8 % 2 ? 255 : 0;
      image.pixels[p] = static_cast<uint8_t>(mask.pixels[p] ? 200 : i);
    }
    folder.TemporaryDirectory::write(fmt::format("images/{}.png", i), png_of(image));
    folder.TemporaryDirectory::write(fmt::format("masks/{}.png", i), png_of(mask));
  }
  const std::string data = " --hold-out 0.4 --data " + folder.path().string();
  const std::string weights = output / "w.safetensors";
  const std::string train =
      "train --model unet --width 0.5 --micro-batch 2 --accum 2 --crop 8x16 --lr 0.01 --save " +
      weights + data + (computes_slowly() ? " --epochs 1" : " --epochs 30");
  succeed(train + " --json " + (output / "log"));
  const double dice = json_lines(output / "log").back()["test"]["dice"];
  if (!computes_slowly()) REQUIRE(dice > 0.9);
  REQUIRE(read_safetensors_metadata(weights).at("image") == "1x8x16");
  // The score at the end of the training is of whole images, too.
  succeed("eval --split test --init " + weights + data + " --json " + (output / "score"));
  REQUIRE(nlohmann::json::parse(file_bytes(output / "score"))["test"]["dice"] == dice);
  succeed("predict --split train --weights " + weights + data + " --out " + (output / "masks"));
  int drawn = 0;
  for (int i = 0; i < 12; ++i)
    if (const std::string path = output / fmt::format("masks/images/{}.png", i); fs::exists(path)) {
      REQUIRE(read_mask(path).size() == ImageSize{24, 32});
      ++drawn;
    }
  REQUIRE(drawn > 0);
  refuse("eval --crop 8x16 --init " + weights + data, "on whole images; expected no --crop");
}

TEST_CASE("colours are normalized each by its own mean and deviation", "[cli][full]") {
  const Folder folder;
  write_classes(folder);
  const std::string data = " --data " + folder.path().string(), saved = folder / "w.safetensors";
  const std::string imagenet = " --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225";
  succeed(
      "train --model mlp-small --width 0.25 --micro-batch 4 --epochs 1 --image-size 16 --save " +
      saved + data + imagenet);
  const Metadata said = read_safetensors_metadata(saved);
  REQUIRE(said.at("mean") == "0.485,0.456,0.406");
  REQUIRE(said.at("std") == "0.229,0.224,0.225");
  const std::string eval = "eval --split test --init " + saved + data;
  const std::string scored = succeed(eval);
  REQUIRE(scored == succeed(eval + imagenet));
  refuse(eval + " --mean 0.5", "--mean is 0.5, but they were trained with 0.485,0.456,0.406");
  refuse("train --model mlp-small --image-size 16 --mean 0.5,0.4" + data,
         "--mean and --std: 0.5,0.4, standard deviation 0.5 of samples");
  refuse("train --model mlp-small --image-size 16 --std 1,0,1" + data, "--std is 0: expected");
}

TEST_CASE("a folder of images and masks is trained on", "[cli][full]") {
  const Folder folder;
  for (int i = 0; i < 12; ++i) {
    Image image = some_planes(1, 16, 16), mask = image;
    for (size_t p = 0; p < mask.pixels.size(); ++p) {
      mask.pixels[p] = p % 16 < static_cast<size_t>(4 + i % 4) ? 1 : 0;
      if (mask.pixels[p]) image.pixels[p] = 250;
    }
    folder.TemporaryDirectory::write(fmt::format("images/{}.png", i), png_of(image));
    folder.TemporaryDirectory::write(fmt::format("masks/{}.png", i), png_of(mask));
  }
  const Folder answers;
  const std::string path = folder.path().string(), sheet = answers / "sheet.png";
  REQUIRE_THAT(succeed("train --model unet --width 0.5 --micro-batch 2 --accum 2 --epochs 2 "
                       "--hold-out 0.4 --save " +
                       (answers / "w.safetensors") + " --data " + path),
               ContainsSubstring("12 images, masks, 16x16") && ContainsSubstring("Dice"));
  succeed("predict --split test --hold-out 0.4 --weights " + (answers / "w.safetensors") +
          " --out " + (answers / "masks") + " --data " + path);
  const auto found = find_images(path, 0.4);
  for (int i = 0; i < 12; ++i)
    REQUIRE(fs::exists(answers / fmt::format("masks/images/{}.png", i)) ==
            std::ranges::any_of(found->samples, [&](const FolderSample& sample) {
              return sample.split == Split::test && sample.image.stem() == std::to_string(i);
            }));
  succeed("data check " + path + " --hold-out 0.4 --sheet " + sheet);
  const Image seen = read_image(sheet);
  REQUIRE(seen.size() == ImageSize{204, 804});
  // The first image, 16 pixels enlarged to 96: under the mask, half of 250 and half of the mask's
  // color.
  const size_t at = static_cast<size_t>(50 * 804 + 6), plane = 204 * 804;
  REQUIRE(int(seen.pixels[at + 2 * plane]) == (250 + 233) / 2);
}

}  // namespace accrue::test
