// The loader: windows, micro-batches, order.

#include "data/loader.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "images/digits.h"
#include "images/shapes.h"
#include "kernels/gather_samples.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"

namespace accrue::test {
namespace {

// Sample i is one pixel of value i with the label i % 10.
Dataset counting(int64_t N) {
  std::vector<uint8_t> pixels;
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < N; ++i) {
    pixels.push_back(static_cast<uint8_t>(i));
    labels.push_back(static_cast<int32_t>(i % 10));
  }
  return {"counting",
          "test",
          {{"images", Tensor::from(pixels, {N, 1, 1, 1}), Encoding::pixel},
           {"labels", Tensor::from(labels, {N}), Encoding::index, 10}}};
}

// Sample i has two channels of three pixels of value i, and a mask at pixel i % 3.
Dataset counting_masks(int64_t N) {
  std::vector<uint8_t> pixels, masks;
  for (int64_t i = 0; i < N; ++i) {
    for (int64_t j = 0; j < 6; ++j) pixels.push_back(static_cast<uint8_t>(i));
    for (int64_t j = 0; j < 3; ++j) masks.push_back(j == i % 3 ? 255 : 0);
  }
  return {"masks",
          "test",
          {{"images", Tensor::from(pixels, {N, 2, 1, 3}), Encoding::pixel},
           {"masks", Tensor::from(masks, {N, 1, 1, 3}), Encoding::mask}}};
}

// More fields than a kernel gathers at a time: field j of sample i is (i + j) % 10.
Dataset counting_often(int64_t N) {
  Dataset data = counting(N);
  for (int32_t j = 0; j < int32_t(2 * most_fields); ++j) {
    std::vector<int32_t> indices;
    for (int64_t i = 0; i < N; ++i) indices.push_back(static_cast<int32_t>((i + j) % 10));
    data.fields.push_back(
        {fmt::format("indices {}", j), Tensor::from(indices, {N}), Encoding::index, 10});
  }
  return data;
}

std::vector<int32_t> order_of(int64_t N, uint64_t seed, int64_t epoch, Shuffle shuffle) {
  std::vector<int32_t> order(static_cast<size_t>(N));
  epoch_order(order, seed, epoch, shuffle);
  return order;
}

std::vector<int32_t> indices_of(const Tensor& x) {
  const Tensor host = on_host(x);
  const auto values = host.span<int32_t>();
  return {values.begin(), values.end()};
}

// The samples and sizes that a loader yields until the end of the epoch.
struct Epoch {
  std::vector<int32_t> samples;
  std::vector<int64_t> micro_batches;  // sizes
  std::vector<int64_t> windows;        // sizes
};

Epoch run(Loader& loader) {
  Epoch epoch;
  int64_t in_window = 0;
  while (const MicroBatch* part = loader.next()) {
    const auto samples = part->indices.span<int32_t>(), labels = (*part)["labels"].span<int32_t>();
    const auto images = (*part)["images"].span<float>();
    REQUIRE((*part)["images"].shape() == Shape{(*part)["labels"].size(0), 1, 1, 1});
    for (size_t k = 0; k < samples.size(); ++k) {
      REQUIRE(labels[k] == samples[k] % 10);
      REQUIRE(images[k] == (static_cast<float>(samples[k]) / 255 - 0.5f) / 0.5f);
      epoch.samples.push_back(samples[k]);
    }
    epoch.micro_batches.push_back((*part)["labels"].size(0));
    in_window += (*part)["labels"].size(0);
    REQUIRE((in_window == part->window_size) == part->ends_window);
    if (part->ends_window) epoch.windows.push_back(std::exchange(in_window, 0));
  }
  REQUIRE(in_window == 0);
  REQUIRE(loader.next() == nullptr);
  return epoch;
}

Epoch run(const Dataset& data, LoaderOptions options, int64_t epoch = 0, int64_t window = 0) {
  Loader loader(data, options);
  loader.start_epoch(epoch, window);
  return run(loader);
}

}  // namespace

