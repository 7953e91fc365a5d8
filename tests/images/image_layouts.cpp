// Layouts of folders of images: each is recognized, or refused by an error that names the wrong
// path or names.

#include <set>

#include "images/image_folder.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/image_files.h"

namespace accrue::test {
namespace {

namespace fs = std::filesystem;

using Paths = std::vector<std::string>;

// A folder with an image at each of the paths, and with text files of the given contents.
struct Tree {
  explicit Tree(const Paths& images,
                const std::vector<std::pair<std::string, std::string>>& texts = {}) {
    const std::string image = png_of(some_planes(1, 2, 2));
    for (const std::string& path : images) folder.write(path, image);
    for (const auto& [path, text] : texts) folder.write(path, text);
  }

  TemporaryDirectory folder;
};

std::string without(std::string text, const std::string& part) {
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos;)
    text.replace(at, part.size(), "DIR");
  return text;
}

// How the layout is read: each sample with its class, its mask, or its labels and runs; samples of
// the test are in brackets. The bad files and the notes follow.
std::string meaning_of(const Tree& tree, double hold_out = 0) {
  const fs::path& here = tree.folder.path();
  std::string text;
  try {
    std::optional<ImageFolder> found = find_images(here);
    if (found && !found->is_divided) found = find_images(here, hold_out);
    if (!found) refuse_layout(here);
    for (const FolderSample& sample : found->samples) {
      std::string meaning = sample.image.lexically_relative(here).string() + ' ';
      if (found->answer == ImageFolder::Answer::classes)
        meaning += found->classes[static_cast<size_t>(sample.label)];
      if (found->answer == ImageFolder::Answer::masks)
        meaning += sample.mask.lexically_relative(here).string();
      for (const RunLengths& line : sample.runs) meaning += line.label + ':' + line.runs + ' ';
      text += sample.split == Split::test ? '[' + meaning + ']' : meaning;
      text += '\n';
    }
    for (const BadFile& bad : found->bad) text += "bad: " + bad.describe() + '\n';
    for (const std::string& note : found->notes) text += note + '\n';
  } catch (const Error& error) {
    text = error.what();
  }
  return without(text, here.string());
}

}  // namespace

TEST_CASE("one folder too many is entered", "[data]") {
  REQUIRE(meaning_of(Tree({"pets/cat/a.png", "pets/dog/b.png"})) ==
          "pets/cat/a.png cat\npets/dog/b.png dog\nin DIR/pets\n");
  REQUIRE(meaning_of(Tree({"up/pets/train/cat/a.png", "up/pets/train/dog/b.png",
                           "up/pets/test/cat/c.png", "up/__MACOSX/dog/._b.png"})) ==
          "up/pets/train/cat/a.png cat\nup/pets/train/dog/b.png dog\n[up/pets/test/cat/c.png cat]\n"
          "in DIR/up\nin DIR/up/pets\n");
  // A single class is read here; load_images() refuses it.
  REQUIRE(meaning_of(Tree({"pets/a.png", "pets/b.png"})) == "pets/a.png pets\npets/b.png pets\n");
}

TEST_CASE("folders that may be classes or sets of them are refused", "[data]") {
  REQUIRE_THAT(
      meaning_of(Tree({"one/cat/a.png", "one/dog/b.png", "two/cat/c.png", "two/dog/d.png"})),
      ContainsSubstring("'DIR' has the folders one, two, and each of them the folders cat, dog") &&
          ContainsSubstring("or 'DIR/one' alone as the data"));
  REQUIRE_THAT(meaning_of(Tree({"train/cat/a.png", "train/dog/b.png", "bus/c.png"})),
               ContainsSubstring("but 'DIR/bus' lies beside it") &&
                   ContainsSubstring("'DIR/train' alone as the data"));
  REQUIRE_THAT(meaning_of(Tree({"train/a.png", "test/b.png"})),
               ContainsSubstring("sound like parts of a data set, not like classes"));
  REQUIRE_THAT(meaning_of(Tree({"a.png", "b.png"})),
               ContainsSubstring("images, but nothing that says their classes or masks"));
  REQUIRE_THAT(meaning_of(Tree({"a.png", "b.png"}, {{"l.csv", "file,cat,dog\na.png,1,0\n"}})),
               ContainsSubstring("their classes or masks (l.csv has the columns file, cat, dog)"));
  REQUIRE_THAT(meaning_of(Tree({})), ContainsSubstring("nothing that is known"));
  // Deeper folders with other names have no meaning.
  REQUIRE(meaning_of(Tree({"cat/2020/a.png", "cat/2021/b.png", "dog/2021/c.png"})) ==
          "cat/2020/a.png cat\ncat/2021/b.png cat\ndog/2021/c.png dog\n");
}

