// A network answers with the classes that it was trained on, whatever the data's classes are.

#include <algorithm>
#include <map>
#include <sstream>

#include "tests/support/cli.h"
#include "tests/support/image_files.h"

namespace accrue::test {
namespace {

constexpr int of_class = 12;

// The bytes of an 8x8 image of about this brightness.
std::string picture(int brightness, int number) {
  Image image = some_planes(1, 8, 8);
  for (uint8_t& pixel : image.pixels)
    pixel = static_cast<uint8_t>(brightness + (pixel + 7 * number) % 20);
  return png_of(image);
}

void write_pictures(const Folder& folder, const std::map<std::string, int>& brightness) {
  for (const auto& [name, bright] : brightness)
    for (int i = 0; i < of_class; ++i)
      folder.TemporaryDirectory::write(fmt::format("{}/{}.png", name, i), picture(bright, i));
}

// A network that tells cat, dog and fish apart by their brightness.
struct TrainedOnFolder : Folder {
  Folder set;
  std::string weights = *this / "w.safetensors";

  TrainedOnFolder() {
    write_pictures(set, {{"cat", 20}, {"dog", 120}, {"fish", 220}});
    succeed("train --model mlp-small --width 0.25 --micro-batch 4 --epochs 30 --lr 0.01 --save " +
            weights + data(set));
  }
  static std::string data(const Folder& folder) {
    return " --hold-out 0.3 --data " + folder.path().string();
  }
  // The answers for images: the lines of predictions.csv.
  std::vector<std::string> answers(const std::string& images) const {
    fs::remove_all(*this / "out");
    succeed("predict --weights " + weights + " --out " + (*this / "out") + " " + images);
    std::istringstream text(file_bytes(*this / "out/predictions.csv"));
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }
  void refuse_answers(const std::string& images, const std::string& part) const {
    refuse("predict --weights " + weights + " --out " + (*this / "none") + " " + images, part);
    REQUIRE_FALSE(fs::exists(*this / "none"));
  }
};

// Copies the weights with other metadata.
void rewrite(const std::string& from, const std::string& to,
             const std::map<std::string, std::string>& changed) {
  Metadata metadata = read_safetensors_metadata(from);
  for (const auto& [name, text] : changed) {
    if (text.empty()) metadata.erase(name);
    else metadata[name] = text;
  }
  write_safetensors(to, read_safetensors(from), metadata);
}

// Writes 16x16 images of three stripes, and masks with these values for the stripes.
void write_stripes(const Folder& folder, const std::array<int, 3>& values, bool has_masks = true) {
  for (int i = 0; i < 8; ++i) {
    Image image = some_planes(1, 16, 16), mask = image;
    for (size_t p = 0; p < mask.pixels.size(); ++p) {
      mask.pixels[p] = static_cast<uint8_t>(values[p % 16 / 6]);
      image.pixels[p] = static_cast<uint8_t>(100 * (p % 16 / 6) + static_cast<size_t>(i));
    }
    const std::string name = fmt::format("{}.png", i);
    folder.TemporaryDirectory::write(has_masks ? "images/" + name : name, png_of(image));
    if (has_masks) folder.TemporaryDirectory::write("masks/" + name, png_of(mask));
  }
}

}  // namespace

TEST_CASE("classes are the weights' by name, not the folder's by number", "[cli][full]") {
  const TrainedOnFolder trained;
  const std::string init = " --init " + trained.weights;
  REQUIRE(read_safetensors_metadata(trained.weights).at("class-names") ==
          R"(["cat","dog","fish"])");
  const auto accuracy = [&](const std::string& weights) {
    const std::string json = trained / "json";
    succeed("eval --init " + weights + TrainedOnFolder::data(trained.set) + " --json " + json);
    return nlohmann::json::parse(file_bytes(json))["training"]["accuracy"].get<double>();
  };
  REQUIRE(accuracy(trained.weights) > 90);
  // If the metadata lists the classes in another order, the same network is right about dogs alone.
  const std::string turned = trained / "turned.safetensors";
  rewrite(trained.weights, turned, {{"class-names", R"(["fish","dog","cat"])"}});
  REQUIRE(accuracy(turned) < 50);
  // If this file is trained further, it learns the folder's names for its outputs.
  const std::string again = trained / "again.safetensors";
  succeed("train --micro-batch 4 --epochs 40 --lr 0.01 --save " + again + " --init " + turned +
          TrainedOnFolder::data(trained.set));
  REQUIRE(read_safetensors_metadata(again).at("class-names") == R"(["fish","dog","cat"])");
  REQUIRE(accuracy(again) > 90);

  const Folder later, fewer;
  write_pictures(later, {{"cat", 20}, {"fish", 220}, {"zebra", 120}});
  write_pictures(fewer, {{"cat", 20}, {"fish", 220}});
  const std::string known = "w.safetensors knows the classes cat, dog, fish, but ";
  refuse("eval" + init + TrainedOnFolder::data(later), known);
  refuse("eval" + init + TrainedOnFolder::data(later),
         " has the classes cat, fish, zebra: expected the same");
  refuse("eval" + init + TrainedOnFolder::data(fewer),
         " has the classes cat, fish: expected the same");
  trained.refuse_answers("--data " + later.path().string(), "zebra is unknown");
  trained.refuse_answers("--data digits", known);
  const auto lines = trained.answers(fewer.path().string());
  REQUIRE(lines.size() == 1 + 2 * of_class);
  REQUIRE(lines.front() == "sample,class,cat,dog,fish");
  REQUIRE(std::ranges::count_if(lines, [](const std::string& line) {
            return line.starts_with("fish/") && line.find(".png,fish,") != line.npos;
          }) > of_class / 2);

  // Data with other classes, or with some of the network's, needs a new head, which --new-head must
  // ask for. Another number of classes gets a new head anyway.
  const std::string train = "train --micro-batch 4 --epochs 1" + init;
  refuse(train + TrainedOnFolder::data(later),
         "or --new-head to learn these with a new last layer");
  REQUIRE_THAT(succeed(train + " --new-head --save " + again + TrainedOnFolder::data(later)),
               ContainsSubstring("3 classes in ") && ContainsSubstring(", 3 here: made new"));
  REQUIRE(read_safetensors_metadata(again).at("class-names") == R"(["cat","fish","zebra"])");
  refuse(train + TrainedOnFolder::data(fewer),
         " has the classes cat, fish: expected the same, or --new-head");
  REQUIRE_THAT(succeed(train + " --new-head" + TrainedOnFolder::data(fewer)),
               ContainsSubstring("3 classes in ") && ContainsSubstring(", 2 here: made new"));
  write_pictures(later, {{"ape", 70}});
  const std::string others = train + " --quiet" + TrainedOnFolder::data(later);
  REQUIRE_THAT(succeed(others), ContainsSubstring("warning: ") &&
                                    ContainsSubstring("3 classes in ") &&
                                    ContainsSubstring(", 4 here: made new"));
}

TEST_CASE("labels that are numbers are given names", "[cli][full]") {
  const Folder folder;
  const std::string w = folder / "w", names = "a,b,c,d,e,f,g,h,i,j",
                    train = "train --model mlp-small" + narrow() + "--steps 1 --save " + w;
  succeed(train + " --classes " + names);
  REQUIRE(read_safetensors_metadata(w).at("class-names") ==
          R"(["a","b","c","d","e","f","g","h","i","j"])");
  refuse("eval --init " + w,
         " has the classes 0, 1, 2, 3, 4, 5, 6, 7, 8, 9: expected the same; --classes names the "
         "data's classes");
  succeed("eval --classes " + names + " --init " + w);
  refuse(train + " --classes a,b", "--classes has 2 names, but the labels have 10 classes");
  refuse(train + " --classes a,b,c,d,e,f,g,h,i,a", "expected different names");
  const Folder set;
  write_pictures(set, {{"cat", 20}, {"dog", 120}});
  refuse("train --model mlp-small --classes a,b" + TrainedOnFolder::data(set),
         "have the names cat, dog: expected no --classes");
}

TEST_CASE("weights that have seen numbers are not given pixels", "[cli][full]") {
  const TrainedOnFolder trained;
  const std::string numbers = trained / "numbers.safetensors",
                    data = TrainedOnFolder::data(trained.set),
                    out = " --out " + (trained / "answers");
  rewrite(trained.weights, numbers, {{"mean", ""}, {"std", ""}, {"inputs", "as given"}});
  const std::string words = "has learned from numbers as they were given, but ";
  for (const std::string& command :
       {"eval --init " + numbers + data, "train --steps 1 --init " + numbers + data,
        "predict --data " + trained.set.path().string() + " --weights " + numbers + out,
        "predict --weights " + numbers + out + " " + (trained.set / "cat/0.png"),
        "eval --mean 0.5 --init " + numbers + data})
    refuse(command, words);
  refuse("export --bytes --weights " + numbers + out,
         "--bytes: " + numbers + " has learned from numbers as they were given");
  succeed("export --weights " + numbers + out);
  const std::string said = "eval --init ";
  REQUIRE(succeed(said + numbers + data + " --mean 0.5 --std 0.5") ==
          succeed(said + trained.weights + data));
}

TEST_CASE("a file that names no classes takes the data's classes, and says so", "[cli][full]") {
  const TrainedOnFolder trained;
  const std::string plain = trained / "plain.safetensors", out = " --out " + (trained / "out");
  rewrite(trained.weights, plain, {{"class-names", ""}, {"classes", ""}});
  const std::string taken = fmt::format(
      "plain.safetensors does not name its classes: the names of {} are used: cat, dog, fish\n",
      trained.set.path().string());
  const std::string data = TrainedOnFolder::data(trained.set);
  REQUIRE_THAT(succeed("eval --init " + plain + data), ContainsSubstring(taken));
  REQUIRE_THAT(succeed("train --micro-batch 4 --epochs 0 --init " + plain + data),
               ContainsSubstring(taken));
  REQUIRE_THAT(
      succeed("predict --data " + trained.set.path().string() + " --weights " + plain + out),
      ContainsSubstring(taken));
  const std::string one = trained.set / "cat/0.png";
  REQUIRE_THAT(succeed("predict --weights " + plain + out + " " + one),
               ContainsSubstring("does not name its classes: they are numbers"));
  REQUIRE(file_bytes(trained / "out/predictions.csv").starts_with("sample,class,0,1,2\n0.png,"));
  rewrite(trained.weights, plain, {{"class-names", "cat"}});
  refuse("eval --init " + plain + data, "plain.safetensors: class-names");
}

TEST_CASE("images without labels are answered", "[cli][full]") {
  const TrainedOnFolder trained;
  const Folder flat, folders;
  for (int i = 0; i < 3; ++i) {
    flat.TemporaryDirectory::write(fmt::format("{}.png", i), picture(100 * i + 20, 0));
    folders.TemporaryDirectory::write(fmt::format("x/deep/{}.png", i), picture(100 * i + 20, 0));
  }
  folders.TemporaryDirectory::write("y/3.png", picture(20, 0));
  folders.TemporaryDirectory::write("4.png", picture(20, 0));
  const auto names_of = [](const std::vector<std::string>& lines) {
    std::vector<std::string> names;
    for (size_t i = 1; i < lines.size(); ++i) {
      const size_t comma = lines[i].find(',');
      names.push_back(lines[i].substr(0, lines[i].find(',', comma + 1)));
    }
    return names;
  };
  const std::vector<std::string> all{"0.png,cat", "1.png,dog", "2.png,fish"};
  REQUIRE(names_of(trained.answers("--data " + flat.path().string())) == all);
  REQUIRE(names_of(trained.answers(flat.path().string() + "/")) == all);
  REQUIRE(names_of(trained.answers("--data " + folders.path().string())) ==
          std::vector<std::string>{"4.png,cat", "x/deep/0.png,cat", "x/deep/1.png,dog",
                                   "x/deep/2.png,fish", "y/3.png,cat"});
  // One file, and several files, which their folders tell apart.
  REQUIRE(names_of(trained.answers("--data " + (flat / "1.png"))) ==
          std::vector<std::string>{"1.png,dog"});
  REQUIRE(names_of(trained.answers((flat / "2.png") + " " + (flat / "0.png"))) ==
          std::vector<std::string>{"0.png,cat", "2.png,fish"});
  REQUIRE(names_of(trained.answers("--data " + (folders / "y/3.png") + " " + (folders / "x"))) ==
          std::vector<std::string>{"x/deep/0.png,cat", "x/deep/1.png,dog", "x/deep/2.png,fish",
                                   "y/3.png,cat"});
  // In a folder of the known classes, all images get answers, although some of its classes are
  // empty.
  fs::remove_all(trained.set / "dog");
  fs::create_directory(trained.set / "dog");
  REQUIRE(trained.answers("--data " + trained.set.path().string()).size() == 1 + 2 * of_class);
  fs::remove(trained.set / "dog");
  const size_t held_out =
      trained.answers("--split test" + TrainedOnFolder::data(trained.set)).size();
  REQUIRE((1 < held_out && held_out < 1 + 2 * of_class));

  const std::string path = flat.path().string();
  trained.refuse_answers("--data nowhere", "'nowhere' is not there: expected an image");
  trained.refuse_answers((flat / "0.png") + " " + (flat / "0.png"), "is given twice");
  trained.refuse_answers("--split test --data " + path, "has no parts");
  trained.refuse_answers("--hold-out 0.5 --data " + path, "--hold-out has no effect without");
  trained.refuse_answers("--data digits " + path, "is a data set, and");
  trained.refuse_answers(Folder().path().string(), "holds no images");
  const Folder colours;
  colours.TemporaryDirectory::write("a.png", png_of(some_planes(3, 8, 8)));
  trained.refuse_answers(colours.path().string(), "has learned gray ones");
  flat.TemporaryDirectory::write("bad.png", "no image");
  trained.refuse_answers("--data " + path, "bad.png");
  REQUIRE(names_of(trained.answers("--skip-bad --data " + path)) == all);
  // If a set has a test part, its images get the answers.
  const Folder parts;
  parts.TemporaryDirectory::write("train/cat/0.png", picture(20, 0));
  parts.TemporaryDirectory::write("train/dog/1.png", picture(120, 0));
  parts.TemporaryDirectory::write("test/fish/2.png", picture(220, 0));
  const std::string data = "--data " + parts.path().string();
  REQUIRE(names_of(trained.answers(data)) == std::vector<std::string>{"test/fish/2.png,fish"});
  REQUIRE(names_of(trained.answers(data + " --split train")) ==
          std::vector<std::string>{"train/cat/0.png,cat", "train/dog/1.png,dog"});
}

TEST_CASE("masks have the values and names that the network learned", "[cli][full]") {
  const Folder set, others, images, output;
  const std::string weights = output / "w.safetensors", plain = output / "plain.safetensors";
  write_stripes(set, {0, 80, 200});
  write_stripes(others, {0, 1, 2});
  write_stripes(images, {}, false);
  succeed(
      "train --model unet --width 0.5 --micro-batch 2 --accum 2 --epochs 1 --classes "
      "sea,sand,wood " +
      std::string("--hold-out 0.3 --save ") + weights + " --data " + set.path().string());
  const Metadata said = read_safetensors_metadata(weights);
  REQUIRE(said.at("class-names") == R"(["sea","sand","wood"])");
  REQUIRE(said.at("class-values") == "[0,80,200]");
  const auto masks = [&](const std::string& with, const Folder& folder) {
    const std::string out = output / "masks";
    fs::remove_all(out);
    succeed("predict --weights " + with + " --out " + out + " " + folder.path().string());
    std::vector<uint8_t> all;
    for (int i = 0; i < 8; ++i) {
      const std::string name = fmt::format("{}.png", i), flat = out + "/" + name;
      std::ranges::copy(read_mask(fs::exists(flat) ? flat : out + "/images/" + name).pixels,
                        std::back_inserter(all));
    }
    return all;
  };
  const auto answered = masks(weights, images);
  REQUIRE(std::ranges::all_of(answered, [](int v) { return v == 0 || v == 80 || v == 200; }));
  REQUIRE(answered == masks(weights, others));  // not in the other folder's values
  REQUIRE_THAT(succeed("eval --hold-out 0.3 --init " + weights + " --data " + set.path().string()),
               ContainsSubstring("wood "));
  const std::string eval = "eval --hold-out 0.3 --data " + others.path().string() + " --init ";
  refuse(eval + weights, "knows the classes sea (0), sand (80), wood (200), but ");
  refuse(eval + weights, "has the classes 0, 1, 2: expected the same");
  const auto loss = [&](const std::string& of, const std::string& classes) {
    const std::string text = succeed(eval + of + " --split test --classes " + classes);
    return text.substr(text.rfind("loss"));
  };
  // Class names on the command line are matched by name, in any order.
  rewrite(weights, plain, {{"class-names", R"(["wood","sand","sea"])"}});
  REQUIRE(loss(plain, "wood,sand,sea") == loss(weights, "sea,sand,wood"));
  REQUIRE(loss(plain, "sea,sand,wood") != loss(weights, "sea,sand,wood"));
  rewrite(weights, plain, {{"class-names", ""}, {"class-values", ""}});
  REQUIRE(masks(plain, set) == answered);  // the folder's values, with a notice
  const auto numbers = masks(plain, images);
  REQUIRE(numbers.size() == answered.size());
  for (size_t p = 0; p < numbers.size(); ++p)
    REQUIRE(int(answered[p]) == std::array{0, 80, 200}[numbers[p]]);
}

}  // namespace accrue::test
