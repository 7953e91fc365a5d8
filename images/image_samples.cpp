#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "core/usage.h"
#include "data/byte_stream.h"
#include "data/samples.h"
#include "images/image_folder.h"
#include "kernels/judged.h"
#include "kernels/parallel.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using Answer = ImageFolder::Answer;

constexpr size_t most_mask_values = 64;
// Worth a thread: decoding an image takes a millisecond or more.
constexpr int64_t work_of_image = parallel_least;

[[noreturn]] void refuse_bad(const ImageFolder& folder, const std::vector<BadFile>& bad) {
  std::string first;
  for (size_t i = 0; i < std::min<size_t>(bad.size(), 5); ++i) first += "\n  " + bad[i].describe();
  fail(
      "'{0}' has {1} bad file{2}:{3}{4}\n`accrue data check {0}` lists all; the setting skip-bad "
      "leaves "
      "{5} out",
      folder.directory.string(), bad.size(), bad.size() == 1 ? "" : "s", first,
      bad.size() > 5 ? "\n  ..." : "", bad.size() == 1 ? "it" : "them");
}

void check_one_size(const ImageFolder& folder, const ImageSurvey& found) {
  check(found.smallest == found.largest,
        "'{}' has images of {} to {} (height x width): expected one size, or the setting "
        "image-size HEIGHTxWIDTH to bring them to one",
        folder.directory.string(), height_by_width(found.smallest), height_by_width(found.largest));
}

// The form in which samples become tensors.
struct Form {
  int64_t C = 1;
  ImageSize size{};
  bool has_class_masks = false;
  static constexpr int unknown = -2;
  std::array<int, 256> classes{};  // by the value in a mask: 0 or 255, an index, or unknown
  int64_t class_count = 0;
  std::vector<uint8_t> values{};  // that classes have in masks, in order
  std::optional<uint8_t> unjudged_value{};
};

void check_mask_values(const ImageFolder& folder, const ImageSurvey& found, int unjudged,
                       const ImageFolderOptions& options) {
  const size_t values = found.masks.all(unjudged).size();
  const std::string smoothed = options.has_named_mask_values ? "" : found.masks.smoothed(unjudged);
  check(smoothed.empty(),
        "the masks of '{}' {}: expected a value for each class; save them without smoothing, or, "
        "if these are classes, name all {}",
        folder.directory.string(), smoothed, values);
  check(values <= most_mask_values,
        "the masks of '{}' have {} values, expected at most {}: 0 and another, or one for each "
        "class",
        folder.directory.string(), values, most_mask_values);
  check(unjudged < 0 || folder.answer == Answer::masks,
        "'{}' has {}, of which none has the value {} that is not judged: expected images with "
        "masks, or no such value",
        folder.directory.string(),
        folder.answer == Answer::classes ? "a folder for each class" : "run lengths", unjudged);
  check(unjudged < 0 || values >= 2,
        "the masks of '{}' have {} beside {}, which is not judged: expected two or more",
        folder.directory.string(), values == 1 ? "one value" : "no value", unjudged);
}

Form form_of(const ImageFolder& folder, const ImageSurvey& found,
             const ImageFolderOptions& options) {
  if (!options.size) check_one_size(folder, found);
  Form form{.C = std::max(found.channels, options.channels),
            .size = options.size.value_or(found.smallest)};
  const auto unjudged = static_cast<int>(options.unjudged_mask_value.value_or(-1));
  if (folder.answer != Answer::none) check_mask_values(folder, found, unjudged, options);
  const std::vector<int> values = found.masks.all(unjudged);
  form.has_class_masks =
      unjudged >= 0 || values.size() > 2 || (values.size() == 2 && values[0] != 0);
  form.class_count = static_cast<int64_t>(values.size());
  form.values.assign(values.begin(), values.end());
  form.classes.fill(Form::unknown);
  if (unjudged >= 0) {
    form.unjudged_value = static_cast<uint8_t>(unjudged);
    form.classes[static_cast<size_t>(unjudged)] = not_judged;
  }
  for (size_t i = 0; i < values.size(); ++i)
    form.classes[static_cast<size_t>(values[i])] = form.has_class_masks ? static_cast<int>(i)
                                                   : values[i] == 0     ? 0
                                                                        : 255;
  return form;
}

