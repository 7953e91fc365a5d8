#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <utility>

#include "core/usage.h"
#include "data/byte_stream.h"
#include "data/image_folder.h"
#include "data/samples.h"
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

// Kept of each sample by a survey.
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

// The form in which samples become tensors.
struct Form {
  int64_t C = 1;
  ImageSize size{};
  bool has_class_masks = false;
  std::array<int, 256> classes{};  // by the value in a mask: 0 or 255, or an index; -1 if unknown
  int64_t class_count = 0;
  std::vector<uint8_t> values{};  // that occur in masks, in order
};

Form form_of(const ImageFolder& folder, const ImageSurvey& found,
             const ImageFolderOptions& options) {
  if (!options.size) check_one_size(folder, found);
  Form form{.C = std::max(found.channels, options.channels),
            .size = options.size.value_or(found.smallest)};
  const std::vector<int>& values = found.mask_values;
  check(values.size() <= most_mask_values,
        "the masks of '{}' have {} values, expected at most {}: 0 and another, or one for each "
        "class",
        folder.directory.string(), values.size(), most_mask_values);
  form.has_class_masks = values.size() > 2 || (values.size() == 2 && values[0] != 0);
  form.class_count = static_cast<int64_t>(values.size());
  form.values.assign(values.begin(), values.end());
  form.classes.fill(-1);
  for (size_t i = 0; i < values.size(); ++i)
    form.classes[static_cast<size_t>(values[i])] = form.has_class_masks ? static_cast<int>(i)
                                                   : values[i] == 0     ? 0
                                                                        : 255;
  return form;
}

// The files of a split, of the folder's samples, and what becomes of them.
struct Files {
  ImageFolder folder;
  Form form;

  const FolderSample& sample(int64_t n) const { return folder.samples[static_cast<size_t>(n)]; }
};
using FilesPtr = std::shared_ptr<const Files>;

void read_image_row(std::span<std::byte> row, const Files& files, int64_t n) {
  const fs::path& path = files.sample(n).image;
  const Image image = resized(read_image(path), files.form.size);
  check(image.channels <= files.form.C,
        "'{}' has colours now, but no image had any when the run began: it has changed",
        path.string());
  const auto pixels = elements_of<uint8_t>(row);
  for (auto to = pixels.begin(); to != pixels.end();)  // gray in each of three colours
    to = std::ranges::copy(image.pixels, to).out;
}

Image read_run_lengths_of(const Files& files, const FolderSample& sample) {
  return draw_masks(files.folder, sample, read_image_header(sample.image).size);
}

template <class T>
void read_mask_row(std::span<std::byte> row, const Files& files, int64_t n) {
  const FolderSample& sample = files.sample(n);
  const bool has_runs = files.folder.answer == Answer::run_lengths;
  const Image mask = resized_mask(
      has_runs ? read_run_lengths_of(files, sample) : read_mask(sample.mask), files.form.size);
  std::ranges::transform(mask.pixels, elements_of<T>(row).begin(), [&](uint8_t value) {
    const int meaning = has_runs ? value : files.form.classes[value];
    check(meaning >= 0, "'{}' has the value {} now, which no mask had when the run began",
          sample.mask.string(), value);
    return static_cast<T>(meaning);
  });
}

// Of the content of the files and what they are samples of.
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

// Whose images and masks are to be read.
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
    // Images are all that there is.
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
         .class_values = form.values},
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

// The good ones of a split.
FilesPtr files_of(const ImageFolder& folder, const ImageSurvey& found, const Form& form,
                  Split split) {
  Files files{folder, form};
  files.folder.samples.clear();
  for (size_t i = 0; i < folder.samples.size(); ++i)
    if (found.is_good[i] && folder.samples[i].split == split)
      files.folder.samples.push_back(folder.samples[i]);
  check(!files.folder.samples.empty(),
        "'{}': {} of its {} good images are held out for the test, expected some of them to be and "
        "some not; --hold-out is the part, where no folder test is there",
        folder.directory.string(), split == Split::train ? "all" : "none",
        std::ranges::count(found.is_good, 1));
  return std::make_shared<const Files>(std::move(files));
}

// Reads all of a set that is streamed. Returns what is wrong with each sample.
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

