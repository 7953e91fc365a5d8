#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "data/image_folder.h"
#include "kernels/parallel.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using Answer = ImageFolder::Answer;

constexpr size_t most_mask_values = 64;
// Worth a thread: decoding an image takes a millisecond or more.
constexpr int64_t work_of_image = parallel_least;

// "1,204"
std::string with_commas(size_t number) {
  const std::string digits = fmt::format("{}", number);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

void check_mask_size(const fs::path& mask, ImageSize of_mask, ImageSize of_image) {
  check(of_mask == of_image, "'{}' is {}, but its image {}", mask.string(),
        width_by_height(of_mask), width_by_height(of_image));
}

Image draw_masks(const ImageFolder& folder, const FolderSample& sample, ImageSize size) {
  const auto plane = static_cast<size_t>(size.height * size.width);
  Image mask{.channels = static_cast<int64_t>(folder.classes.size()),
             .height = size.height,
             .width = size.width};
  mask.pixels.resize(folder.classes.size() * plane);
  for (const RunLengths& line : sample.runs) try {
      const auto label = std::ranges::lower_bound(folder.classes, line.label);
      const auto k = static_cast<size_t>(label - folder.classes.begin());
      draw_runs(std::span(mask.pixels).subspan(k * plane, plane), size, line.runs);
    } catch (const Error& error) {
      fail("'{}', line {}: {}", folder.runs_file.string(), line.line, error.what());
    }
  return mask;
}

// What a survey keeps of each sample.
struct Seen {
  ImageHeader header;
  std::array<bool, 256> values{};
  std::string problem;
};

Seen look_at(const ImageFolder& folder, const FolderSample& sample, Look look) {
  Seen seen;
  try {
    if (look == Look::pixels || folder.answer == Answer::run_lengths) {
      const Image image = look == Look::pixels ? read_image(sample.image) : Image{};
      seen.header = look == Look::pixels ? ImageHeader{image.size(), image.channels}
                                         : read_image_header(sample.image);
      if (folder.answer == Answer::run_lengths) draw_masks(folder, sample, seen.header.size);
    } else {
      seen.header = read_image_header(sample.image);
    }
    if (folder.answer == Answer::masks) {
      const Image mask = read_mask(sample.mask);
      check_mask_size(sample.mask, mask.size(), seen.header.size);
      for (const uint8_t value : mask.pixels) seen.values[value] = true;
    }
  } catch (const Error& error) {
    seen.problem = error.what();
  }
  return seen;
}

[[noreturn]] void refuse_bad(const ImageFolder& folder, const std::vector<BadFile>& bad) {
  std::string first;
  for (size_t i = 0; i < std::min<size_t>(bad.size(), 5); ++i) first += "\n  " + bad[i].describe();
  fail(
      "'{0}' has {1} bad file{2}:{3}{4}\n`accrue data check {0}` lists all; --skip-bad leaves {5} "
      "out",
      folder.directory.string(), bad.size(), bad.size() == 1 ? "" : "s", first,
      bad.size() > 5 ? "\n  ..." : "", bad.size() == 1 ? "it" : "them");
}

void check_one_size(const ImageFolder& folder, const ImageSurvey& found) {
  check(found.smallest == found.largest,
        "'{}' has images of {} to {}: expected one size, or --image-size HEIGHTxWIDTH to bring "
        "them to one",
        folder.directory.string(), width_by_height(found.smallest), width_by_height(found.largest));
}

// How samples are put into tensors.
struct Plan {
  int64_t C = 1;
  ImageSize size{};
  bool has_class_masks = false;
  std::array<uint8_t, 256> classes{};  // by the value in a mask: 0 or 255, or an index
  int64_t class_count = 0;
  std::vector<uint8_t> values{};  // that occur in masks, in order
};

Plan plan_of(const ImageFolder& folder, const ImageSurvey& found,
             const ImageFolderOptions& options) {
  if (!options.size) check_one_size(folder, found);
  Plan plan{.C = found.channels, .size = options.size.value_or(found.smallest)};
  const std::vector<int>& values = found.mask_values;
  check(values.size() <= most_mask_values,
        "the masks of '{}' have {} values, expected at most {}: 0 and another, or one for each "
        "class",
        folder.directory.string(), values.size(), most_mask_values);
  plan.has_class_masks = values.size() > 2 || (values.size() == 2 && values[0] != 0);
  plan.class_count = static_cast<int64_t>(values.size());
  plan.values.assign(values.begin(), values.end());
  for (size_t i = 0; i < values.size(); ++i)
    plan.classes[static_cast<size_t>(values[i])] = plan.has_class_masks ? static_cast<uint8_t>(i)
                                                   : values[i] == 0     ? 0
                                                                        : 255;
  return plan;
}

Dataset empty_set(const ImageFolder& folder, const Plan& plan, int64_t N) {
  const auto make = [&](const Shape& shape, DType dtype) {
    return Tensor::empty(shape, dtype, Device::cpu, Category::data);
  };
  const auto [H, W] = plan.size;
  const auto K = static_cast<int64_t>(folder.classes.size());
  Dataset set{folder.directory.string(), folder.directory.string()};
  set.fields = {{"images", make({N, plan.C, H, W}, DType::u8), Encoding::pixel}};
  if (folder.answer == Answer::classes)
    set.fields.push_back({.name = "labels",
                          .values = make({N}, DType::i32),
                          .encoding = Encoding::index,
                          .classes = K,
                          .class_names = folder.classes});
  else if (folder.answer == Answer::run_lengths)
    set.fields.push_back({.name = "masks",
                          .values = make({N, K, H, W}, DType::u8),
                          .encoding = Encoding::mask,
                          .class_names = folder.classes});
  else if (plan.has_class_masks)
    set.fields.push_back({.name = "masks",
                          .values = make({N, 1, H, W}, DType::i32),
                          .encoding = Encoding::index,
                          .classes = plan.class_count,
                          .class_values = plan.values});
  else set.fields.push_back({"masks", make({N, 1, H, W}, DType::u8), Encoding::mask});
  return set;
}

// The sample's place in a tensor [N, ...].
template <class T>
std::span<T> row(const Tensor& values, int64_t n) {
  const auto size = static_cast<size_t>(values.numel() / values.size(0));
  return values.span<T>().subspan(static_cast<size_t>(n) * size, size);
}

void put_sample(const Dataset& set, int64_t n, const ImageFolder& folder,
                const FolderSample& sample, const Plan& plan) {
  SampleImages files = read_sample(folder, sample);
  const Image image = resized(files.image, plan.size);
  const auto pixels = row<uint8_t>(set["images"], n);
  for (auto to = pixels.begin(); to != pixels.end();)  // gray in each of three colours
    to = std::ranges::copy(image.pixels, to).out;
  if (folder.answer == Answer::classes) {
    set["labels"].span<int32_t>()[static_cast<size_t>(n)] = sample.label;
    return;
  }
  const Image mask = resized_mask(files.mask, plan.size);
  const auto meaning = [&](uint8_t value) { return plan.classes[value]; };
  if (folder.answer == Answer::run_lengths)
    std::ranges::copy(mask.pixels, row<uint8_t>(set["masks"], n).begin());
  else if (plan.has_class_masks)
    std::ranges::transform(mask.pixels, row<int32_t>(set["masks"], n).begin(), meaning);
  else std::ranges::transform(mask.pixels, row<uint8_t>(set["masks"], n).begin(), meaning);
}

// Leaves out the samples whose problems are not empty.
void keep_good(Dataset& set, const std::vector<std::string>& problems) {
  int64_t kept = 0;
  for (size_t n = 0; n < problems.size(); ++n) {
    if (!problems[n].empty()) continue;
    for (const Field& field : set.fields) {
      const size_t bytes = field.values.bytes() / problems.size();
      auto* const all = static_cast<std::byte*>(field.values.view().data);
      std::copy_n(all + n * bytes, bytes, all + static_cast<size_t>(kept) * bytes);
    }
    if (static_cast<size_t>(kept) < n) set.names[static_cast<size_t>(kept)] = set.names[n];
    ++kept;
  }
  set.names.resize(static_cast<size_t>(kept));
  // In tensors of their own, so that what is held is what the ledger is told to expect.
  for (Field& field : set.fields) {
    const Tensor part = field.values.slice(0, kept);
    field.values = Tensor::empty(part.shape(), part.dtype(), Device::cpu, Category::data);
    field.values.copy_from(part);
  }
}

Dataset load_split(const ImageFolder& folder, ImageSurvey& found, const Plan& plan, Split split,
                   SkipBad skip_bad) {
  const MemoryScope scope(split == Split::train ? "training data" : "test data");
  std::vector<size_t> chosen;
  for (size_t i = 0; i < folder.samples.size(); ++i)
    if (found.is_good[i] && folder.samples[i].split == split) chosen.push_back(i);
  check(!chosen.empty(),
        "'{}': {} of its {} good images are held out for the test, expected some of them to be and "
        "some not; --hold-out is the part, where no folder test is there",
        folder.directory.string(), split == Split::train ? "all" : "none",
        std::ranges::count(found.is_good, 1));
  const auto N = static_cast<int64_t>(chosen.size());
  Dataset set = empty_set(folder, plan, N);
  for (const size_t i : chosen)
    set.names.push_back(
        folder.samples[i].image.lexically_relative(folder.directory).generic_string());
  std::vector<std::string> problems(chosen.size());
  parallel_for(N, work_of_image, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const auto i = static_cast<size_t>(n);
      try {
        put_sample(set, n, folder, folder.samples[chosen[i]], plan);
      } catch (const Error& error) {
        problems[i] = error.what();
      }
    }
  });
  std::vector<BadFile> bad;
  for (size_t i = 0; i < problems.size(); ++i) {
    if (problems[i].empty()) continue;
    bad.push_back({folder.samples[chosen[i]].image, problems[i]});
    found.is_good[chosen[i]] = 0;
  }
  if (bad.empty()) return set;
  if (skip_bad == SkipBad::no) refuse_bad(folder, bad);
  found.bad.insert(found.bad.end(), bad.begin(), bad.end());
  check(bad.size() < problems.size(), "'{}': all images for {} are bad", folder.directory.string(),
        split == Split::train ? "training" : "the test");
  keep_good(set, problems);
  return set;
}

}  // namespace