// In each window, the micro-batches of all ranks, sorted by their place in the order, are the
// micro-batches of one rank.
TEST_CASE("ranks share each window of the order of one", "[data]") {
  for (const int64_t N : {20, 23, 29, 30})
    for (const auto& [E, m] : {std::pair<int64_t, int64_t>{10, 4}, {10, 1}, {10, 10}, {7, 2}}) {
      const Dataset data = counting(N);
      const LoaderOptions options{
          .effective_batch_size = E, .micro_batch_size = m, .seed = 3, .augment = Augment::no};
      const std::vector<int32_t> order = order_of(N, 3, 1, Shuffle::on);
      for (const int R : {1, 2, 3, 5})
        for (const int64_t smaller : {m, (m + 1) / 2})
          for (const int64_t first : {0, 1}) {
            INFO(N << " samples in windows of " << E << " by " << m << ", " << R << " ranks, from "
                   << first);
            std::vector<std::vector<int32_t>> windows(size_t((N + E - 1) / E));
            for (int r = 0; r < R; ++r) {
              LoaderOptions own = options;
              own.rank = r;
              own.ranks = R;
              own.share_unit = m;
              own.micro_batch_size = smaller;
              Loader loader(data, own);
              loader.start_epoch(1, first);
              for (int64_t w = first; w < loader.windows_per_epoch(); ++w) {
                const MicroBatch* part = nullptr;
                for (bool ended = !loader.has_share(w); !ended; ended = part->ends_window) {
                  part = loader.next();
                  REQUIRE(part != nullptr);
                  REQUIRE(part->window_size == std::min(E, N - w * E));
                  const std::vector<int32_t> samples = indices_of(part->indices);
                  REQUIRE(int64_t(samples.size()) <= smaller);
                  auto& window = windows[size_t(w)];
                  window.insert(window.end(), samples.begin(), samples.end());
                }
              }
              REQUIRE(loader.next() == nullptr);
            }
            std::vector<int32_t> all;
            for (const auto& window : windows) all.insert(all.end(), window.begin(), window.end());
            REQUIRE(all == std::vector<int32_t>(order.begin() + first * E, order.end()));
          }
    }
}

TEST_CASE("the order of an epoch is a permutation that seed and epoch choose", "[data]") {
  const auto order = order_of(1000, 1, 0, Shuffle::on);
  REQUIRE(std::set(order.begin(), order.end()).size() == 1000);
  REQUIRE(std::ranges::max(order) == 999);
  REQUIRE(order == order_of(1000, 1, 0, Shuffle::on));
  REQUIRE(order != order_of(1000, 2, 0, Shuffle::on));
  REQUIRE(order != order_of(1000, 1, 1, Shuffle::on));
  const auto plain = order_of(5, 1, 0, Shuffle::off);
  REQUIRE(plain == std::vector<int32_t>{0, 1, 2, 3, 4});

  // Sample 0 must be equally likely at every position. Chi-squared with 9 degrees of freedom is
  // above 40 with probability 1e-5, and the seeds are fixed.
  std::vector<double> counts(10);
  for (uint64_t seed = 0; seed < 10'000; ++seed) {
    const auto shuffled = order_of(10, seed, 3, Shuffle::on);
    ++counts[static_cast<size_t>(std::ranges::find(shuffled, 0) - shuffled.begin())];
  }
  double chi_squared = 0;
  for (const double n : counts) chi_squared += (n - 1000) * (n - 1000) / 1000;
  REQUIRE(chi_squared < 40);
}

TEST_CASE("every split yields the same samples in the same windows", "[data]") {
  const Dataset data = counting(200);
  const auto order = order_of(200, 9, 2, Shuffle::on);
  for (const int64_t m : {1, 3, 16, 24, 32, 64}) {
    INFO("micro-batch " << m);
    const Epoch epoch =
        run(data, {.effective_batch_size = 64, .micro_batch_size = m, .seed = 9}, 2);
    REQUIRE(epoch.samples == order);
    REQUIRE(epoch.windows == std::vector<int64_t>{64, 64, 64, 8});
  }
  const Epoch uneven = run(data, {.effective_batch_size = 64, .micro_batch_size = 24});
  REQUIRE(uneven.micro_batches == std::vector<int64_t>{24, 24, 16, 24, 24, 16, 24, 24, 16, 8});
}