TEST_CASE("classes may be called train, test or val", "[data]") {
  REQUIRE(meaning_of(Tree({"bus/a.png", "train/b.png", "val/c.png"})) ==
          "bus/a.png bus\ntrain/b.png train\nval/c.png val\ntrain is taken for a class\n"
          "val is taken for a class\n");
}

TEST_CASE("parts are found by the words in their names", "[data]") {
  REQUIRE(meaning_of(Tree({"Training/a/1.png", "Training/b/2.png", "Testing/a/3.png"})) ==
          "Training/a/1.png a\nTraining/b/2.png b\n[Testing/a/3.png a]\n");
  REQUIRE(meaning_of(Tree(
              {"seg_train/a/1.png", "seg_train/b/2.png", "seg_val/b/3.png", "seg_test/4.png"})) ==
          "seg_train/a/1.png a\nseg_train/b/2.png b\n[seg_val/b/3.png b]\n"
          "seg_test is not used, as it has no classes or masks\n");
  REQUIRE(meaning_of(Tree({"train/a/1.png", "train/b/2.png", "test/a/3.png", "val/b/4.png"})) ==
          "train/a/1.png a\ntrain/b/2.png b\n[test/a/3.png a]\nval is not used\n");
}

TEST_CASE("no image vanishes", "[data]") {
  REQUIRE(meaning_of(Tree({"cat/a.png", "dog/b.png", "c.png"})) ==
          "cat/a.png cat\ndog/b.png dog\nbad: DIR/c.png: nothing says its class\n");
  REQUIRE(meaning_of(Tree({"images/a.png", "masks/a.png", "c.png", "other/d.png"})) ==
          "images/a.png masks/a.png\nbad: DIR/c.png: it has no mask\nother is not used\n");
  const Tree tree({"cat/a.png", "dog/b.png"});
  fs::create_symlink("nowhere.png", tree.folder.path() / "cat/c.png");
  fs::create_directory(tree.folder.path() / "bird");
  REQUIRE(meaning_of(tree) ==
          "cat/a.png cat\ndog/b.png dog\nbad: DIR/bird: it is a class without images\n"
          "bad: DIR/cat/c.png: it is a link to nothing\n");
  fs::remove_all(tree.folder.path() / "dog");
  fs::remove(tree.folder.path() / "cat/a.png");
  REQUIRE_THAT(meaning_of(tree),
               ContainsSubstring("holds no image, and an entry that cannot be "
                                 "used (DIR/cat/c.png: it is a link to nothing)"));
}

TEST_CASE("folders of images and masks are found by the names that people use", "[data]") {
  using Names = std::pair<std::string, std::string>;
  for (const auto& [images, masks] : {Names{"Images", "MASKS"},
                                      {"JPEGImages", "SegmentationClass"},
                                      {"img", "label"},
                                      {"train_images", "train_masks"},
                                      {"x", "x_mask"},
                                      {"train", "trainannot"},
                                      {"imgs", "ground_truth"}}) {
    INFO(images << ' ' << masks);
    REQUIRE(meaning_of(Tree({images + "/a.png", masks + "/a.png"})) ==
            images + "/a.png " + masks + "/a.png\n");
  }
  for (const auto& [image, mask] : {Names{"a", "a_mask"},
                                    {"img_1", "mask_1"},
                                    {"1_sat", "1_mask"},
                                    {"a_b", "a_b-Label"},
                                    {"a", "a_gt"}}) {
    INFO(image << ' ' << mask);
    REQUIRE(meaning_of(Tree({"images/" + image + ".png", "masks/" + mask + ".png"})) ==
            "images/" + image + ".png masks/" + mask + ".png\n");
    REQUIRE(meaning_of(Tree({image + ".png", mask + ".png"})) == image + ".png " + mask + ".png\n");
  }
  // These folders are classes of faces and letters, and not masks.
  REQUIRE(meaning_of(Tree({"mask/a.png", "no_mask/a.png"})) ==
          "mask/a.png mask\nno_mask/a.png no_mask\n");
  REQUIRE(meaning_of(Tree({"x/a.png", "y/a.png"})) == "x/a.png x\ny/a.png y\n");
}

