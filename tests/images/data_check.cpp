// The check of a data set whose files hold many images each. tests/apps/images.cpp tests the
// program's check of folders.

#include "images/data_check.h"

#include "core/error.h"
#include "images/image_file.h"
#include "tests/support/cli.h"

namespace accrue::test {
namespace {

// The output of a check, with its error last.
std::string told_of(const DataCheckOptions& asked) {
  std::string all;
  const Notices notices(
      [&](Notices::Kind, std::string_view text) { all += std::string(text) + "\n"; });
  try {
    check_images(asked, notices);
  } catch (const Error& error) {
    all += error.what();
  }
  return all;
}

// A file of CIFAR-10 with one image for each of these classes. All pixels of an image are 25 times
// its class.
Bytes cifar_batch_of(const std::vector<int>& classes) {
  Bytes all;
  for (const int k : classes) {
    all.push_back(static_cast<unsigned char>(k));
    all.insert(all.end(), 3 * 32 * 32, static_cast<unsigned char>(25 * k));
  }
  return all;
}

// The color in the middle of a thumbnail on a sheet.
int thumb(const Image& sheet, int64_t line, int64_t place) {
  return sheet
      .pixels[static_cast<size_t>((4 + 100 * line + 48) * sheet.width + 4 + 100 * place + 48)];
}

}  // namespace

TEST_CASE("CIFAR-10's files are checked", "[data]") {
  const Folder folder, output;
  const std::string directory = folder.path().string(), sheet = output / "sheet.png";
  write(folder / "data_batch_1.bin", cifar_batch_of({3, 3, 9}));
  write(folder / "data_batch_2.bin", cifar_batch_of({0}));
  write(folder / "test_batch.bin", cifar_batch_of({3, 1}));
  REQUIRE_THAT(
      told_of({.directory = directory, .sheet = sheet}),
      ContainsSubstring("CIFAR-10's binary files, 4 images for training and 2 for the test, "
                        "10 classes, 32x32\n") &&
          ContainsSubstring("  class training     test\n"
                            "  0            1        0\n"
                            "  1            0        1\n"
                            "  2            0        0\n"
                            "  3            2        1\n"));
  const Image seen = read_image(sheet);
  REQUIRE(seen.size() == ImageSize{1004, 804});
  REQUIRE(thumb(seen, 3, 0) == 75);
  REQUIRE(thumb(seen, 3, 2) == 75);  // from the test set
  REQUIRE(thumb(seen, 9, 0) == 225);
  REQUIRE(thumb(seen, 9, 1) == 208);  // no image

  write(folder / "data_batch_2.bin", Bytes(100));
  write(folder / "data_batch_3.bin", cifar_batch_of({10}));
  fs::remove(folder / "test_batch.bin");
  const std::string bad = told_of({.directory = directory});
  REQUIRE_THAT(bad, ContainsSubstring("data_batch_2.bin' has 100 bytes, expected a multiple") &&
                        ContainsSubstring("data_batch_3.bin': an image is of class 10") &&
                        ContainsSubstring("test_batch.bin") &&
                        ContainsSubstring("has 3 bad files") &&
                        ContainsSubstring("3 images for training and 0 for the test"));
  fs::remove(folder / "data_batch_1.bin");
  REQUIRE_THAT(told_of({.directory = directory}),
               ContainsSubstring("data_batch_1.bin: it is not there"));
}

TEST_CASE("IDX files are checked", "[data]") {
  const Folder folder, output;
  const std::string directory = folder.path().string(), sheet = output / "sheet.png";
  write_idx_data(folder);
  REQUIRE_THAT(told_of({.directory = directory, .sheet = sheet, .augment = "flip"}),
               ContainsSubstring(
                   "IDX files, 40 images for training and 10 for the test, 10 classes, 28x28\n") &&
                   ContainsSubstring("  9            4        1\n"));
  REQUIRE(read_image(sheet).size() == ImageSize{1004, 804});

  Bytes labels = idx_labels(40);
  labels[10] = 77;
  write(folder / "train-labels-idx1-ubyte", labels);
  write(folder / "t10k-images-idx3-ubyte", idx_images(9));
  const std::string bad = told_of({.directory = directory});
  REQUIRE_THAT(bad, ContainsSubstring("the labels go up to 77, but only 11 different ones") &&
                        ContainsSubstring("has 9 images but") &&
                        ContainsSubstring("has 2 bad files"));
  write(folder / "train-labels-idx1-ubyte", idx_labels(40));
  fs::remove(folder / "t10k-images-idx3-ubyte");
  REQUIRE_THAT(told_of({.directory = directory}),
               ContainsSubstring("no t10k-images-idx3-ubyte in") &&
                   ContainsSubstring("40 images for training and 0 for the test"));
  const Folder empty;
  REQUIRE_ERROR(check_images({.directory = empty.path().string()}, {}), "nothing that is known");
}

}  // namespace accrue::test