SampleImages read_sample(const ImageFolder& folder, const FolderSample& sample) {
  SampleImages files{.image = read_image(sample.image), .mask = {}};
  if (folder.answer == Answer::masks) {
    files.mask = read_mask(sample.mask);
    check_mask_size(sample.mask, files.mask.size(), files.image.size());
  }
  if (folder.answer == Answer::run_lengths)
    files.mask = draw_masks(folder, sample, files.image.size());
  return files;
}

ImageSurvey survey(const ImageFolder& folder, Look look) {
  const size_t N = folder.samples.size();
  std::vector<Seen> all(N);
  parallel_for(static_cast<int64_t>(N), work_of_image, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      all[i] = look_at(folder, folder.samples[i], look);
  });
  ImageSurvey result{.is_good = std::vector<char>(N), .bad = folder.bad};
  std::array<bool, 256> values{};
  const auto area = [](ImageSize size) { return size.height * size.width; };
  for (size_t i = 0; i < N; ++i) {
    const Seen& seen = all[i];
    if (!seen.problem.empty()) {
      result.bad.push_back({folder.samples[i].image, seen.problem});
      continue;
    }
    result.is_good[i] = 1;
    result.channels = std::max(result.channels, seen.header.channels);
    const ImageSize size = seen.header.size;
    const bool first = area(result.largest) == 0;
    // A size of as many pixels is another size.
    if (first || area(size) < area(result.smallest)) result.smallest = size;
    if (first || area(size) > area(result.largest) ||
        (area(size) == area(result.largest) && size != result.smallest))
      result.largest = size;
    for (size_t v = 0; v < values.size(); ++v) values[v] = values[v] || seen.values[v];
  }
  for (int v = 0; v < 256; ++v)
    if (values[static_cast<size_t>(v)]) result.mask_values.push_back(v);
  return result;
}