TEST_CASE("the loader divides every size exactly", "[data]") {
  for (const int64_t N : {1, 2, 7, 33, 70}) {
    const Dataset data = counting(N);
    for (int64_t E = 1; E <= N; E += 3) {
      for (int64_t m = 1; m <= E; m += 2) {
        INFO("N " << N << ", E " << E << ", m " << m);
        const Epoch epoch = run(data, {.effective_batch_size = E, .micro_batch_size = m});
        REQUIRE(epoch.samples == order_of(N, 0, 0, Shuffle::on));
        REQUIRE(std::ranges::max(epoch.micro_batches) == std::min(m, E));
        for (size_t w = 0; w + 1 < epoch.windows.size(); ++w) REQUIRE(epoch.windows[w] == E);
        REQUIRE(std::ssize(epoch.micro_batches) == N / E * ((E + m - 1) / m) + (N % E + m - 1) / m);
      }
    }
  }
}

TEST_CASE("the loader goes to any window, and starts again at any time", "[data]") {
  const Dataset data = counting(200);
  Loader loader(data, {.effective_batch_size = 50, .micro_batch_size = 8, .seed = 4});
  REQUIRE(loader.windows_per_epoch() == 4);
  const auto order = order_of(200, 4, 1, Shuffle::on);
  for (int64_t w = 0; w <= 4; ++w) {
    loader.start_epoch(0);
    for (int64_t k = 0; k < 3 * w; ++k) loader.next();  // left in the middle
    loader.start_epoch(1, w);
    REQUIRE(run(loader).samples == std::vector(order.begin() + 50 * w, order.end()));
  }
  REQUIRE_ERROR(loader.start_epoch(0, 5), "window 5 does not exist");
  Loader idle(data, {});
  REQUIRE_ERROR(idle.next(), "before start_epoch");
}

TEST_CASE("a backward that needs a micro-batch after the next one has come is refused",
          "[data][engine]") {
  const Device device = test_device();
  Dataset data = counting(8);
  for (const bool lies_there : {false, true}) {
    if (lies_there)
      for (Field& field : data.fields) field.values = field.values.to(device);
    Loader loader(data, {.effective_batch_size = 4, .micro_batch_size = 2, .device = device});
    loader.start_epoch(0);
    const Tensor labels = (*loader.next())["labels"].saved();
    labels.view();
    loader.next();
    REQUIRE_ERROR(labels.view(), "somebody has overwritten it");
  }
}

TEST_CASE("bad loader options are refused", "[data]") {
  const Dataset data = counting(100);
  const auto load = [&](int64_t E, int64_t m) {
    Loader(data, {.effective_batch_size = E, .micro_batch_size = m});
  };
  REQUIRE_ERROR(load(64, 0), "at least 1 sample, got 0");
  REQUIRE_ERROR(load(0, 1), "effective batch of 0 cannot be made of micro-batches of 1");
  REQUIRE_ERROR(load(16, 32), "effective batch of 16 cannot be made of micro-batches of 32");
  REQUIRE_ERROR(load(101, 1), "more than the 100 samples of data set 'counting'");
  REQUIRE_ERROR(Loader(data.to(Device::meta), {}), "is on the meta device");
}

