// Data sets that are read when they are needed give the same samples as data sets in memory.

#include "data/row_stream.h"

#include <atomic>
#include <chrono>

#include "core/random.h"
#include "data/loader.h"
#include "images/image_folder.h"
#include "images/shapes.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/files.h"
#include "tests/support/image_files.h"
#include "tests/support/thread_scope.h"

namespace accrue::test {
namespace {

// The data set with fields that are read on demand, except fields of indices. The time of a read
// differs from sample to sample: threads overtake each other.
Dataset streamed(const Dataset& held) {
  Dataset set = held;
  for (Field& field : set.fields) {
    if (field.encoding == Encoding::index) continue;
    field.values =
        Tensor::without_elements(field.values.shape(), field.values.dtype(), Device::cpu);
    field.read = [field = held.field(field.name)](std::span<std::byte> row, int64_t sample) {
      std::this_thread::sleep_for(std::chrono::microseconds(mix_bits(uint64_t(sample)) % 200));
      read_row(row, field, sample);
    };
  }
  return set;
}

// Images of 2 channels, and a number for each sample.
Dataset numbered(int64_t N) {
  RandomStream random(3);
  std::vector<uint8_t> pixels;
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < N; ++i) {
    for (int64_t j = 0; j < 2 * 3 * 5; ++j)
      pixels.push_back(static_cast<uint8_t>(random.below(256)));
    labels.push_back(static_cast<int32_t>(i % 7));
  }
  return {"numbered",
          "test",
          {{"images", Tensor::from(pixels, {N, 2, 3, 5}), Encoding::pixel},
           {"labels", Tensor::from(labels, {N}), Encoding::index, 7}}};
}

// All numbers that a loader yields from a window of an epoch on.
std::vector<double> yielded(Loader& loader, int64_t epoch, int64_t window) {
  std::vector<double> all;
  loader.start_epoch(epoch, window);
  while (const MicroBatch* part = loader.next()) {
    all.push_back(double(part->window_size));
    const auto add = [&](const Tensor& values) {
      const Tensor host = on_host(values);
      if (values.dtype() == DType::i32)
        for (const int32_t index : host.span<int32_t>()) all.push_back(index);
      else
        for (const double value : to_doubles(host)) all.push_back(value);
    };
    for (const Samples::Field& field : part->fields) add(field.values);
    add(part->indices);
  }
  return all;
}

void require_same_rows(const Datasets& held, const Datasets& streamed) {
  for (auto set : {&Datasets::train, &Datasets::test}) {
    const Dataset &a = held.*set, &b = streamed.*set;
    REQUIRE(!a.is_streamed());
    REQUIRE(b.is_streamed());
    REQUIRE(a.names == b.names);
    REQUIRE(a.checksum() == b.checksum());
    REQUIRE(a.fields.size() == b.fields.size());
    for (size_t f = 0; f < a.fields.size(); ++f) {
      REQUIRE(a.fields[f].values.shape() == b.fields[f].values.shape());
      std::vector<std::byte> row(row_of(a.fields[f].values, 0).size());
      for (int64_t n = 0; n < a.size(); ++n) {
        read_row(row, b.fields[f], n);
        REQUIRE(std::ranges::equal(row, row_of(a.fields[f].values, n)));
      }
    }
  }
}

Datasets load(const TemporaryDirectory& folder, size_t most_held_bytes,
              SkipBad skip_bad = SkipBad::no) {
  const bool has_test = std::filesystem::exists(folder.path() / "test");
  return load_images(folder.path(), {.size = ImageSize{5, 7},
                                     .hold_out = has_test ? std::nullopt : std::optional(0.3),
                                     .skip_bad = skip_bad,
                                     .most_held_bytes = most_held_bytes});
}

constexpr size_t any_bytes = size_t{1} << 40;

}  // namespace

TEST_CASE("a data set that is read on demand yields the same as one in memory", "[data]") {
  const Dataset held = GENERATE(0, 1) ? numbered(90) : make_shapes(Split::test, {.test_size = 90});
  const Dataset read = streamed(held);
  REQUIRE(read.bytes() == (held.has("labels") ? 90 * sizeof(int32_t) : 0));
  for (const int threads : {1, 3})
    for (const int64_t m : {1, 7, 16, 40}) {
      const ThreadScope use(threads);
      INFO(threads << " threads, micro-batch " << m);
      const LoaderOptions options{
          .effective_batch_size = 40, .micro_batch_size = m, .seed = 5, .device = test_device()};
      Loader a(held, options), b(read, options);
      for (const auto& [epoch, window] : {std::pair{0, 0}, {3, 1}, {3, 3}, {1, 2}}) {
        REQUIRE(yielded(a, epoch, window) == yielded(b, epoch, window));
        b.start_epoch(7);
        b.next();  // left in the middle
      }
      REQUIRE(b.waited_seconds() > 0);
    }
}

