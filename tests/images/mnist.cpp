// Data sets that are found by name, and data sets of IDX files.

#include "images/mnist.h"

#include "images/find_dataset.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/idx_files.h"
#include "tests/support/paths.h"
#include "tests/support/skipped.h"

namespace accrue::test {
namespace {

namespace fs = std::filesystem;

void write_mnist(const TemporaryDirectory& directory, const std::string& folder,
                 const std::string& dash = "-", uint32_t train_labels = 5) {
  directory.write(folder + "train-images" + dash + "idx3-ubyte", images(5));
  directory.write(folder + "train-labels" + dash + "idx1-ubyte", labels(train_labels));
  directory.write(folder + "t10k-images" + dash + "idx3-ubyte.gz", gzip(images(2)));
  directory.write(folder + "t10k-labels" + dash + "idx1-ubyte.gz", gzip(labels(2)));
}

}  // namespace

TEST_CASE("a data set is found by directory, in either spelling", "[data]") {
  const TemporaryDirectory directory;
  write_mnist(directory, "dashes/");
  write_mnist(directory, "dots/", ".");
  for (const char* folder : {"dashes", "dots"}) {
    const Datasets sets = find_dataset((directory.path() / folder).string());
    REQUIRE(sets.train.size() == 5);
    REQUIRE(sets.test["images"].shape() == Shape{2, 1, 2, 3});
    REQUIRE(sets.train.field("labels").classes == 5);
    REQUIRE(sets.train.about == "no class 2, 3, 4 in the test");
  }
  write_mnist(directory, "bad/", "-", 4);
  REQUIRE_ERROR(load_mnist(directory.path() / "bad", Split::train), "has 5 images but");
  fs::remove(directory.path() / "dots/t10k-labels.idx1-ubyte.gz");
  REQUIRE_ERROR(find_dataset((directory.path() / "dots").string()),
                "no t10k-labels-idx1-ubyte in '" + (directory.path() / "dots").string());
  directory.write("dashes/t10k-images-idx3-ubyte.gz", gzip(idx({2, 1, 1}, "ab")));
  REQUIRE_ERROR(find_dataset((directory.path() / "dashes").string()), "different data sets");
}

TEST_CASE("IDX files may have any number of classes, from 0 or from 1", "[data]") {
  const TemporaryDirectory directory;
  const auto write = [&](const std::string& beginning, int first, int last) {
    std::string values;
    for (int label = first; label <= last; ++label) values += static_cast<char>(label);
    const auto count = static_cast<uint32_t>(values.size());
    for (const char* split : {"train", "test"}) {
      directory.write(beginning + split + "-images-idx3-ubyte", images(count));
      directory.write(beginning + split + "-labels-idx1-ubyte", idx({count}, values));
    }
    return find_dataset((directory.path() / beginning).parent_path().string()).train;
  };
  const Dataset letters = write("letters/emnist-letters-", 1, 26);
  const Field& labels = letters.field("labels");
  REQUIRE(labels.classes == 26);
  REQUIRE(labels.values.span<int32_t>()[0] == 0);
  REQUIRE(labels.values.span<int32_t>()[25] == 25);
  REQUIRE(labels.class_name(25) == "26");
  REQUIRE(letters.about == "labels 1 to 26 are the classes");
  const Dataset balanced = write("balanced/", 0, 46);
  REQUIRE(balanced.field("labels").classes == 47);
  REQUIRE(balanced.field("labels").class_name(46) == "46");
  REQUIRE(balanced.about.empty());
  REQUIRE_ERROR(write("one/", 7, 7), "all labels for training are 7, which teaches nothing");
  REQUIRE_ERROR(write("gaps/", 200, 202), "the labels go up to 202, but only 3 different ones");
  write("letters/emnist-letters-", 1, 3);
  REQUIRE_ERROR(write("letters/emnist-mnist-", 0, 3),
                "several sets of IDX files, emnist-letters-train-images-idx3-ubyte, emnist-mnist-");
}

TEST_CASE("a data set is found by name in and under the data directory", "[data]") {
  const TemporaryDirectory directory;
  write_mnist(directory, "fashion-mnist/");
  const Datasets under = find_dataset("fashion", directory.path());
  REQUIRE(under.train.name == "fashion");
  REQUIRE(under.train.source == (directory.path() / "fashion-mnist").string());
  const Datasets in = find_dataset("fashion", directory.path() / "fashion-mnist");
  REQUIRE(in.test.source == under.test.source);

  REQUIRE_ERROR(find_dataset("imagenet"), "neither a data set nor a directory");
  const TemporaryDirectory empty;
  for (const std::string& place :
       {empty.path().string() + "/mnist", empty.path().string(), std::string("data/mnist"),
        std::string(".cache/accrue/MNIST/raw")}) {
    try {
      find_dataset("mnist", empty.path());  // may exist on this machine in the usual places
    } catch (const Error& error) {
      REQUIRE_THAT(error.what(), ContainsSubstring(place + "'"));
    }
  }
}

TEST_CASE("the shape of a data set charges the meta ledger the same", "[data]") {
  const TemporaryDirectory directory;
  write_mnist(directory, "");
  const Usage before = ledger(Device::cpu).current();
  const Dataset set = load_mnist(directory.path(), Split::train);
  const Dataset shape = set.to(Device::meta);
  const size_t measured = ledger(Device::cpu).current()[Category::data] - before[Category::data];
  REQUIRE(measured > 0);
  REQUIRE(ledger(Device::meta).current()[Category::data] == measured);
}

TEST_CASE("MNIST and Fashion-MNIST", "[.real-data]") {
  const char* given = std::getenv("ACCRUE_TEST_DATA");
  const fs::path data = given ? given : fs::path(source_folder) / "../shared/data";
  if (!fs::exists(data / "mnist") || !fs::exists(data / "fashion-mnist"))
    SKIP_LOUDLY("no mnist and fashion-mnist in " + data.string() + "; set ACCRUE_TEST_DATA");
  for (const char* name : {"mnist", "fashion"}) {
    const Datasets sets = find_dataset(name, data);
    REQUIRE(sets.train["images"].shape() == Shape{60'000, 1, 28, 28});
    REQUIRE(sets.test["images"].shape() == Shape{10'000, 1, 28, 28});
    std::vector<int> counts(10);
    for (const int32_t label : sets.test["labels"].span<int32_t>()) ++counts[label];
    if (std::string(name) == "fashion") REQUIRE(counts == std::vector(10, 1000));
    else REQUIRE(counts == std::vector{980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009});
  }
}

}  // namespace accrue::test