TEST_CASE("images and masks are nested alike", "[data]") {
  REQUIRE(meaning_of(Tree({"images/a/1.png", "images/b/1.png", "masks/a/1.png", "masks/b/1.png",
                           "masks/b/2.png"})) ==
          "images/a/1.png masks/a/1.png\nimages/b/1.png masks/b/1.png\n"
          "bad: DIR/masks/b/2.png: it has no image\n");
  REQUIRE(meaning_of(Tree({"images/train/1.png", "images/val/2.png", "images/test/3.png",
                           "images/test/4.png", "masks/train/1.png", "masks/val/2.png",
                           "masks/test/3.png"})) ==
          "[images/test/3.png masks/test/3.png]\nimages/train/1.png masks/train/1.png\n"
          "bad: DIR/images/test/4.png: it has no mask\nimages/val is not used\n");
  REQUIRE(meaning_of(Tree({"train/1.png", "train_masks/1.png", "val/2.png", "val_masks/2.png",
                           "test/3.png"})) ==
          "train/1.png train_masks/1.png\n[val/2.png val_masks/2.png]\ntest is not used\n");
  REQUIRE(meaning_of(Tree({"p1/a.png", "p1/a_mask.png", "p2/b.png", "p2/b_mask.png"})) ==
          "p1/a.png p1/a_mask.png\np2/b.png p2/b_mask.png\n");
  REQUIRE_THAT(meaning_of(Tree({"images/a.png", "masks/a.png", "labels/a.png"})),
               ContainsSubstring("'DIR' has masks in labels or in masks"));
  REQUIRE(meaning_of(Tree({"images/a.png"}, {{"labels/a.txt", "0 0.5 0.5 1 1"}})) ==
          "bad: DIR/images/a.png: it has no mask\n");
}

TEST_CASE("VOC's lists say which images are used", "[data]") {
  const Tree tree(
      {"VOC/JPEGImages/a.png", "VOC/JPEGImages/b.png", "VOC/JPEGImages/c.png",
       "VOC/JPEGImages/d.png", "VOC/SegmentationClass/a.png", "VOC/SegmentationClass/b.png",
       "VOC/SegmentationClass/c.png", "VOC/SegmentationObject/a.png"},
      {{"VOC/ImageSets/Segmentation/train.txt", "b\r\nx\n"},
       {"VOC/ImageSets/Segmentation/val.txt", "a\n"}});
  const std::string said = meaning_of(tree);
  REQUIRE_THAT(said, StartsWith("VOC/JPEGImages/b.png VOC/SegmentationClass/b.png\n"
                                "[VOC/JPEGImages/a.png VOC/SegmentationClass/a.png]\n"
                                "bad: DIR/VOC/ImageSets/Segmentation/train.txt: line 2: x has no "
                                "image with a mask\n"));
  REQUIRE_THAT(said, ContainsSubstring("2 images that they do not name are not used") &&
                         ContainsSubstring("SegmentationObject is not used"));
  REQUIRE(find_images(tree.folder.path())->ignored.empty());
}

