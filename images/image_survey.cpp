#include <algorithm>
#include <array>
#include <mutex>

#include "data/words.h"
#include "images/image_folder.h"
#include "kernels/parallel.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using Answer = ImageFolder::Answer;

// Worth a thread: decoding an image takes a millisecond or more.
constexpr int64_t work_of_look = parallel_least;

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

void check_mask_size(const fs::path& mask, ImageSize of_mask, const ImageHeader& image) {
  check(of_mask == image.size, "'{}' is {} (height x width), but its image {}{}", mask.string(),
        height_by_width(of_mask), height_by_width(image.size),
        image.is_turned ? ", which its EXIF orientation turns: expected a mask of the turned image"
                        : "");
}

size_t place_of(Split split) { return split == Split::train ? 0 : 1; }

// The findings of a survey about one sample.
struct Seen {
  ImageHeader header;
  std::string problem;
};

// Reads a sample. Adds the values in its mask to `values` if it is good.
Seen look_at(const ImageFolder& folder, const FolderSample& sample, SurveyDepth depth,
             MaskValues& values) {
  Seen seen;
  try {
    seen.header = read_image_header(sample.image, folder.most_image_bytes);
    if (depth == SurveyDepth::pixels) read_image(sample.image, folder.most_image_bytes);
    if (folder.answer == Answer::run_lengths) draw_masks(folder, sample, seen.header.size);
    if (folder.answer == Answer::masks) {
      const Image mask = read_mask(sample.mask, folder.most_image_bytes);
      check_mask_size(sample.mask, mask.size(), seen.header);
      values.add(mask);
    }
  } catch (const Error& error) {
    seen.problem = error.what();
  }
  return seen;
}

}  // namespace

Image detail::draw_masks(const ImageFolder& folder, const FolderSample& sample, ImageSize size) {
  const auto plane = static_cast<size_t>(size.height * size.width);
  Image mask{.channels = static_cast<int64_t>(folder.classes.size()),
             .height = size.height,
             .width = size.width};
  check_image_bytes({size, mask.channels}, folder.most_image_bytes,
                    "the masks of " + sample.image.string());
  mask.pixels.resize(folder.classes.size() * plane);
  for (const RunLengths& line : sample.runs) try {
      const auto label = std::ranges::find(folder.classes, line.label);
      const auto k = static_cast<size_t>(label - folder.classes.begin());
      draw_runs(std::span(mask.pixels).subspan(k * plane, plane), size, line.runs);
    } catch (const Error& error) {
      fail("'{}', line {}: {}", folder.runs_file.string(), line.line, error.what());
    }
  return mask;
}

SampleImages detail::read_sample(const ImageFolder& folder, const FolderSample& sample) {
  SampleImages files{.image = read_image(sample.image, folder.most_image_bytes), .mask = {}};
  if (folder.answer == Answer::masks) {
    files.mask = read_mask(sample.mask, folder.most_image_bytes);
    check_mask_size(sample.mask, files.mask.size(),
                    read_image_header(sample.image, folder.most_image_bytes));
  }
  if (folder.answer == Answer::run_lengths)
    files.mask = draw_masks(folder, sample, files.image.size());
  return files;
}

ImageSurvey detail::survey(const ImageFolder& folder, SurveyDepth depth) {
  const size_t N = folder.samples.size();
  std::vector<Seen> all(N);
  ImageSurvey result{
      .is_good = std::vector<char>(N), .sizes = std::vector<ImageSize>(N), .bad = folder.bad};
  std::array<MaskValues, 2> values;  // of each split
  std::mutex mutex;
  parallel_for(static_cast<int64_t>(N), work_of_look, [&](int64_t begin, int64_t end) {
    std::array<MaskValues, 2> some;
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      all[i] = look_at(folder, folder.samples[i], depth, some[place_of(folder.samples[i].split)]);
    const std::lock_guard lock(mutex);
    for (size_t split = 0; split < values.size(); ++split) values[split].add(some[split]);
  });
  const auto area = [](ImageSize size) { return size.height * size.width; };
  for (size_t i = 0; i < N; ++i) {
    const Seen& seen = all[i];
    if (!seen.problem.empty()) {
      result.bad.push_back({folder.samples[i].image, seen.problem});
      continue;
    }
    result.is_good[i] = 1;
    result.channels = std::max(result.channels, seen.header.channels);
    if (folder.answer == Answer::masks || folder.answer == Answer::run_lengths)
      result.turned_beside_masks += seen.header.is_turned ? 1 : 0;
    const ImageSize size = result.sizes[i] = seen.header.size;
    const bool first = area(result.largest) == 0;
    // A different size with the same number of pixels counts, too.
    if (first || area(size) < area(result.smallest)) result.smallest = size;
    if (first || area(size) > area(result.largest) ||
        (area(size) == area(result.largest) && size != result.smallest))
      result.largest = size;
  }
  for (const MaskValues& of_split : values) result.masks.add(of_split);
  result.mask_values = result.masks.all();
  const std::vector<int> training = values[0].all(), test = values[1].all();
  std::ranges::set_difference(training, test, std::back_inserter(result.values_of_training));
  std::ranges::set_difference(test, training, std::back_inserter(result.values_of_test));
  return result;
}

