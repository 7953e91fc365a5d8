// accrue predict, checked against accrue eval of the same weights.

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "core/random.h"
#include "data/png.h"
#include "images/find_dataset.h"
#include "tests/support/cli.h"
#include "tests/support/image_files.h"

namespace accrue::test {
namespace {

std::vector<double> numbers_of_line(const std::string& line) {
  std::vector<double> numbers;
  std::istringstream text(line);
  for (std::string cell; std::getline(text, cell, ',');) numbers.push_back(std::stod(cell));
  return numbers;
}

// Twelve 28x28 images with masks for their stripes, and a network that has learned some of them.
struct Stripes : Folder {
  std::string data, weights = *this / "weights";
  Image mask = some_planes(1, 28, 28);
  std::map<std::string, Image> images;  // by the names of their files

  Stripes() {
    for (size_t p = 0; p < mask.pixels.size(); ++p) mask.pixels[p] = p % 28 / 7 % 2 ? 255 : 0;
    RandomStream random(1);
    for (int i = 0; i < 12; ++i) {
      Image image = mask;
      for (uint8_t& pixel : image.pixels)
        pixel = static_cast<uint8_t>(random.below(100) + (pixel > 0 ? 100 : 0));
      const std::string name = std::to_string(i);
      TemporaryDirectory::write("data/images/" + name + ".png", png_of(image));
      TemporaryDirectory::write("data/masks/" + name + ".png", png_of(mask));
      images.emplace(name, std::move(image));
    }
    data = " --hold-out 0.5 --data " + (*this / "data");
  }
  void train() const {
    succeed(
        "train --model unet --width 0.5 --micro-batch 2 --accum 2 --epochs 6 --lr 0.01 --save " +
        weights + data);
  }
  // The images that have an answer in the folder.
  std::map<std::string, Image> answered(const std::string& folder) const {
    std::map<std::string, Image> some;
    for (const auto& [name, image] : images)
      if (fs::exists(folder + "/images/" + name + ".png")) some.emplace(name, image);
    REQUIRE(!some.empty());
    return some;
  }
};

}  // namespace

TEST_CASE("predicted classes agree with eval's counts", "[cli]") {
  const Folder folder;
  succeed("train --model mlp-small --steps 20 --save " + (folder / "weights"));
  for (const std::string split : {"train", "test"}) {
    if (reduced() && split == "train") continue;  // 1400 images in parts of 7
    const std::string data =
        computes_slowly() ? " --data " + few_digits().path().string() : std::string();
    succeed("eval --init " + (folder / "weights") + " --split " + split + " --json " +
            (folder / "scores"));
    succeed("predict --weights " + (folder / "weights") + " --split " + split + data +
            " --micro-batch 7 --out " + (folder / split));
    const Datasets sets = find_dataset(data.empty() ? "digits" : few_digits().path().string());
    const Dataset& samples = split == "train" ? sets.train : sets.test;
    const auto labels = samples["labels"].span<int32_t>();
    std::istringstream lines(file_bytes(folder / split + "/predictions.csv"));
    std::string line;
    std::getline(lines, line);
    REQUIRE(line == "sample,class,0,1,2,3,4,5,6,7,8,9");
    int64_t sample = 0, correct = 0;
    for (; std::getline(lines, line); ++sample) {
      const auto numbers = numbers_of_line(line);
      REQUIRE(numbers.size() == 12);
      REQUIRE(numbers[0] == double(sample));
      const std::vector<double> p(numbers.begin() + 2, numbers.end());
      // Each probability is written with six digits.
      REQUIRE(std::accumulate(p.begin(), p.end(), 0.0) == Approx(1).margin(10 * 5e-7));
      REQUIRE(numbers[1] == double(std::ranges::max_element(p) - p.begin()));
      correct += numbers[1] == double(labels[static_cast<size_t>(sample)]);
    }
    REQUIRE(sample == samples.size());
    const auto scores = nlohmann::json::parse(file_bytes(folder / "scores"));
    REQUIRE(scores[split == "train" ? "training" : "test"]["correct"] == correct);
  }
}

TEST_CASE("predicted masks overlap as eval says", "[cli][full]") {
  const Stripes stripes;
  stripes.train();
  const Folder answers;
  succeed("eval --split test --init " + stripes.weights + stripes.data + " --json " +
          (answers / "scores"));
  succeed("predict --split test --weights " + stripes.weights + stripes.data + " --out " +
          (answers / "masks"));
  double both = 0, either = 0;
  for (const auto& [name, image] : stripes.answered(answers / "masks")) {
    const GrayImage mask = read_png((answers / "masks") + "/images/" + name + ".png");
    for (size_t k = 0; k < mask.pixels.size(); ++k) {
      REQUIRE((mask.pixels[k] == 0 || mask.pixels[k] == 255));
      both += mask.pixels[k] > 0 && stripes.mask.pixels[k] > 0;
      either += mask.pixels[k] > 0 || stripes.mask.pixels[k] > 0;
    }
  }
  REQUIRE(both > 0);
  const auto scores = nlohmann::json::parse(file_bytes(answers / "scores"));
  REQUIRE(scores["test"]["iou"].get<double>() == Approx(both / either));
}

TEST_CASE("an overlay is the image with half of the mask's colour", "[cli][full]") {
  const Stripes stripes;
  stripes.train();
  const Folder answers;
  const std::string command =
      "predict --split test --weights " + stripes.weights + stripes.data + " --out ";
  succeed(command + (answers / "whole") + " --overlay");
  // Images of 28x28 fit into one tile.
  succeed(command + (answers / "tiled") + " --tile 64 --overlap 32");
  const std::array<int, 3> orange{230, 159, 0};
  size_t inside = 0;
  for (const auto& [name, image] : stripes.answered(answers / "whole")) {
    const std::string path = (answers / "whole") + "/images/" + name;
    REQUIRE(file_bytes(path + ".png") ==
            file_bytes((answers / "tiled") + "/images/" + name + ".png"));
    const GrayImage mask = read_png(path + ".png");
    const std::string bytes = file_bytes(path + "_overlay.png");
    const PngImage over = decode_png(std::as_bytes(std::span(bytes)), path);
    REQUIRE(over.channels == 3);
    for (size_t i = 0; i < mask.pixels.size(); ++i)
      for (size_t c = 0; c < 3; ++c) {
        const int pixel = image.pixels[i];
        REQUIRE(int(over.bytes[3 * i + c]) ==
                (mask.pixels[i] > 0 ? (pixel + orange[c]) / 2 : pixel));
        inside += mask.pixels[i] > 0;
      }
  }
  REQUIRE(inside > 0);
}

TEST_CASE("predicted masks have the sizes of their images", "[cli]") {
  const Folder folder;
  const std::vector<ImageSize> sizes{{12, 10}, {9, 14}, {16, 16}};
  const auto name_of = [](ImageSize size) {
    return fmt::format("{}x{}.png", size.height, size.width);
  };
  for (const ImageSize size : sizes)
    folder.TemporaryDirectory::write("more/" + name_of(size),
                                     png_of(some_planes(1, size.height, size.width)));
  for (int i = 0; i < 4; ++i) {
    Image mask = some_planes(1, 12, 10);
    for (size_t p = 0; p < mask.pixels.size(); ++p) mask.pixels[p] = p % 10 < 5 ? 255 : 0;
    const std::string name = fmt::format("{}.png", i);
    folder.TemporaryDirectory::write("data/images/" + name, png_of(some_planes(1, 12, 10)));
    folder.TemporaryDirectory::write("data/masks/" + name, png_of(mask));
  }
  const std::string train =
      "train --model unet --width 0.1 --depth 2 --micro-batch 1 --accum 1 "
      "--steps 3 --hold-out 0 --data " +
      (folder / "data") + " --save ";
  succeed(train + (folder / "own"));
  succeed(train + (folder / "stretched") + " --image-size 20x8");
  const auto answer = [&](const std::string& weights, const std::string& images,
                          const std::string& out) {
    succeed("predict --overlay --weights " + (folder / weights) + " --out " + (folder / out) + " " +
            images);
    return folder / out;
  };
  for (const char* weights : {"own", "stretched"}) {
    const std::string all = answer(weights, folder / "more", weights + std::string(".all"));
    for (const ImageSize size : sizes) {
      INFO(weights << " " << name_of(size));
      REQUIRE(read_mask(all + "/" + name_of(size)).size() == size);
      const std::string stem = fmt::format("/{}x{}_overlay.png", size.height, size.width);
      REQUIRE(read_image(all + stem).size() == size);
      // The image alone gets the same answer.
      const std::string one = (folder / "more/") + name_of(size);
      const std::string alone = answer(weights, one, weights + name_of(size));
      REQUIRE(file_bytes(alone + "/" + name_of(size)) == file_bytes(all + "/" + name_of(size)));
      REQUIRE(file_bytes(alone + stem) == file_bytes(all + stem));
      // Computed by hand: the network sees the stretched image, and its mask is stretched back.
      if (weights == std::string("own")) continue;
      const Image image = resized(read_image(one), {20, 8});
      folder.TemporaryDirectory::write("small/" + name_of(size), png_of(image));
      const std::string seen = answer("stretched", folder / "small", name_of(size) + ".seen");
      REQUIRE(resized_mask(read_mask(seen + "/" + name_of(size)), size).pixels ==
              read_mask(all + "/" + name_of(size)).pixels);
    }
  }
}

TEST_CASE("masks in tiles equal the masks of whole images", "[cli][full]") {
  if (computes_slowly()) {
    WARN("left out: two trainings and nine passes over 70x101 pixels take minutes here");
    return;
  }
  const Folder folder, answers;
  // The images are bright on the left: no tile looks like the whole image.
  constexpr int64_t height = 70, width = 101;
  for (int i = 0; i < 8; ++i) {
    Image image = some_planes(1, height, width), mask = image;
    RandomStream random(static_cast<uint64_t>(i));
    for (size_t p = 0; p < mask.pixels.size(); ++p) {
      const size_t y = p / width, x = p % width;
      mask.pixels[p] = (x / 7 + y / 9) % 2 ? 255 : 0;
      image.pixels[p] =
          static_cast<uint8_t>(x < width / 2 ? random.uniform(120, 180) : random.uniform(0, 40));
      if (mask.pixels[p]) image.pixels[p] = static_cast<uint8_t>(image.pixels[p] + 60);
    }
    folder.TemporaryDirectory::write(fmt::format("images/{}.png", i), png_of(image));
    folder.TemporaryDirectory::write(fmt::format("masks/{}.png", i), png_of(mask));
  }
  const std::string data = " --hold-out 0.4 --data " + folder.path().string();
  const std::string weights = answers / "w.safetensors";
  succeed("train --model unet --width 0.5 --micro-batch 2 --accum 2 --epochs 6 --lr 0.01 --save " +
          weights + data);
  const auto masks = [&](const std::string& tiles) {
    const std::string out = answers / "masks";
    fs::remove_all(out);
    succeed("predict --split train --weights " + weights + data + " --out " + out + tiles);
    std::vector<uint8_t> all;
    for (int i = 0; i < 8; ++i)
      if (const std::string path = out + fmt::format("/images/{}.png", i); fs::exists(path))
        std::ranges::copy(read_mask(path).pixels, std::back_inserter(all));
    return all;
  };
  const std::vector<uint8_t> whole = masks("");
  REQUIRE(!whole.empty());
  const auto differing = [&](const std::vector<uint8_t>& other) {
    REQUIRE(other.size() == whole.size());
    return std::inner_product(whole.begin(), whole.end(), other.begin(), 0, std::plus<>{},
                              std::not_equal_to<>{});
  };
  // A probability within rounding of one half may fall on either side.
  REQUIRE(differing(masks(" --tile 32")) <= 1);
  REQUIRE(differing(masks(" --tile 64")) <= 1);
  REQUIRE(differing(masks(" --tile 64 --overlap 32")) > 50);
}

TEST_CASE("predictions that cannot be are refused", "[output]") {
  const Folder folder;
  succeed("train --model mlp-small --steps 0 --save " + (folder / "weights"));
  refuse("predict --out " + (folder / "x"), "--weights");
  refuse("predict --weights " + (folder / "weights") + " --out /dev/null/x", "/dev/null/x");
  refuse("predict --weights " + (folder / "weights") + " --overlay --out " + (folder / "x"),
         "a network that answers with classes, not with masks");
  succeed("train --model unet --width 0.5 --steps 0 --save " + (folder / "masks"));
  refuse("predict --weights " + (folder / "masks") + " --tile 40 --out " + (folder / "x"),
         "expected multiples of 32");
  refuse(
      "predict --weights " + (folder / "masks") + " --tile 64 --overlap 64 --out " + (folder / "x"),
      "an overlap smaller than a tile");
  refuse("predict --weights " + (folder / "masks") + " --overlap 64 --out " + (folder / "x"),
         "--tile");
  succeed("font train --image-size 32 --width 0.125 --steps 0 --save " + (folder / "glyphs"));
  refuse("predict --weights " + (folder / "glyphs") + " --out " + (folder / "x"),
         "accrue font draw");
  REQUIRE_FALSE(fs::exists(folder / "x"));
}

}  // namespace accrue::test
