// Folders of images: the meaning of their names, how their files are read, and bad files.

#include "images/image_folder.h"

#include <cmath>
#include <set>

#include "data/samples.h"
#include "images/cifar.h"
#include "images/find_dataset.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/image_files.h"

namespace accrue::test {
namespace {

using Answer = ImageFolder::Answer;

std::string gray_png(int64_t height, int64_t width, int value) {
  return png_of({.channels = 1,
                 .height = height,
                 .width = width,
                 .pixels = std::vector<uint8_t>(static_cast<size_t>(height * width),
                                                static_cast<uint8_t>(value))});
}

std::vector<int> masks_of(const Dataset& set) {
  if (set.field("masks").encoding == Encoding::index) {
    const auto all = set["masks"].span<int32_t>();
    return {all.begin(), all.end()};
  }
  const auto all = set["masks"].span<uint8_t>();
  return {all.begin(), all.end()};
}

std::vector<int> labels_of(const Dataset& set) {
  const auto all = set["labels"].span<int32_t>();
  return {all.begin(), all.end()};
}

// A gray mask of 3 rows and 4 columns.
std::string mask_png(std::initializer_list<int> values) {
  Image mask{.channels = 1, .height = 3, .width = 4};
  for (const int value : values) mask.pixels.push_back(static_cast<uint8_t>(value));
  return png_of(mask);
}

}  // namespace

TEST_CASE("a folder for each class becomes labelled images", "[data]") {
  const TemporaryDirectory folder;
  folder.write("train/dog/a.png", gray_png(6, 8, 10));
  folder.write("train/dog/deeper/b.PNG", gray_png(6, 8, 20));
  folder.write("train/cat/c.jpg", jpeg_file(some_planes(3, 6, 8)));
  folder.write("train/cat/.hidden.png", "no image");
  folder.write("train/cat/notes.txt", "no image");
  folder.write("val/cat/d.png", gray_png(6, 8, 30));
  const Datasets sets = find_dataset(folder.path().string());
  REQUIRE(sets.train.about ==
          "4 images, 2 classes, 6x8 (height x width), 25 % held out; no class dog in the "
          "test");
  REQUIRE(sets.train["images"].shape() == Shape{3, 3, 6, 8});  // the JPEG file has colors
  REQUIRE(labels_of(sets.train) == std::vector<int>{0, 1, 1});
  REQUIRE(labels_of(sets.test) == std::vector<int>{0});
  REQUIRE(sets.train.field("labels").classes == 2);
  const auto pixels = sets.train["images"].span<uint8_t>();
  const Image cat = read_image(folder.path() / "train/cat/c.jpg");
  REQUIRE(std::equal(cat.pixels.begin(), cat.pixels.end(), pixels.begin()));
  for (size_t i = 0; i < 144; ++i) {  // gray: all three colors are equal
    REQUIRE(pixels[144 + i] == 10);
    REQUIRE(pixels[288 + i] == 20);
  }
  // A class folder within a folder without images, like some of Kaggle's, adds no class.
  std::filesystem::create_directories(folder.path() / "test/empty");
  REQUIRE(find_dataset(folder.path().string()).train.field("labels").classes == 2);
  std::filesystem::remove_all(folder.path() / "test");
  std::filesystem::create_directory_symlink("..", folder.path() / "train/dog/back");
  REQUIRE(find_dataset(folder.path().string()).train.size() == 3);
  // If there is a folder test beside it, that becomes the test.
  folder.write("test/dog/e.png", gray_png(6, 8, 40));
  REQUIRE(labels_of(find_dataset(folder.path().string()).test) == std::vector<int>{1});

  folder.write("train/dog/other.png", gray_png(9, 9, 1));
  REQUIRE_ERROR(find_dataset(folder.path().string()),
                "6x8 to 9x9 (height x width): expected one size");
  const Datasets small = find_dataset(folder.path().string(), {}, {.size = ImageSize{4, 5}});
  REQUIRE(small.train["images"].shape() == Shape{4, 3, 4, 5});
  folder.write("train/dog/turned.png", gray_png(8, 6, 1));  // as many pixels as the others
  std::filesystem::remove(folder.path() / "train/dog/other.png");
  REQUIRE_ERROR(find_dataset(folder.path().string()), "expected one size");
}

TEST_CASE("a part of the images is held out by their names alone", "[data]") {
  const TemporaryDirectory folder;
  const auto held_out = [&](double part) {
    std::set<std::string> names;
    const auto found = find_images(folder.path(), part);
    REQUIRE(found.has_value());
    for (const FolderSample& sample : found->samples)
      if (sample.split == Split::test) names.insert(sample.image.filename().string());
    return names;
  };
  for (int i = 0; i < 1000; ++i)
    folder.write(fmt::format("{}/{}.png", i % 2 ? "odd" : "even", i), "unread");
  const auto tenth = held_out(0.1);
  // A binomial distribution of 1000 and 0.1 has mean 100 and standard deviation 9.5. Four standard
  // deviations are allowed.
  REQUIRE(tenth.size() >= 62);
  REQUIRE(tenth.size() <= 138);
  const auto third = held_out(0.3);
  for (const std::string& name : tenth) REQUIRE(third.contains(name));
  REQUIRE(held_out(0).empty());
  folder.write("odd/more.png", "unread");
  auto again = held_out(0.1);
  again.erase("more.png");
  REQUIRE(again == tenth);
  REQUIRE(describe({.directory = "a", .samples = std::vector<FolderSample>(123'456)},
                   {.is_good = std::vector<char>(123'456, 1),
                    .smallest = {480, 640},
                    .largest = {3024, 4032}}) ==
          "123,456 images, 0 classes, 480x640 to 3024x4032 (height x width), none held out: the "
          "scores are for the training images");
  REQUIRE(describe({.directory = "a", .classes = {"cat"}, .samples = {{.split = Split::test}}},
                   {.is_good = {1}, .smallest = {4, 4}, .largest = {4, 4}}) ==
          "1 image, 1 class, 4x4 (height x width), 100 % held out");
}

TEST_CASE("a class is left an image for training", "[data]") {
  const TemporaryDirectory folder;
  folder.write("rare/only.png", "unread");
  for (int i = 0; i < 40; ++i) folder.write(fmt::format("usual/{}.png", i), "unread");
  for (const double part : {0.5, 0.9, 0.99}) {
    const auto found = find_images(folder.path(), part);
    std::vector<int> trained(2);
    int held_out = 0;
    for (const FolderSample& sample : found->samples)
      if (sample.split == Split::test) ++held_out;
      else ++trained[static_cast<size_t>(sample.label)];
    REQUIRE(trained[0] == 1);
    REQUIRE(trained[1] >= 1);
    REQUIRE(held_out > 0);
  }
}

TEST_CASE("images that EXIF turns beside masks are told", "[data]") {
  const TemporaryDirectory folder;
  const Image image = some_planes(1, 3, 4);
  const auto mask = mask_png({0, 9, 9, 9, 0, 0, 0, 9, 0, 0, 0, 0});
  folder.write("images/a.jpg", jpeg_file(image));
  folder.write("images/b.jpg", with_orientation(jpeg_file(image), 3, true));
  for (const char* name : {"a", "b"}) folder.write(fmt::format("masks/{}.png", name), mask);
  REQUIRE_THAT(find_dataset(folder.path().string()).train.about,
               ContainsSubstring("; EXIF turns 1 image, and not its mask"));
  folder.write("images/b.jpg", with_orientation(jpeg_file(image), 6, true));
  REQUIRE_ERROR(find_dataset(folder.path().string()),
                "b.png' is 3x4 (height x width), but its image 4x3, which its EXIF orientation "
                "turns: expected a mask of the turned image");
}

TEST_CASE("images beside masks become pairs", "[data]") {
  const auto binary = mask_png({0, 9, 9, 9, 0, 0, 0, 9, 0, 0, 0, 0});
  const std::vector<int> drawn{0, 255, 255, 255, 0, 0, 0, 255, 0, 0, 0, 0};
  const auto image = gray_png(3, 4, 7);
  {
    const TemporaryDirectory folder;
    for (const char* split : {"train", "test"}) {
      folder.write(fmt::format("{}/images/a.jpg", split), jpeg_file(some_planes(3, 3, 4)));
      folder.write(fmt::format("{}/masks/a.png", split), binary);
    }
    const Datasets sets = find_dataset(folder.path().string());
    REQUIRE(sets.train["images"].shape() == Shape{1, 3, 3, 4});
    REQUIRE(sets.train["masks"].shape() == Shape{1, 1, 3, 4});
    REQUIRE(masks_of(sets.train) == drawn);
    REQUIRE(sets.train.about == "2 images, masks, 3x4 (height x width), 50 % held out");
    const Datasets small = find_dataset(folder.path().string(), {}, {.size = ImageSize{6, 4}});
    // By pixel centers these are the rows 0 0 1 1 2 2.
    const std::vector<int> rows = masks_of(small.train);
    for (size_t y = 0; y < 6; ++y)
      for (size_t x = 0; x < 4; ++x) REQUIRE(rows[y * 4 + x] == drawn[y / 2 * 4 + x]);
  }
  {
    const TemporaryDirectory folder;  // a gray value for each class, and names that end in _mask
    folder.write("train/x.png", image);
    folder.write("train/x_mask.png", mask_png({0, 100, 100, 30, 0, 0, 0, 0, 0, 0, 0, 0}));
    folder.write("test/y.png", image);
    folder.write("test/y_mask.png", mask_png({255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
    const Datasets sets = find_dataset(folder.path().string());
    REQUIRE(sets.train.field("masks").classes == 4);  // 0, 30, 100, 255
    REQUIRE(masks_of(sets.train) == std::vector<int>{0, 2, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0});
    REQUIRE(masks_of(sets.test)[0] == 3);
  }
}

TEST_CASE("a value in masks can say that nobody has judged a pixel", "[data]") {
  const TemporaryDirectory folder;
  folder.write("train/images/a.png", gray_png(3, 4, 10));
  folder.write("test/images/b.png", gray_png(3, 4, 20));
  folder.write("train/masks/a.png", mask_png({0, 0, 255, 1, 0, 0, 255, 1, 0, 0, 255, 1}));
  folder.write("test/masks/b.png", mask_png({0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1}));
  const auto load = [&](std::optional<int64_t> unjudged) {
    return load_images(folder.path(), {.unjudged_mask_value = unjudged});
  };
  REQUIRE(load({}).train.field("masks").classes == 3);
  const Datasets sets = load(255);
  REQUIRE_THAT(sets.train.about, ContainsSubstring("; 255 in masks is not judged"));
  for (const Dataset* set : {&sets.train, &sets.test}) {
    const Field& masks = set->field("masks");
    REQUIRE(masks.classes == 2);
    REQUIRE(masks.class_values == std::vector<uint8_t>{0, 1});
    REQUIRE(masks.unjudged_value == 255);
    const Samples samples = gather(*set, 0, 1);
    const std::vector<int> expected = set == &sets.train
                                          ? std::vector{0, 0, -1, 1, 0, 0, -1, 1, 0, 0, -1, 1}
                                          : std::vector{0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
    const auto labels = samples["masks"].span<int32_t>();
    REQUIRE(std::vector<int>(labels.begin(), labels.end()) == expected);
  }
  REQUIRE_THAT(load(7).train.about,
               ContainsSubstring("7 in masks is not judged, and occurs nowhere"));
  folder.write("train/masks/a.png", mask_png({255, 255, 255, 1, 1, 1, 1, 1, 1, 1, 1, 1}));
  folder.write("test/masks/b.png", mask_png({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}));
  REQUIRE_ERROR(load(255), "have one value beside 255, which is not judged");
}

TEST_CASE("masks with smoothed edges are named as such", "[data]") {
  const TemporaryDirectory folder;
  // A disc in the middle. A pixel's value is the part of it that the disc covers, by a grid of 4 x
  // 4 points, rounded down to one of `levels` steps.
  const auto disc = [](int levels, double radius) {
    Image mask{.channels = 1, .height = 24, .width = 24};
    for (int y = 0; y < 24; ++y)
      for (int x = 0; x < 24; ++x) {
        int covered = 0;
        for (int i = 0; i < 16; ++i)
          covered += std::hypot(y + (i / 4 + 0.5) / 4 - 12, x + (i % 4 + 0.5) / 4 - 11) < radius;
        mask.pixels.push_back(uint8_t(covered * levels / 16 * 255 / levels));
      }
    return png_of(mask);
  };
  const auto load = [&](bool named = false) {
    return load_images(folder.path(), {.has_named_mask_values = named});
  };
  const auto write = [&](int levels) {
    for (const std::string part : {"train", "test"}) {
      folder.write(part + "/images/a.png", gray_png(24, 24, 7));
      folder.write(part + "/masks/a.png", disc(levels, part == "train" ? 6 : 8));
    }
  };
  write(1);
  REQUIRE(load().train.field("masks").encoding == Encoding::mask);
  for (const int values : {5, 9}) {  // values that occur
    write(values == 5 ? 4 : 16);
    REQUIRE_ERROR(load(), fmt::format("have {} values, of which {} (", values, values - 2));
    REQUIRE_ERROR(load(), "smoothed edges (antialiasing)");
    REQUIRE(load(true).train.field("masks").classes == values);
  }
  // Noise around an edge, as JPEG causes it.
  const auto strewn = [](int first) {
    Image mask{.channels = 1, .height = 24, .width = 24};
    for (int i = 0; i < 24 * 24; ++i) {
      const bool near_edge = i % 24 > 8 && i % 24 < 15 && (i + i / 24) % 2 == 0;
      const int noise = near_edge ? (i * 7 + i / 48 + first) % 6 : 0;
      mask.pixels.push_back(uint8_t(i % 24 < 12 ? noise : 255 - noise));
    }
    return png_of(mask);
  };
  folder.write("train/masks/a.png", strewn(0));
  folder.write("test/masks/a.png", strewn(1));
  REQUIRE_ERROR(load(), "have 12 values, of which 10 (1, 2, 3, ...) have no regions of their own");
  // A value with an interior is a class, however rare it is. Stripes of one pixel that are not a
  // transition between two values are classes, too.
  Image mask{.channels = 1, .height = 24, .width = 24, .pixels = std::vector<uint8_t>(24 * 24)};
  const auto fill = [&](size_t top, size_t left, size_t height, size_t width, uint8_t value) {
    for (size_t y = top; y < top + height; ++y)
      for (size_t x = left; x < left + width; ++x) mask.pixels[y * 24 + x] = value;
  };
  fill(0, 12, 24, 12, 9);
  fill(3, 10, 4, 4, 5);
  fill(12, 11, 3, 3, 6);
  fill(18, 2, 1, 8, 3);
  fill(20, 2, 1, 8, 4);
  for (const std::string part : {"train", "test"})
    folder.write(part + "/masks/a.png", png_of(mask));
  REQUIRE(load().train.field("masks").classes == 6);
}

TEST_CASE("Kaggle's run lengths go down the columns", "[data]") {
  const TemporaryDirectory folder;
  for (const char* name : {"a.jpg", "b.jpg", "c.jpg", "d.jpg"})
    folder.write(fmt::format("train_images/{}", name), jpeg_file(some_planes(3, 3, 4)));
  folder.write("test_images/z.jpg", jpeg_file(some_planes(3, 3, 4)));
  // In images of 3 rows, pixels 2 and 3 are the lower two of the first column. Pixels 4 to 7 are
  // the second column and the top of the third.
  const std::string csv =
      "Image_Label,EncodedPixels\r\n"
      "a.jpg_Fish,2 2 4 4\r\n"
      "a.jpg_Gravel,\r\n"
      "b.jpg_Gravel,12 1\n"
      "b.jpg_Fish,\n"
      "c.jpg_Fish,\nd.jpg_Fish,\n";
  folder.write("train.csv", csv);
  const auto found = find_images(folder.path(), 0.5);
  REQUIRE(found.has_value());
  REQUIRE(found->classes == std::vector<std::string>{"Fish", "Gravel"});
  REQUIRE(found->samples.size() == 4);
  REQUIRE(read_sample(*found, found->samples[0]).mask.pixels ==
          std::vector<uint8_t>{0, 255, 255, 0, 255, 255, 0, 0, 255, 255, 0, 0,  // Fish
                               0, 0,   0,   0, 0,   0,   0, 0, 0,   0,   0, 0});
  REQUIRE(read_sample(*found, found->samples[1]).mask.pixels[23] == 255);
  const Datasets sets =
      find_dataset(folder.path().string(), {}, {.hold_out = 0.5, .one_class = OneClass::allowed});
  REQUIRE(sets.train["masks"].shape() == Shape{sets.train.size(), 2, 3, 4});
  REQUIRE(sets.train.size() + sets.test.size() == 4);

  const auto refuse = [&](const std::string& line, const std::string& part) {
    folder.write("train.csv", csv + line);
    REQUIRE_ERROR(find_dataset(folder.path().string(), {}, {.hold_out = 0.5}), part);
  };
  refuse("a.jpg_Sugar,12 2\n", "line 8: the run of 2 pixels from pixel 12 is not within");
  refuse("a.jpg_Sugar,0 1\n", "line 8: the run of 1 pixels from pixel 0");
  refuse("a.jpg_Sugar,1 2 3\n", "the run from pixel 3 has no length");
  refuse("a.jpg_Sugar,1 x\n", "have 'x'");
  refuse("a.jpg_Sugar,9223372036854775807 9223372036854775807\n", "is not within");
  refuse("nonsense\n", "line 8: it has 1 field, expected 2");
  refuse("e.jpg_Fish,1 1\n", "line 8: e.jpg: there is no such image");
}

TEST_CASE("bad files are refused, listed or left out", "[data]") {
  const TemporaryDirectory folder;
  for (int i = 0; i < 6; ++i)
    folder.write(fmt::format("{}/images/{}.png", i < 4 ? "train" : "test", i), gray_png(3, 4, i)),
        folder.write(fmt::format("{}/masks/{}.png", i < 4 ? "train" : "test", i),
                     mask_png({0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  const std::string path = folder.path().string();
  const auto load = [&](SkipBad skip_bad) {
    return find_dataset(path, {}, {.skip_bad = skip_bad});
  };
  REQUIRE(load(SkipBad::no).train.size() == 4);
  const std::string whole = gray_png(3, 4, 1);
  folder.write("train/images/1.png",
               whole.substr(0, whole.size() - 14));  // damaged behind its header
  REQUIRE_ERROR(load(SkipBad::no), "1 bad file");
  REQUIRE_ERROR(load(SkipBad::no), "too early");
  folder.write("train/masks/2.png", gray_png(4, 3, 0));
  folder.write("train/images/lonely.png", gray_png(3, 4, 1));
  folder.write("test/masks/5.png", "GIF89a");
  REQUIRE_ERROR(load(SkipBad::no), "its image 3x4");
  const Datasets sets = load(SkipBad::yes);
  REQUIRE(sets.train.about ==
          "3 images, masks, 3x4 (height x width), 33 % held out, 4 bad files left out");
  REQUIRE(sets.train["images"].shape() == Shape{2, 1, 3, 4});
  REQUIRE(sets.train["images"].span<uint8_t>()[12] == 3);  // the third image now comes first
  REQUIRE(sets.test.size() == 1);
  const auto found = find_images(folder.path());
  REQUIRE(survey(*found, SurveyDepth::pixels).bad.size() == 4);
  REQUIRE(survey(*found, SurveyDepth::headers).bad.size() == 3);

  const TemporaryDirectory other;
  REQUIRE_ERROR(find_dataset(other.path().string()), "holds nothing that is known");
  other.write("cat/a.png", whole);
  other.write("cat/b.png", whole);
  std::filesystem::create_directories(other.path() / "dog");
  REQUIRE_ERROR(find_dataset(other.path().string()), "a class without images");
  other.write("dog/c.png", whole);
}

TEST_CASE("a folder that is too small for any image to be held out is scored on all", "[data]") {
  const TemporaryDirectory folder;
  for (const char* name : {"cat/a.png", "cat/b.png", "dog/c.png"})
    folder.write(name, png_of(some_planes(1, 3, 4)));
  const auto load = [&](ImageFolderOptions options) {
    options.hold_out = 0;
    return find_dataset(folder.path().string(), {}, options);
  };
  for (const size_t most_held : {size_t{0}, size_t{1} << 20}) {
    const Datasets sets = load({.most_held_bytes = most_held});
    REQUIRE(sets.train.size() == 3);
    REQUIRE(sets.test.names == sets.train.names);
    REQUIRE_THAT(sets.train.about, ContainsSubstring("none held out: the scores are for the "
                                                     "training images"));
  }
  REQUIRE(load({}).test["images"].span<uint8_t>()[5] ==
          load({}).train["images"].span<uint8_t>()[5]);
  folder.write("dog/d.png", "damaged");
  REQUIRE(load({.skip_bad = SkipBad::yes}).test.size() == 3);
}

TEST_CASE("an image that is too large for the memory is bad", "[data]") {
  const TemporaryDirectory folder;
  for (const char* name : {"cat/a.png", "cat/b.png", "dog/c.png"})
    folder.write(name, png_of(some_planes(1, 3, 4)));
  folder.write("dog/scan.png", png_of(some_planes(1, 30, 40)));
  ImageFolderOptions options{.size = ImageSize{3, 4}, .hold_out = 0, .most_image_bytes = 1199};
  for (const size_t most_held : {size_t{0}, size_t{1} << 20}) {
    options.most_held_bytes = most_held;
    options.skip_bad = SkipBad::no;
    REQUIRE_ERROR(find_dataset(folder.path().string(), {}, options),
                  "dog/scan.png' is 30x40, which needs 1.2 KiB decoded");
    options.skip_bad = SkipBad::yes;
    REQUIRE(find_dataset(folder.path().string(), {}, options).train.size() == 3);
  }
}

TEST_CASE("a share to hold out of a folder that has a test is refused", "[data]") {
  const TemporaryDirectory folder;
  for (const char* name : {"train/cat/a.png", "train/dog/b.png", "val/cat/c.png", "val/dog/d.png"})
    folder.write(name, png_of(some_planes(1, 3, 4)));
  REQUIRE(find_dataset(folder.path().string()).test.size() == 2);
  REQUIRE_ERROR(find_dataset(folder.path().string(), {}, {.hold_out = 0.1}),
                "which itself says which samples are for the test; expected none");
}

TEST_CASE("CIFAR-10's binary files are read", "[data]") {
  const TemporaryDirectory folder;
  const auto record = [](int label, int first) {
    std::string text(1, static_cast<char>(label));
    for (int i = 0; i < 3072; ++i) text += static_cast<char>(first + i);
    return text;
  };
  folder.write("data_batch_1.bin", record(3, 0) + record(9, 5));
  folder.write("data_batch_2.bin", record(0, 7));
  folder.write("test_batch.bin", record(1, 9));
  const Datasets sets = find_dataset(folder.path().string());
  REQUIRE(sets.train["images"].shape() == Shape{3, 3, 32, 32});
  REQUIRE(labels_of(sets.train) == std::vector<int>{3, 9, 0});
  REQUIRE(sets.train["images"].span<uint8_t>()[3072 * 2 + 1] == 8);
  REQUIRE(labels_of(sets.test) == std::vector<int>{1});
  folder.write("data_batch_2.bin", record(10, 7));
  REQUIRE_ERROR(find_dataset(folder.path().string()), "of class 10, expected 0 to 9");
  folder.write("data_batch_2.bin", record(1, 7) + "x");
  REQUIRE_ERROR(find_dataset(folder.path().string()), "data_batch_2.bin' has 3074 bytes");
}

}  // namespace accrue::test