std::string describe(const ImageFolder& folder, const ImageSurvey& found) {
  size_t images = 0, held_out = 0;
  for (size_t i = 0; i < folder.samples.size(); ++i) {
    images += found.is_good[i] ? 1 : 0;
    held_out += found.is_good[i] && folder.samples[i].split == Split::test ? 1 : 0;
  }
  std::string text = with_commas(images) + (images == 1 ? " image" : " images");
  const auto add_count = [&](size_t number, const char* noun) {
    text += fmt::format(", {} {}", number, noun);
  };
  switch (folder.answer) {
    case Answer::classes: add_count(folder.classes.size(), "classes"); break;
    case Answer::run_lengths: add_count(folder.classes.size(), "masks each"); break;
    case Answer::masks:
      text += ", masks";
      if (found.mask_values.size() > 2)
        text += fmt::format(" of {} values", found.mask_values.size());
  }
  text += ", " + width_by_height(found.smallest);
  if (found.smallest != found.largest) text += " to " + width_by_height(found.largest);
  if (images > 0)
    text += fmt::format(", {:.0f} % held out", 100.0 * double(held_out) / double(images));
  if (const size_t bad = found.bad.size(); bad > 0)
    add_count(bad, bad == 1 ? "bad file" : "bad files");
  return text;
}

Datasets load_images(const fs::path& directory, const ImageFolderOptions& options) {
  const std::optional<ImageFolder> folder = find_images(directory, options.hold_out);
  check(folder.has_value(),
        "'{}' holds nothing that is known: expected folders of images for each class, images/ and "
        "masks/, x.png beside x_mask.png, a CSV of run lengths, each with train/ and test/ or "
        "without, CIFAR-10's binary files, glyphs, or files in MNIST's format "
        "(train-images-idx3-ubyte)",
        directory.string());
  ImageSurvey found = survey(*folder, Look::headers);
  if (options.skip_bad == SkipBad::no && !found.bad.empty()) refuse_bad(*folder, found.bad);
  check(std::ranges::count(found.is_good, 1) > 0, "'{}': all its images are bad",
        directory.string());
  const Plan plan = plan_of(*folder, found, options);
  Datasets sets{load_split(*folder, found, plan, Split::train, options.skip_bad),
                load_split(*folder, found, plan, Split::test, options.skip_bad)};
  sets.train.about = sets.test.about =
      describe(*folder, found) + (found.bad.empty() ? "" : " left out");
  return sets;
}

}  // namespace accrue