TEST_CASE("samples are read ahead as far as there are places", "[data]") {
  constexpr int64_t N = 40;
  std::atomic<int64_t> begun = 0;
  Dataset data = numbered(N);
  Field& images = data.fields[0];
  // Each sample has 16 MiB and a label. 64 MiB have room for three samples, but two micro-batches
  // of three need six.
  images.values = Tensor::without_elements({N, 1, 4096, 4096}, DType::u8, Device::cpu);
  images.read = [&](std::span<std::byte>, int64_t) { ++begun; };
  for (const auto& [most, places] : {std::pair<int64_t, int64_t>{1, 3}, {3, 6}}) {
    begun = 0;
    RowStream stream(data, most, Device::cpu);
    REQUIRE(stream.ring().size() == places);
    std::vector<int32_t> order(N);
    epoch_order(order, 0, 0, Shuffle::on);
    stream.start(order, 2, 0, 0);
    const auto settles_at = [&](int64_t count) {
      for (int tries = 0; tries < 2000 && begun < count; ++tries)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return begun == count;
    };
    REQUIRE(settles_at(places));
    stream.wait(2, 2 + most);
    REQUIRE(settles_at(places));
    stream.wait(2 + most, 2 + 2 * most);
    REQUIRE(settles_at(places + most));
    REQUIRE_ERROR(stream.wait(2, 3), "are no longer held");
  }
}

TEST_CASE("memory for reading ahead is charged, the same on meta, and does not grow", "[data]") {
  const Dataset data = streamed(make_shapes(Split::test, {.test_size = 300}));
  const Dataset shape = data.to(Device::meta);
  REQUIRE(shape.device() == Device::meta);
  for (const int64_t m : {1, 7, 64}) {
    const auto bytes_for = [&](const Dataset& set, Device device) {
      const size_t before = ledger(device).current()[Category::data];
      Loader loader(set, {.effective_batch_size = 64, .micro_batch_size = m, .device = device});
      const size_t bytes = ledger(device).current()[Category::data] - before;
      ledger(device).reset_peak();
      for (const int64_t epoch : {0, 1}) {
        loader.start_epoch(epoch);
        while (loader.next()) continue;
      }
      REQUIRE(ledger(device).peak()[Category::data] == before + bytes);
      return bytes;
    };
    const size_t measured = bytes_for(data, Device::cpu);
    REQUIRE(measured == bytes_for(shape, Device::meta));
    REQUIRE(measured > 300 * 2 * 784);
  }
}

TEST_CASE("folders of images give the same data on demand as in memory", "[data]") {
  const TemporaryDirectory classes, masks, many, runs;
  std::string csv = "ImageId_ClassId,EncodedPixels\n";
  for (int i = 0; i < 20; ++i) {
    const std::string name = std::to_string(i);
    const Image colours = some_planes(i % 2 ? 3 : 1, 8 + i % 3, 9);
    classes.write(fmt::format("c{}/{}.jpg", i % 3, i), jpeg_file(colours));
    Image mask = some_planes(1, 8 + i % 3, 9), few = mask;
    for (uint8_t& value : few.pixels) value = value % 3 == i % 3 ? 9 : 0;
    for (uint8_t& value : mask.pixels) value = static_cast<uint8_t>(value % 4 * 20);
    for (const TemporaryDirectory* folder : {&masks, &many})
      folder->write("images/" + name + ".png", png_of(colours));
    masks.write("masks/" + name + ".png", png_of(few));
    many.write("masks/" + name + ".png", png_of(mask));
    runs.write(name + ".png", png_of(colours));
    csv += fmt::format("{0}.png_1,{1} 5\n{0}.png_2,3 {1}\n", i, i + 1);
  }
  runs.write("train.csv", csv);
  for (const TemporaryDirectory* folder : {&classes, &masks, &many, &runs})
    require_same_rows(load(*folder, any_bytes), load(*folder, 0));
  REQUIRE(load(classes, any_bytes).train.about.ends_with("decoded, held"));
  REQUIRE(load(classes, 0).train.about.ends_with("decoded, read as they are needed"));

  // The content of the files identifies a run.
  const uint32_t before = load(classes, 0).train.checksum();
  classes.write("c1/1.jpg", jpeg_file(some_planes(3, 8, 10)));
  classes.write("c1/4.jpg", jpeg_file(some_planes(3, 8, 10)));
  REQUIRE(load(classes, 0).train.checksum() != before);

  const std::string whole = jpeg_file(some_planes(3, 40, 40));
  // Damaged in a place that the header does not show.
  classes.write("c0/3.jpg", whole.substr(0, whole.size() - 40));
  REQUIRE_ERROR(load(classes, any_bytes), "c0/3.jpg");
  require_same_rows(load(classes, any_bytes, SkipBad::yes), load(classes, 0, SkipBad::yes));
}

TEST_CASE("a file that goes bad while it is needed is named", "[data]") {
  const TemporaryDirectory folder;
  for (int i = 0; i < 20; ++i)
    folder.write(fmt::format("train/c{}/{:02}.png", i / 10, i), png_of(some_planes(1, 6, 6)));
  folder.write("test/c0/x.png", png_of(some_planes(1, 6, 6)));
  const Datasets sets = load(folder, 0);
  folder.write("train/c0/07.png", "gone");
  folder.write("train/c1/15.png", png_of(some_planes(3, 6, 6)));
  Loader loader(sets.train, {.effective_batch_size = 5,
                             .micro_batch_size = 5,
                             .shuffle = Shuffle::off,
                             .device = test_device()});
  loader.start_epoch(0);
  for (int again = 0; again < 2; ++again) {
    if (again == 0) REQUIRE(loader.next() != nullptr);
    REQUIRE_ERROR(loader.next(), "train/c0/07.png': it is neither PNG nor JPEG");
  }
  loader.start_epoch(0, 3);
  REQUIRE_ERROR(loader.next(), "train/c1/15.png' has colours now");
  REQUIRE_ERROR(gather(sets.train, 5, 8), "train/c0/07.png");
}

}  // namespace accrue::test