TEST_CASE("the loader continues from its current window", "[data]") {
  const Dataset data = counting(70);
  const auto begins = [](Loader& loader) {
    std::vector<int32_t> samples;
    for (const auto& [epoch, window] : {std::pair{0, 0}, {0, 1}, {0, 1}, {0, 3}, {1, 0}, {1, 2}}) {
      loader.start_window(epoch, window);
      const MicroBatch* part = loader.next();
      samples.push_back(part->indices.span<int32_t>()[0]);
      while (!part->ends_window) part = loader.next();
    }
    loader.start_window(1, 0);
    loader.next();
    loader.start_window(1, 1);  // left in the middle
    samples.push_back(loader.next()->indices.span<int32_t>()[0]);
    return samples;
  };
  const auto first_of = [](int64_t epoch, int64_t window) {
    return order_of(70, 8, epoch, Shuffle::on)[size_t(20 * window)];
  };
  Loader loader(data, {.effective_batch_size = 20, .micro_batch_size = 6, .seed = 8});
  REQUIRE(begins(loader) == std::vector{first_of(0, 0), first_of(0, 1), first_of(0, 1),
                                        first_of(0, 3), first_of(1, 0), first_of(1, 2),
                                        first_of(1, 1)});
}

TEST_CASE("an error while preparing surfaces in next()", "[data]") {
  Dataset data = counting(200);
  data["labels"].span<int32_t>()[150] = 10;
  Loader loader(data,
                {.effective_batch_size = 50, .micro_batch_size = 50, .shuffle = Shuffle::off});
  loader.start_epoch(0);
  for (int k = 0; k < 3; ++k) REQUIRE(loader.next() != nullptr);
  REQUIRE_ERROR(loader.next(), "sample 150 has 10 in its labels, expected 0 to 9");
  REQUIRE_ERROR(loader.next(), "sample 150 has 10 in its labels");
  loader.start_epoch(0);
  REQUIRE(loader.next() != nullptr);
}

TEST_CASE("the loader takes the same memory on meta, and none that grows", "[data]") {
  const bool masks = GENERATE(false, true);
  const Dataset data = masks ? make_shapes(Split::test) : make_digits(Split::test);
  const Dataset shape = data.to(Device::meta);
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const int64_t m : {1, 7, 64}) {
      const auto bytes_for = [&](const Dataset& set, Device device) {
        const size_t before = ledger(device).current().total();
        Loader loader(
            set,
            {.effective_batch_size = 64, .micro_batch_size = m, .device = device, .dtype = dtype});
        const size_t bytes = ledger(device).current().total() - before;
        ledger(device).reset_peak();
        loader.start_epoch(0);
        int64_t samples = 0;
        while (const MicroBatch* part = loader.next()) samples += (*part)["images"].size(0);
        REQUIRE(samples == set.size());
        REQUIRE(ledger(device).peak().total() == before + bytes);
        return bytes;
      };
      const size_t measured = bytes_for(data, Device::cpu);
      REQUIRE(bytes_for(shape, Device::meta) == measured);
      const size_t sample = (masks ? 2 : 1) * 784 * size_of(dtype);
      REQUIRE(measured > static_cast<size_t>(m) * sample);
      REQUIRE(measured < 65 * sample + 4 * 2000 + 1024);
    }
  }
}

TEST_CASE("gather takes samples as floats between -1 and 1", "[data]") {
  const Dataset data = counting(200);
  const Samples part = gather(data, 100, 200, DType::f64);
  REQUIRE(part["images"].shape() == Shape{100, 1, 1, 1});
  for (size_t k = 0; k < 100; ++k) {
    REQUIRE(part["images"].span<double>()[k] == (double(100 + k) / 255 - 0.5) / 0.5);
    REQUIRE(part["labels"].span<int32_t>()[k] == int32_t(k % 10));
  }
  REQUIRE_ERROR(gather(data, 100, 201), "[100, 201) are not within the 200");
  Samples out = gather(data, 0, 2);
  REQUIRE_ERROR(gather(out, data, std::vector<int32_t>{200}), "sample 200 is not in data set");
  REQUIRE_ERROR(gather(out, data, std::vector<int32_t>{0, 1, 2}), "3 samples do not fit");
  REQUIRE(gather(data.to(Device::meta), 0, 3)["images"].shape() == Shape{3, 1, 1, 1});
}