bool detail::holds_out_any(const ImageFolder& folder) {
  return std::ranges::find(folder.samples, Split::test, &FolderSample::split) !=
         folder.samples.end();
}

std::string detail::describe(const ImageFolder& folder, const ImageSurvey& found) {
  size_t images = 0, held_out = 0;
  for (size_t i = 0; i < folder.samples.size(); ++i) {
    images += found.is_good[i] ? 1 : 0;
    held_out += found.is_good[i] && folder.samples[i].split == Split::test ? 1 : 0;
  }
  std::string text = with_commas(images) + (images == 1 ? " image" : " images");
  const auto labels = static_cast<int64_t>(folder.classes.size());
  switch (folder.answer) {
    case Answer::classes: text += ", " + counted_classes(labels); break;
    case Answer::run_lengths: text += fmt::format(", {} each", counted(labels, "mask")); break;
    case Answer::none: break;
    case Answer::masks:
      text += ", masks";
      if (found.mask_values.size() > 2)
        text += fmt::format(" of {} values", found.mask_values.size());
  }
  text += ", " + height_by_width(found.smallest);
  if (found.smallest != found.largest) text += " to " + height_by_width(found.largest);
  text += " (height x width)";
  if (folder.answer == Answer::none) {
    // All images are answered.
  } else if (!holds_out_any(folder))
    text += ", none held out: the scores are for the training images";
  else if (images > 0)
    text += fmt::format(", {:.0f} % held out", 100.0 * double(held_out) / double(images));
  if (!found.bad.empty())
    text += ", " + counted(static_cast<int64_t>(found.bad.size()), "bad file");
  return text;
}

std::vector<std::array<int64_t, 2>> detail::class_counts(const ImageFolder& folder,
                                                         const ImageSurvey& found) {
  std::vector<std::array<int64_t, 2>> counts(folder.classes.size());
  for (size_t i = 0; i < folder.samples.size(); ++i) {
    const FolderSample& sample = folder.samples[i];
    if (!found.is_good[i]) continue;
    if (folder.answer == Answer::classes)
      ++counts[static_cast<size_t>(sample.label)][place_of(sample.split)];
    for (const RunLengths& line : sample.runs) {
      if (line.runs.empty()) continue;
      const auto label = std::ranges::find(folder.classes, line.label);
      ++counts[static_cast<size_t>(label - folder.classes.begin())][place_of(sample.split)];
    }
  }
  return counts;
}

std::vector<std::string> detail::notes_of(const ImageFolder& folder, const ImageSurvey& found) {
  std::vector<std::string> notes = folder.notes, only_training, only_test;
  const auto counts = class_counts(folder, found);
  for (size_t k = 0; k < counts.size(); ++k) {
    if (counts[k][0] > 0 && counts[k][1] == 0) only_training.push_back(folder.classes[k]);
    if (counts[k][0] == 0 && counts[k][1] > 0) only_test.push_back(folder.classes[k]);
  }
  for (const int value : found.values_of_training) only_training.push_back(std::to_string(value));
  for (const int value : found.values_of_test) only_test.push_back(std::to_string(value));
  const std::string noun = folder.answer == Answer::masks ? "value" : "class";
  const auto add = [&](const std::vector<std::string>& names, const char* where) {
    if (holds_out_any(folder) && !names.empty())
      notes.push_back(fmt::format("no {} {} {}", noun, some_of(names), where));
  };
  add(only_training, "in the test");
  add(only_test, "in training");
  if (const int64_t turned = found.turned_beside_masks; turned > 0)
    notes.push_back(fmt::format("EXIF turns {}, and not {}", counted(turned, "image"),
                                turned == 1 ? "its mask" : "their masks"));
  return notes;
}

void detail::check_has_classes(const ImageFolder& folder, const ImageSurvey& found) {
  const std::string directory = folder.directory.string();
  if (folder.answer == Answer::masks)
    check(found.mask_values.size() > 1,
          "'{}': every pixel of its masks has the value {}, which teaches nothing: expected two "
          "values or more",
          directory, found.mask_values.empty() ? 0 : found.mask_values.front());
  const auto counts = class_counts(folder, found);
  const auto used =
      std::ranges::count_if(counts, [](const auto& of_class) { return of_class[0] > 0; });
  if (folder.answer == Answer::run_lengths)
    check(used > 0, "'{}': no line of '{}' has runs for training", directory,
          folder.runs_file.string());
  if (folder.answer != Answer::classes || used > 1) return;
  const auto only =
      std::ranges::find_if(counts, [](const auto& of_class) { return of_class[0] > 0; });
  check(only != counts.end(), "'{}' has no image for training", directory);
  fail(
      "'{}' has images for training of one class only, {}, which teaches nothing: expected two "
      "classes or more, each in a folder of its own; these folders lie in the data's directory "
      "itself or in its train",
      directory, folder.classes[static_cast<size_t>(only - counts.begin())]);
}

}  // namespace accrue