// The samples of one split of a folder, and the form of their tensors.
struct Files {
  ImageFolder folder;
  Form form;

  const FolderSample& sample(int64_t n) const { return folder.samples[static_cast<size_t>(n)]; }
};
using FilesPtr = std::shared_ptr<const Files>;

void read_image_row(std::span<std::byte> row, const Files& files, int64_t n) {
  const fs::path& path = files.sample(n).image;
  const Image image = resized(read_image(path, files.folder.most_image_bytes), files.form.size);
  check(image.channels <= files.form.C,
        "'{}' has colours now, but no image had any when the run began: it has changed",
        path.string());
  const auto pixels = elements_of<uint8_t>(row);
  for (auto to = pixels.begin(); to != pixels.end();)  // repeats gray for each colour
    to = std::ranges::copy(image.pixels, to).out;
}

Image read_run_lengths_of(const Files& files, const FolderSample& sample) {
  return draw_masks(files.folder, sample, read_image_header(sample.image).size);
}

template <class T>
void read_mask_row(std::span<std::byte> row, const Files& files, int64_t n) {
  const FolderSample& sample = files.sample(n);
  const bool has_runs = files.folder.answer == Answer::run_lengths;
  const Image mask = resized_mask(has_runs ? read_run_lengths_of(files, sample)
                                           : read_mask(sample.mask, files.folder.most_image_bytes),
                                  files.form.size);
  std::ranges::transform(mask.pixels, elements_of<T>(row).begin(), [&](uint8_t value) {
    const int meaning = has_runs ? value : files.form.classes[value];
    check(meaning != Form::unknown,
          "'{}' has the value {} now, which no mask had when the run began", sample.mask.string(),
          value);
    return static_cast<T>(meaning);
  });
}

// The checksum of the content of the files and of the samples' labels.
uint32_t checksum_of(const Files& files) {
  const auto N = static_cast<int64_t>(files.folder.samples.size());
  const auto crc_of = [](const fs::path& path, uLong crc) {
    if (path.empty()) return crc;
    const std::vector<std::byte> content = file_content(path);
    return crc32_z(crc, reinterpret_cast<const Bytef*>(content.data()), content.size());
  };
  std::vector<uint32_t> all(static_cast<size_t>(N));
  parallel_for(N, work_of_image, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const FolderSample& sample = files.sample(n);
      all[static_cast<size_t>(n)] = static_cast<uint32_t>(
          crc_of(sample.mask, crc_of(sample.image, static_cast<uLong>(sample.label))));
    }
  });
  return static_cast<uint32_t>(crc32_z(crc_of(files.folder.runs_file, 0),
                                       reinterpret_cast<const Bytef*>(all.data()),
                                       all.size() * sizeof(uint32_t)));
}

// Returns a data set whose images and masks are read when they are needed.
Dataset streamed_set(const FilesPtr& files) {
  const ImageFolder& folder = files->folder;
  const Form& form = files->form;
  const auto [H, W] = form.size;
  const auto N = static_cast<int64_t>(folder.samples.size()),
             K = static_cast<int64_t>(folder.classes.size());
  Dataset set{folder.directory.string(), folder.directory.string()};
  set.checksum = [files] { return checksum_of(*files); };
  const auto add = [&](Field field, const Shape& shape, auto read) {
    field.values = Tensor::without_elements(shape, stored_dtype(field.encoding), Device::cpu);
    field.read = [files, read](std::span<std::byte> row, int64_t n) { read(row, *files, n); };
    set.fields.push_back(std::move(field));
  };
  add({.name = "images", .values = {}, .encoding = Encoding::pixel}, {N, form.C, H, W},
      read_image_row);
  if (folder.answer == Answer::none) {
    // The images have neither labels nor masks.
  } else if (folder.answer == Answer::classes) {
    std::vector<int32_t> labels;
    for (const FolderSample& sample : folder.samples) labels.push_back(sample.label);
    set.fields.push_back({.name = "labels",
                          .values = Tensor::from(labels, {N}),
                          .encoding = Encoding::index,
                          .classes = K,
                          .class_names = folder.classes});
  } else if (form.has_class_masks) {
    add({.name = "masks",
         .values = {},
         .encoding = Encoding::index,
         .classes = form.class_count,
         .class_values = form.values,
         .unjudged_value = form.unjudged_value},
        {N, 1, H, W}, read_mask_row<int32_t>);
  } else {
    const bool planes = folder.answer == Answer::run_lengths;
    add({.name = "masks",
         .values = {},
         .encoding = Encoding::mask,
         .class_names = planes ? folder.classes : std::vector<std::string>()},
        {N, planes ? K : 1, H, W}, read_mask_row<uint8_t>);
  }
  for (const FolderSample& sample : folder.samples)
    set.names.push_back(sample.image.lexically_relative(folder.directory).generic_string());
  return set;
}