TEST_CASE("more fields than a kernel takes at a time are gathered", "[data][engine]") {
  const Dataset data = counting_often(30);
  LoaderOptions options{.effective_batch_size = 20, .micro_batch_size = 7, .seed = 3};
  options.device = test_device();
  for (const Device where : {test_device(), Device::cpu}) {
    Loader loader(data.to(where), options);
    loader.start_epoch(0);
    while (const MicroBatch* part = loader.next()) {
      const std::vector<int32_t> samples = indices_of(part->indices);
      for (int32_t j = 0; j < int32_t(2 * most_fields); ++j) {
        const auto found = indices_of((*part)[fmt::format("indices {}", j)]);
        for (size_t k = 0; k < samples.size(); ++k) REQUIRE(found[k] == (samples[k] + j) % 10);
      }
    }
  }
}

TEST_CASE("the next samples of an order are gathered from its position on", "[engine]") {
  constexpr int64_t N = 100;
  const Dataset data = counting(N).to(test_device());
  const Tensor order = Tensor::from(order_of(N, 3, 0, Shuffle::on), {N}, test_device()),
               position = Tensor::from(std::vector<int32_t>{5, 0}, {2}, test_device());
  int32_t begin = 5;
  for (const int32_t n : {7, 1, 40}) {
    INFO(n << " samples from " << begin);
    const auto gathered = [&](const auto& gather_into) {
      const Tensor images = Tensor::full({n, 1, 1, 1}, -9, DType::f32, test_device()),
                   labels = Tensor::from(std::vector<int32_t>(size_t(n), -9), {n}, test_device()),
                   samples = Tensor::from(std::vector<int32_t>(size_t(n), -9), {n}, test_device());
      const std::vector<FieldViews> fields{{Encoding::pixel, images.view(), data["images"].view()},
                                           {Encoding::index, labels.view(), data["labels"].view()}};
      gather_into(fields, samples.view());
      return std::tuple(to_doubles(images), indices_of(labels), indices_of(samples));
    };
    const auto expected = gathered([&](const auto& fields, View samples) {
      gather_samples(fields, samples, order.slice(begin, begin + n).view());
    });
    REQUIRE(gathered([&](const auto& fields, View samples) {
              gather_next_samples(fields, samples, order.view(), position.view());
            }) == expected);
    begin += n;
    REQUIRE(indices_of(position) == std::vector<int32_t>{begin, 0});
  }
}

TEST_CASE("the loader yields each sample's own mask", "[data]") {
  Loader loader(counting_masks(50), {.effective_batch_size = 20, .micro_batch_size = 3, .seed = 2});
  loader.start_epoch(0);
  int64_t seen = 0;
  while (const MicroBatch* part = loader.next()) {
    REQUIRE_FALSE(part->has("labels"));
    REQUIRE((*part)["images"].shape() == Shape{part->size(), 2, 1, 3});
    REQUIRE((*part)["masks"].shape() == Shape{part->size(), 1, 1, 3});
    const auto masks = (*part)["masks"].span<float>(), images = (*part)["images"].span<float>();
    for (int64_t k = 0; k < part->size(); ++k, ++seen) {
      const int32_t sample = part->indices.span<int32_t>()[k];
      for (int64_t j = 0; j < 3; ++j) REQUIRE(masks[3 * k + j] == (j == sample % 3 ? 1 : 0));
      REQUIRE(images[6 * k + 5] == (static_cast<float>(sample) / 255 - 0.5f) / 0.5f);
    }
  }
  REQUIRE(seen == 50);
}