TEST_CASE("a CSV of classes", "[data]") {
  const Paths flat{"pictures/a.png", "pictures/b.png", "pictures/c.png"};
  const std::string found = "pictures/a.png cat\npictures/b.png dog\npictures/c.png cat\n";
  REQUIRE(meaning_of(Tree(flat, {{"l.csv", "file,label\na.png,cat\nb.png,dog\nc.png,cat\n"}})) ==
          found + "classes are the column label of l.csv\n");
  REQUIRE(meaning_of(Tree(flat, {{"l.csv", "id;breed\na;cat\nb;dog\nc;cat\n"}})) ==
          found + "classes are the column breed of l.csv\n");
  REQUIRE(meaning_of(Tree(flat, {{"l.csv",
                                  "pictures\\a.png,cat\npictures\\b.png,dog\n"
                                  ".\\pictures\\c.png,cat\n"}})) ==
          found + "classes are the column 2 of l.csv\n");
  REQUIRE(meaning_of(Tree(flat, {{"l.csv",
                                  "file,label\na.png,cat\nx.png,dog\nb.png,\n"
                                  "a.png,dog\n"}})) ==
          "pictures/a.png cat\nbad: DIR/l.csv: line 3: x.png: there is no such image\n"
          "bad: DIR/l.csv: line 4: b.png: it has no label\n"
          "bad: DIR/l.csv: line 5: a.png: it has a line already\n"
          "bad: DIR/pictures/c.png: nothing says its class\nclasses are the column label of "
          "l.csv\n");
  REQUIRE_THAT(meaning_of(Tree(flat, {{"l.csv", "id,z\na,1\nb,2\nc,3\n"}})),
               ContainsSubstring("each of the 3 images has a label of its own"));
  REQUIRE_THAT(meaning_of(Tree(flat, {{"a.csv", "id,label\na,1\nb,1\nc,2\n"},
                                      {"b.csv", "id,label\na,1\nb,1\nc,2\n"}})),
               ContainsSubstring("several CSV files of classes, a.csv, b.csv: expected one"));
  // If two folders have the same names, the folder with more of them is used. Equal numbers are
  // refused.
  REQUIRE_THAT(meaning_of(Tree({"a/1.png", "a/2.png", "b/1.png"},
                               {{"l.csv", "file,label\n1.png,x\n2.png,y\n"}})),
               StartsWith("a/1.png x\na/2.png y\n") && ContainsSubstring("b is not used\n"));
  REQUIRE_THAT(meaning_of(Tree({"a/1.png", "b/1.png"}, {{"l.csv", "file,label\n1.png,x\n"}})),
               ContainsSubstring("line 2: 1.png: it could be 'DIR/a/1.png' or 'DIR/b/1.png'"));
  // A CSV file about something else is not used.
  REQUIRE(meaning_of(Tree({"cat/a.png", "dog/b.png"}, {{"sizes.csv", "file,width\na.png,3\n"}})) ==
          "cat/a.png cat\ndog/b.png dog\nsizes.csv is not used\n");
}

TEST_CASE("several labels in a field are refused", "[data]") {
  const Paths flat{"a.png", "b.png", "c.png", "d.png"};
  const auto labels = [&](const std::string& column, const std::string& b) {
    return meaning_of(Tree(flat, {{"l.csv", "file," + column + "\na.png,scab\nb.png," + b +
                                                "\nc.png,rust\nd.png,scab\n"}}));
  };
  for (const char* several : {"scab rust", "scab|mould", "\"mould, rot\"", "3 17"})
    REQUIRE_THAT(labels("labels", several),
                 ContainsSubstring("l.csv', line 3: the column labels has several labels in a "
                                   "field, '"));
  REQUIRE_THAT(labels("label", "rust scab"), ContainsSubstring("has several labels in a field"));
  for (const char* one : {"golden retriever", "apple-scab"})
    REQUIRE_THAT(labels("labels", one), ContainsSubstring(fmt::format("b.png {}\n", one)));
  REQUIRE_THAT(labels("label", "3 17"), ContainsSubstring("b.png 3 17\n"));
}

TEST_CASE("classes that are numbers are in the order of the numbers", "[data]") {
  const auto order = [](const Paths& images) {
    return find_images(Tree(images).folder.path())->classes;
  };
  REQUIRE(order({"10/a.png", "9/a.png", "007/a.png", "2/a.png"}) == Paths{"2", "007", "9", "10"});
  REQUIRE(order({"10/a.png", "9/a.png", "b/a.png"}) == Paths{"10", "9", "b"});
  const Tree runs({"a.png"}, {{"l.csv", "ImageId,ClassId,EncodedPixels\na,10,1 1\na,2,2 1\n"}});
  const auto found = find_images(runs.folder.path());
  REQUIRE(found->classes == Paths{"2", "10"});
  const Image masks = draw_masks(*found, found->samples.front(), {2, 2});
  REQUIRE(masks.pixels == std::vector<uint8_t>{0, 0, 255, 0, 255, 0, 0, 0});
}

TEST_CASE("two images of one name are not taken for an image without a mask", "[data]") {
  REQUIRE(meaning_of(Tree({"images/a.jpg", "images/a.png", "images/b.png", "masks/a.png"})) ==
          "images/a.jpg masks/a.png\n"
          "bad: DIR/images/a.png: it has the name of a.jpg with another extension, and a mask is "
          "for one image: expected one of the two\n"
          "bad: DIR/images/b.png: it has no mask\n");
}

TEST_CASE("CSVs of classes say what is for the test", "[data]") {
  const Paths flat{"a.png", "b.png", "c.png"};
  REQUIRE(meaning_of(Tree(flat, {{"train.csv", "id,label\na,1\nb,2\n"},
                                 {"val_labels.csv", "id,label\nc,1\n"}})) ==
          "a.png 1\nb.png 2\n[c.png 1]\nclasses are the column label of train.csv, "
          "val_labels.csv\n");
  REQUIRE(meaning_of(Tree(flat, {{"l.csv", "id,label,split\na,1,train\nb,2,val\nc,1,test\n"}})) ==
          "a.png 1\n[c.png 1]\nclasses are the column label of l.csv\nval is not used\n");
}