// The good samples of a split. If the folder is too small for any to be held out, the test has the
// samples for training.
FilesPtr files_of(const ImageFolder& folder, const ImageSurvey& found, const Form& form,
                  Split wanted) {
  const Split split = holds_out_any(folder) ? wanted : Split::train;
  Files files{folder, form};
  files.folder.samples.clear();
  for (size_t i = 0; i < folder.samples.size(); ++i)
    if (found.is_good[i] && folder.samples[i].split == split)
      files.folder.samples.push_back(folder.samples[i]);
  check(!files.folder.samples.empty(),
        "'{}': {} of its {} good images are held out for the test, expected some for the test and "
        "some for training: change the share that is held out, unless there is a folder test",
        folder.directory.string(), split == Split::train ? "all" : "none",
        std::ranges::count(found.is_good, 1));
  return std::make_shared<const Files>(std::move(files));
}

// Reads a streamed set into memory. Returns each sample's problem, or an empty text if it has none.
std::vector<std::string> read_all(Dataset& set) {
  std::vector<Field> held = set.fields;
  for (Field& field : held)
    if (std::exchange(field.read, nullptr))
      field.values =
          Tensor::empty(field.values.shape(), field.values.dtype(), Device::cpu, Category::data);
  std::vector<std::string> problems(static_cast<size_t>(set.size()));
  parallel_for(set.size(), work_of_image, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) try {
        for (size_t f = 0; f < held.size(); ++f)
          if (set.fields[f].read) read_row(row_of(held[f].values, n), set.fields[f], n);
      } catch (const Error& error) {
        problems[static_cast<size_t>(n)] = error.what();
      }
  });
  set.fields = std::move(held);
  return problems;
}

// Reads a set into memory. Throws Error for bad files.
Dataset held_set(const FilesPtr& files) {
  Dataset set = streamed_set(files);
  const std::vector<std::string> problems = read_all(set);
  std::vector<BadFile> bad;
  for (size_t n = 0; n < problems.size(); ++n)
    if (!problems[n].empty()) bad.push_back({files->folder.samples[n].image, problems[n]});
  if (!bad.empty()) refuse_bad(files->folder, bad);
  return set;
}

// Leaves out the classes that have no good image, so no network answers with them.
void drop_empty_classes(ImageFolder& folder, const ImageSurvey& found) {
  if (folder.answer != Answer::classes) return;
  const auto counts = class_counts(folder, found);
  std::vector<int32_t> place(folder.classes.size());
  std::vector<std::string> kept;
  for (size_t k = 0; k < counts.size(); ++k) {
    place[k] = static_cast<int32_t>(kept.size());
    if (counts[k][0] + counts[k][1] > 0) kept.push_back(folder.classes[k]);
  }
  for (FolderSample& sample : folder.samples)
    sample.label = place[static_cast<size_t>(sample.label)];
  folder.classes = kept;
}

}  // namespace