TEST_CASE("a data set whose fields do not agree is refused", "[data]") {
  const LoaderOptions options{.effective_batch_size = 4, .micro_batch_size = 4};
  const auto refuses = [&](const std::vector<Field>& fields, const std::string& message) {
    REQUIRE_ERROR(Loader(Dataset{"bad", "test", fields}, options), message);
  };
  const Field images = counting_masks(40).fields[0], masks = counting_masks(40).fields[1];
  refuses({}, "data set 'bad' has no fields");
  refuses({images, {"masks", counting_masks(39)["masks"], Encoding::mask}},
          "masks are u8 [39, 1, 1, 3], expected u8 of 40 samples");
  refuses({images, {"labels", masks.values, Encoding::index, 10}},
          "labels are u8 [40, 1, 1, 3], expected i32 of 40 samples");
  REQUIRE_ERROR(counting(40)["masks"], "data set 'counting' has no masks: it has images, labels");
  REQUIRE_ERROR(gather(counting(40), 0, 1)["masks"],
                "these samples have no masks: they have images, labels");
}

TEST_CASE("numbers and several indices are fields, too", "[data][engine]") {
  constexpr int64_t N = 20;
  std::vector<float> numbers;
  std::vector<int32_t> words;
  for (int32_t i = 0; i < N; ++i) {
    numbers.push_back(0.1f * static_cast<float>(i));
    for (int32_t j = 0; j < 3; ++j) words.push_back(100 * i + j);
  }
  const Dataset data{"texts",
                     "test",
                     {{"words", Tensor::from(words, {N, 3}), Encoding::index, 2000},
                      {"ratings", Tensor::from(numbers, {N, 1}), Encoding::number}}};
  for (const Device where : {Device::cpu, test_device()}) {
    Loader loader(data.to(where), {.effective_batch_size = 10,
                                   .micro_batch_size = 4,
                                   .seed = 3,
                                   .device = test_device(),
                                   .dtype = DType::f64});
    loader.start_epoch(0);
    int64_t seen = 0;
    while (const MicroBatch* part = loader.next()) {
      const Tensor indices = on_host(part->indices), some = on_host((*part)["words"]);
      const auto ratings = to_doubles((*part)["ratings"]);
      REQUIRE(some.shape() == Shape{part->size(), 3});
      for (size_t k = 0; k < ratings.size(); ++k, ++seen) {
        const int32_t sample = indices.span<int32_t>()[k];
        REQUIRE(ratings[k] == double(numbers[static_cast<size_t>(sample)]));
        for (int32_t j = 0; j < 3; ++j)
          REQUIRE(some.span<int32_t>()[3 * k + static_cast<size_t>(j)] == 100 * sample + j);
      }
    }
    REQUIRE(seen == N);
  }
}

TEST_CASE("a data set on the device, or fed to it, gives the micro-batches of the cpu",
          "[data][engine]") {
  const Dataset data = GENERATE(counting(100), counting_masks(100), counting_often(100));
  const Graphs graphs = GENERATE(Graphs::off, Graphs::on);
  for (const Device where : {test_device(), Device::cpu}) {
    LoaderOptions options{.effective_batch_size = 30, .micro_batch_size = 8, .seed = 5};
    Loader expected(data, options);
    options.device = test_device();
    options.graphs = graphs;
    Loader loader(data.to(where), options);
    for (const int64_t epoch : {0, 1}) {
      expected.start_epoch(epoch, epoch);
      loader.start_epoch(epoch, epoch);
      while (const MicroBatch* a = expected.next()) {
        const MicroBatch* b = loader.next();
        REQUIRE(b != nullptr);
        REQUIRE((*b)["images"].device() == test_device());
        REQUIRE(to_doubles((*b)["images"]) == to_doubles((*a)["images"]));
        for (const Field& field : data.fields) {
          INFO(field.name);
          const Tensor &x = (*a)[field.name], &y = (*b)[field.name];
          if (field.encoding == Encoding::index) REQUIRE(indices_of(y) == indices_of(x));
          else REQUIRE(to_doubles(y) == to_doubles(x));
        }
        REQUIRE(indices_of(b->indices) == indices_of(a->indices));
        REQUIRE(b->window_size == a->window_size);
        REQUIRE(b->ends_window == a->ends_window);
      }
      REQUIRE(loader.next() == nullptr);
    }
  }
}

}  // namespace accrue::test