TEST_CASE("a CSV file of images in train and test does not change their split", "[data]") {
  const std::string lines = "file,label\ntrain/a.png,x\ntrain/b.png,y\ntest/a.png,x\n";
  REQUIRE(meaning_of(Tree({"train/a.png", "train/b.png", "test/a.png"}, {{"l.csv", lines}})) ==
          "[test/a.png x]\ntrain/a.png x\ntrain/b.png y\nclasses are the column label of l.csv\n");
  REQUIRE(meaning_of(Tree({"images/train/a.png", "images/test/b.png", "masks/train/a.png"})) ==
          "images/train/a.png masks/train/a.png\nimages/test is not used\n");
}

TEST_CASE("a CSV of run lengths is found beside others", "[data]") {
  const Paths images{"train/a.png", "train/b.png", "test/z.png"};
  const std::string lines = "a.png_fish,1 2\nb.png_fish,\n";
  REQUIRE(meaning_of(Tree(images, {{"sample_submission.csv",
                                    "Image_Label,EncodedPixels\nz.png_fish,"
                                    "1 1\n"},
                                   {"train.csv", "Image_Label,EncodedPixels\n" + lines}})) ==
          "train/a.png fish:1 2 \ntrain/b.png fish: \nrun lengths of train.csv\ntest is not used\n"
          "sample_submission.csv is not used\n");
  REQUIRE(meaning_of(Tree(images, {{"train.csv", "id,rle_mask\na,1 2\n"}})) ==
          "train/a.png mask:1 2 \nbad: DIR/train/b.png: it has no mask\nrun lengths of train.csv\n"
          "test is not used\n");
  REQUIRE_THAT(
      meaning_of(Tree(images, {{"a.csv", "id,rle\na,1 2\n"}, {"b.csv", "id,rle\na,1 2\n"}})),
      ContainsSubstring("several CSV files of run lengths, a.csv, b.csv"));
  REQUIRE_THAT(meaning_of(Tree(images, {{"train.csv", "id,rle\nq,1 2\n"}})),
               ContainsSubstring("has none of the images that 'train.csv' names, such as 'q'"));
}

TEST_CASE("data that teaches nothing is refused", "[data]") {
  const auto load = [](const Tree& tree, SkipBad skip_bad = SkipBad::no) {
    return load_images(tree.folder.path(), {.hold_out = 0.4, .skip_bad = skip_bad}).train;
  };
  Paths images;
  for (int i = 0; i < 12; ++i) images.push_back(fmt::format("cat/{}.png", i));
  REQUIRE_ERROR(load(Tree(images)), "of one class only, cat, which teaches nothing");
  REQUIRE(load_images(Tree(images).folder.path(), {.hold_out = 0.4, .one_class = OneClass::allowed})
              .train.field("labels")
              .classes == 1);
  for (int i = 0; i < 12; ++i) images.push_back(fmt::format("dog/{}.png", i));
  const Tree tree(images);
  REQUIRE(load(tree).field("labels").classes == 2);
  // A class that has only bad files is left out.
  tree.folder.write("ant/a.png", "no image");
  fs::create_directory(tree.folder.path() / "bee");
  REQUIRE_ERROR(load(tree), "has 2 bad files");
  const Dataset good = load(tree, SkipBad::yes);
  REQUIRE(good.field("labels").class_names == std::vector<std::string>{"cat", "dog"});
  const auto labels = good["labels"].span<int32_t>();
  REQUIRE(std::set<int>(labels.begin(), labels.end()) == std::set<int>{0, 1});
  tree.folder.write("ant/a.png", png_of(some_planes(1, 2, 2)));
  REQUIRE_THAT(load(tree, SkipBad::yes).about, ContainsSubstring("no class ant in"));

  const std::string black =
      png_of({.channels = 1, .height = 2, .width = 2, .pixels = {0, 0, 0, 0}});
  const Tree masks({"images/a.png", "images/b.png"},
                   {{"masks/a.png", black}, {"masks/b.png", black}});
  REQUIRE_ERROR(load(masks), "every pixel of its masks has the value 0");
}

}  // namespace accrue::test