namespace {

// Surveys the headers and masks, and also all pixels if bad files are to be left out. Throws Error
// for bad files if they are not to be left out, and if all images are bad.
ImageSurvey survey_to_load(const ImageFolder& folder, SkipBad skip_bad) {
  const bool skips_bad = skip_bad == SkipBad::yes;
  ImageSurvey found = survey(folder, skips_bad ? SurveyDepth::pixels : SurveyDepth::headers);
  if (!skips_bad && !found.bad.empty()) refuse_bad(folder, found.bad);
  check(std::ranges::count(found.is_good, 1) > 0, "'{}': all its images are bad",
        folder.directory.string());
  return found;
}

std::string about(const ImageFolder& folder, const ImageSurvey& found, const Form& form,
                  const ImageFolderOptions& options, size_t decoded_bytes) {
  std::vector<std::string> parts{describe(folder, found) + (found.bad.empty() ? "" : " left out")};
  if (form.unjudged_value)
    parts.push_back(fmt::format(
        "{} in masks is not judged{}", *form.unjudged_value,
        std::ranges::count(found.mask_values, *form.unjudged_value) ? "" : ", and occurs nowhere"));
  if (options.most_held_bytes != std::numeric_limits<size_t>::max())
    parts.push_back(
        fmt::format("{} decoded, {}", format_bytes(decoded_bytes),
                    decoded_bytes <= options.most_held_bytes ? "held" : "read as they are needed"));
  std::ranges::copy(notes_of(folder, found), std::back_inserter(parts));
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace

Datasets load_images(const fs::path& directory, const ImageFolderOptions& options) {
  std::optional<ImageFolder> folder = find_images(directory, options.hold_out);
  if (!folder) refuse_layout(directory);
  folder->most_image_bytes = options.most_image_bytes;
  const ImageSurvey found = survey_to_load(*folder, options.skip_bad);
  drop_empty_classes(*folder, found);
  if (options.one_class == OneClass::refused) check_has_classes(*folder, found);
  const Form form = form_of(*folder, found, options);
  const auto load = [&](Split split, auto&& how) {
    const MemoryScope scope(split == Split::train ? "training data" : "test data");
    return how(files_of(*folder, found, form, split));
  };
  Datasets sets{load(Split::train, streamed_set), load(Split::test, streamed_set)};
  const auto decoded_bytes =
      bytes_of_sample(sets.train) * static_cast<size_t>(sets.train.size() + sets.test.size());
  const bool is_held = decoded_bytes <= options.most_held_bytes;
  if (is_held) {
    sets = {};
    sets.train = load(Split::train, held_set);
    sets.test = load(Split::test, held_set);
  }
  sets.train.about = sets.test.about = about(*folder, found, form, options, decoded_bytes);
  return sets;
}

Dataset detail::load_images_to_answer(const ImageFolder& asked, const ImageFolderOptions& options) {
  ImageFolder folder = asked;
  folder.most_image_bytes = options.most_image_bytes;
  const ImageSurvey found = survey_to_load(folder, options.skip_bad);
  const Form form = form_of(folder, found, options);
  const MemoryScope scope("images");
  const FilesPtr files = files_of(folder, found, form, Split::test);
  Dataset set = streamed_set(files);
  const size_t decoded_bytes = bytes_of_sample(set) * static_cast<size_t>(set.size());
  if (decoded_bytes <= options.most_held_bytes) set = held_set(files);
  set.about = about(folder, found, form, options, decoded_bytes);
  return set;
}

std::vector<Dataset> detail::load_images_by_size(const ImageFolder& asked,
                                                 const ImageFolderOptions& options) {
  ImageFolder folder = asked;
  folder.most_image_bytes = options.most_image_bytes;
  const ImageSurvey found = survey_to_load(folder, options.skip_bad);
  std::map<std::pair<int64_t, int64_t>, std::vector<FolderSample>> by_size;
  for (size_t i = 0; i < folder.samples.size(); ++i)
    if (found.is_good[i])
      by_size[{found.sizes[i].height, found.sizes[i].width}].push_back(folder.samples[i]);
  ImageFolder empty = folder;
  empty.samples.clear();
  ImageFolderOptions sized = options;
  const MemoryScope scope("images");
  std::vector<FilesPtr> files;
  std::vector<Dataset> sets;
  size_t decoded_bytes = 0;
  for (auto& [size, samples] : by_size) {
    sized.size = ImageSize{size.first, size.second};
    Files of_size{empty, form_of(folder, found, sized)};
    of_size.folder.samples = std::move(samples);
    files.push_back(std::make_shared<const Files>(std::move(of_size)));
    sets.push_back(streamed_set(files.back()));
    decoded_bytes += bytes_of_sample(sets.back()) * static_cast<size_t>(sets.back().size());
  }
  if (decoded_bytes <= options.most_held_bytes)
    std::ranges::transform(files, sets.begin(), held_set);
  sets.front().about = about(folder, found, files.front()->form, options, decoded_bytes);
  return sets;
}

}  // namespace accrue