// Reads a set that is to be held, and marks what is bad.
Dataset held_split(const ImageFolder& folder, ImageSurvey& found, const Form& form, Split split,
                   SkipBad skip_bad) {
  const FilesPtr files = files_of(folder, found, form, split);
  Dataset set = streamed_set(files);
  const std::vector<std::string> problems = read_all(set);
  std::vector<BadFile> bad;
  for (size_t n = 0; n < problems.size(); ++n)
    if (!problems[n].empty()) bad.push_back({files->folder.samples[n].image, problems[n]});
  if (bad.empty()) return set;
  if (skip_bad == SkipBad::no) refuse_bad(folder, bad);
  found.bad.insert(found.bad.end(), bad.begin(), bad.end());
  for (size_t i = 0; i < folder.samples.size(); ++i)
    if (std::ranges::find(bad, folder.samples[i].image, &BadFile::path) != bad.end())
      found.is_good[i] = 0;
  check(bad.size() < problems.size(), "'{}': all images for {} are bad", folder.directory.string(),
        split == Split::train ? "training" : "the test");
  keep_good(set, problems);
  set.checksum = [kept = files_of(folder, found, form, split)] { return checksum_of(*kept); };
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
    case Answer::none: break;
    case Answer::masks:
      text += ", masks";
      if (found.mask_values.size() > 2)
        text += fmt::format(" of {} values", found.mask_values.size());
  }
  text += ", " + width_by_height(found.smallest);
  if (found.smallest != found.largest) text += " to " + width_by_height(found.largest);
  if (images > 0 && folder.answer != Answer::none)
    text += fmt::format(", {:.0f} % held out", 100.0 * double(held_out) / double(images));
  if (const size_t bad = found.bad.size(); bad > 0)
    add_count(bad, bad == 1 ? "bad file" : "bad files");
  return text;
}

namespace {

std::string about(const ImageFolder& folder, const ImageSurvey& found,
                  const ImageFolderOptions& options, size_t decoded_bytes) {
  const bool is_told = options.most_held_bytes != std::numeric_limits<size_t>::max();
  return describe(folder, found) + (found.bad.empty() ? "" : " left out") +
         (is_told
              ? fmt::format(
                    "; {} decoded, {}", format_bytes(decoded_bytes),
                    decoded_bytes <= options.most_held_bytes ? "held" : "read as they are needed")
              : "");
}

// What can be known without the pixels. Throws Error for bad files that are not to be left out.
ImageSurvey survey_to_load(const ImageFolder& folder, SkipBad skip_bad) {
  ImageSurvey found = survey(folder, Look::headers);
  if (skip_bad == SkipBad::no && !found.bad.empty()) refuse_bad(folder, found.bad);
  check(std::ranges::count(found.is_good, 1) > 0, "'{}': all its images are bad",
        folder.directory.string());
  return found;
}

}  // namespace

Datasets load_images(const fs::path& directory, const ImageFolderOptions& options) {
  const std::optional<ImageFolder> folder = find_images(directory, options.hold_out);
  check(folder.has_value(),
        "'{}' holds nothing that is known: expected folders of images for each class, images/ and "
        "masks/, x.png beside x_mask.png, a CSV of run lengths, each with train/ and test/ or "
        "without, CIFAR-10's binary files, glyphs, or files in MNIST's format "
        "(train-images-idx3-ubyte)",
        directory.string());
  ImageSurvey found = survey_to_load(*folder, options.skip_bad);
  const Form form = form_of(*folder, found, options);
  const auto load = [&](Split split, auto&& how) {
    const MemoryScope scope(split == Split::train ? "training data" : "test data");
    return how(split);
  };
  const auto streamed = [&](Split split) {
    return streamed_set(files_of(*folder, found, form, split));
  };
  Datasets sets{load(Split::train, streamed), load(Split::test, streamed)};
  const auto decoded_bytes =
      bytes_of_sample(sets.train) * static_cast<size_t>(sets.train.size() + sets.test.size());
  const bool is_held = decoded_bytes <= options.most_held_bytes;
  if (is_held) {
    const auto held = [&](Split split) {
      return held_split(*folder, found, form, split, options.skip_bad);
    };
    sets = {};
    sets.train = load(Split::train, held);
    sets.test = load(Split::test, held);
  } else if (options.skip_bad == SkipBad::yes) {
    found = survey(*folder, Look::pixels);
    sets = {load(Split::train, streamed), load(Split::test, streamed)};
  }
  sets.train.about = sets.test.about = about(*folder, found, options, decoded_bytes);
  return sets;
}

Dataset load_images_to_answer(const ImageFolder& folder, const ImageFolderOptions& options) {
  ImageSurvey found = survey_to_load(folder, options.skip_bad);
  const Form form = form_of(folder, found, options);
  const MemoryScope scope("images");
  const auto streamed = [&] { return streamed_set(files_of(folder, found, form, Split::test)); };
  Dataset set = streamed();
  const size_t decoded_bytes = bytes_of_sample(set) * static_cast<size_t>(set.size());
  if (decoded_bytes <= options.most_held_bytes) {
    set = held_split(folder, found, form, Split::test, options.skip_bad);
  } else if (options.skip_bad == SkipBad::yes) {
    found = survey(folder, Look::pixels);
    set = streamed();
  }
  set.about = about(folder, found, options, decoded_bytes);
  return set;
}

}  // namespace accrue
