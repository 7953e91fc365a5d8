// The ledger: live allocations and their names, the contents of an out-of-memory error, and the
// timeline.

#include <atomic>
#include <latch>
#include <set>
#include <thread>

#include "accumulate/window.h"
#include "core/host_blocks.h"
#include "core/timeline.h"
#include "kernels/cross_entropy.h"
#include "layers/layers.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/sanitizers.h"

namespace accrue::test {
namespace {

constexpr int64_t N = 4;

std::unique_ptr<Sequential> small_cnn() {
  auto model = std::make_unique<Sequential>();
  model->add<Conv2d>(1, 4, 3, Conv2dShape{.padding = 1});
  model->add<Relu>();
  model->add<Flatten>();
  model->add<Linear>(4 * 36, 5);
  return model;
}

struct Learner {
  std::unique_ptr<Sequential> model = small_cnn();
  Parameters parameters;
  std::unique_ptr<Optimizer> optimizer;
  Window window;
  Tensor x, labels;

  explicit Learner(Device device)
      : parameters(place(*model, DType::f32, device, 5)),
        optimizer(adam(parameters)),
        window(*optimizer, ScheduleOptions{},
               {.effective_batch_size = 2 * N, .graphs = Graphs::off}),
        x(Tensor::full({N, 1, 6, 6}, 0.5, DType::f32, device, Category::data)),
        labels(Tensor::from(std::vector<int32_t>(N, 1), {N}, device)) {}

  void micro_batch() {
    const Tensor loss = cross_entropy((*model)(x), labels);
    window.backward(loss, N);
  }
  void step() {
    micro_batch();
    micro_batch();
    window.step();
  }
};

// The shortage at which work() fails under this limit; nothing if it does not fail.
template <class Work>
std::optional<MemoryShortage> shortage_under(Device device, size_t limit, Work&& work) {
  ledger(device).set_limit(limit);
  std::optional<MemoryShortage> found;
  try {
    work();
  } catch (const OutOfMemory& error) {
    found = error.shortage();
  }
  ledger(device).set_limit(std::nullopt);
  return found;
}

// "0 conv ... in forward", for every allocation that is the first to be refused under some limit.
template <class Work>
std::set<std::string> refusals(Device device, Work&& work) {
  std::set<std::string> names;
  size_t limit = ledger(device).current().total();
  while (const auto shortage = shortage_under(device, limit, work)) {
    const AllocationInfo& asked = shortage->requested;
    REQUIRE(shortage->in_use.total() + asked.bytes > limit);
    limit = shortage->in_use.total() + asked.bytes;
    names.insert(fmt::format("{} in {}", asked.name(), name(asked.phase)));
  }
  return names;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

// Refuses the nth allocation from now on.
class Refusal : public LedgerObserver {
 public:
  explicit Refusal(int n) : left_(n) {}
  void charging(const AllocationInfo&) override { check(--left_ != 0, "refused by the test"); }
  void refunding(const AllocationInfo&) override {}

 private:
  int left_;
};

}  // namespace

TEST_CASE("scopes name what is allocated in them, on their thread", "[engine][memory]") {
  const auto made = [] {
    const Allocation allocation({2, 3}, DType::f32, Device::meta, Category::activations);
    return fmt::format("{} in {}", allocation.info().name(), name(allocation.info().phase));
  };
  REQUIRE(made() == "activations in setup");
  {
    const MemoryScope outer(Phase::forward, "3 conv");
    {
      const MemoryScope inner(Phase::backward);
      REQUIRE(made() == "3 conv in backward");
      const MemoryScope named("relu");
      REQUIRE(made() == "relu in backward");
      std::string elsewhere;
      std::thread([&] { elsewhere = made(); }).join();
      REQUIRE(elsewhere == "activations in setup");
    }
    REQUIRE(made() == "3 conv in forward");
  }
  REQUIRE(made() == "activations in setup");
  REQUIRE(Label("relu") == Label(std::string("relu")));
  REQUIRE(Label("relu").text() == "relu");
  REQUIRE(Label("").empty());
}

TEST_CASE("whatever runs out of memory is named, and leaves nothing", "[engine][memory]") {
  const Device device = test_device();
  Learner learner(device);
  learner.step();  // allocates what lives for the whole run
  const Usage before = ledger(device).current();
  const auto names = refusals(device, [&] {
    try {
      learner.micro_batch();
    } catch (...) {
      REQUIRE(ledger(device).current().bytes == before.bytes);
      learner.window.abandon();
      throw;
    }
  });
  std::set<std::string> phases;
  for (const std::string& each : names) {
    INFO(each);
    // The name of a layer, by its number in the model, or of the loss.
    REQUIRE((std::isdigit(each[0]) || each.starts_with("cross_entropy")));
    phases.insert(each.substr(each.rfind(" in ")));
  }
  REQUIRE(phases == std::set<std::string>{" in forward", " in backward"});
  REQUIRE(names.contains("0 conv 3x3 1 -> 4, stride 1, padding 1 in forward"));
  // On cuda the matrix product's scratch is larger than relu's memory.
  REQUIRE(names.contains(device == Device::cpu ? "1 relu in backward"
                                               : "3 linear 144 -> 5 in backward"));
  REQUIRE(ledger(device).current().bytes == before.bytes);
}

TEST_CASE("an optimizer without room for its state says so", "[engine][memory]") {
  const auto model = small_cnn();
  Parameters parameters = place(*model, DType::f32, test_device(), 5);
  const auto names = refusals(test_device(), [&] { adam(parameters); });
  REQUIRE(names ==
          std::set<std::string>{"optimizer in setup", "adam m in setup", "adam v in setup"});
  REQUIRE(refusals(test_device(), [&] {
            sgd(parameters, {.momentum = 0.9});
          }).contains("sgd momentum in setup"));
}

TEST_CASE("an out-of-memory error knows what holds the memory", "[engine][memory]") {
  Ledger& account = ledger(Device::meta);
  const size_t before = account.current().total();
  // The labels are registered in another order than they are used.
  for (const char* label : {"s4", "s3", "s2", "s1"}) REQUIRE_FALSE(Label(label).empty());
  const auto make = [](Label label, const Shape& shape, Category category) {
    const MemoryScope scope(Phase::forward, label);
    return Tensor::empty(shape, DType::f32, Device::meta, category);
  };
  const Tensor weights = make("weights", {1000}, Category::parameters);
  const Tensor a = make("conv", {16, 64}, Category::activations),
               b = make("conv", {16, 64}, Category::activations);
  std::vector<Tensor> small;
  for (const char* label : {"s1", "s2", "s3", "s4"})
    small.push_back(make(label, {16}, Category::workspace));
  make("gone", {5000}, Category::data);
  account.reset_peak();
  make("gone", {100}, Category::data);

  const auto shortage = shortage_under(Device::meta, before + 14000, [&] {
    make("3 conv 3x3 16 -> 32", {8, 32, 14, 14}, Category::activations);
  });
  REQUIRE(shortage);
  REQUIRE(shortage->device == Device::meta);
  REQUIRE(shortage->requested.bytes == 8 * 32 * 14 * 14 * 4);
  REQUIRE(shortage->requested.name() == "3 conv 3x3 16 -> 32");
  REQUIRE(shortage->requested.type() == "f32 [8, 32, 14, 14]");
  REQUIRE(shortage->cause.empty());
  REQUIRE(shortage->in_use[Category::activations] == 2 * 4096);
  REQUIRE(shortage->peak[Category::data] ==
          448);  // 100 floats, rounded up to a multiple of 64 bytes
  REQUIRE(shortage->limit == before + 14000);
  REQUIRE(shortage->largest.size() == 5);
  REQUIRE(shortage->largest[0].each.name() == "conv");  // two of 4096 bytes, counted together
  REQUIRE(shortage->largest[0].count == 2);
  REQUIRE(shortage->largest[0].bytes == 8192);
  REQUIRE(shortage->largest[1].each.name() == "weights");
  // If groups are equally large, the one made first comes first. The fourth of them would be the
  // sixth in all.
  REQUIRE(shortage->largest[4].each.name() == "s3");

  const auto lines = lines_of(OutOfMemory(*shortage).what());
  REQUIRE(lines[0] ==
          "out of memory on meta: asked for 196.0 KiB more (activations) for "
          "'3 conv 3x3 16 -> 32', f32 [8, 32, 14, 14], in forward");
  REQUIRE_THAT(lines[1], ContainsSubstring("in use") && ContainsSubstring("activations 8.0 KiB"));
  REQUIRE_THAT(lines[2], ContainsSubstring("peak") && ContainsSubstring("data 448 B"));
  REQUIRE_THAT(lines[3], ContainsSubstring("limit      13.7 KiB"));
  REQUIRE_THAT(lines[5], ContainsSubstring("8.0 KiB  activations  conv     2 x f32 [16, 64]"));
  REQUIRE_THAT(lines[6], ContainsSubstring("weights"));
}

TEST_CASE("a machine without memory is an answer, too", "[engine][memory]") {
  const Device device = test_device();
  if (sanitized() && device == Device::cpu) return;  // the sanitizer ends the program instead
  const Usage before = ledger(device).current();
  const MemoryScope scope("too much");
  const auto shortage = shortage_under(device, size_t{1} << 62, [&] {
    Tensor::empty({int64_t{1} << 50}, DType::f32, device, Category::data);
  });
  REQUIRE(shortage);
  REQUIRE_THAT(shortage->cause, ContainsSubstring("has no more"));
  REQUIRE(shortage->in_use.bytes == before.bytes);
  for (const AllocationGroup& group : shortage->largest) REQUIRE(group.each.name() != "too much");
  REQUIRE_THAT(OutOfMemory(*shortage).what(), ContainsSubstring("has no more") &&
                                                  ContainsSubstring("reserved") &&
                                                  ContainsSubstring("fragmentation"));
  REQUIRE(ledger(device).current().bytes == before.bytes);
}

TEST_CASE("a shape whose bytes cannot be counted is refused", "[engine][memory]") {
  // 2^64 elements overflow to 0.
  REQUIRE_ERROR(Tensor::empty({int64_t{1} << 62, 4}, DType::f32, Device::meta),
                "[4611686018427387904, 4] has more than 2^60 elements");
}

TEST_CASE("the ledger counts from many threads", "[engine][memory]") {
  Ledger& account = ledger(Device::meta);
  const Usage before = account.current();
  std::latch start(5);
  std::atomic<int> running{4};
  std::vector<std::thread> threads;
  for (const char* label : {"a", "b", "c", "d"})
    threads.emplace_back([label, &start, &running] {
      const MemoryScope scope(label);
      std::vector<Tensor> alive(8);
      start.arrive_and_wait();
      for (size_t i = 0; i < 200'000; ++i)
        alive[i % alive.size()] = Tensor::empty({int64_t(i % 100)}, DType::f64, Device::meta);
      --running;
    });
  start.arrive_and_wait();
  while (running > 0)
    for (const AllocationGroup& group : account.largest(3))
      REQUIRE(group.bytes >= group.each.bytes);
  for (std::thread& thread : threads) thread.join();
  REQUIRE(account.current().bytes == before.bytes);
}

TEST_CASE("a storage without bytes is on no list", "[engine][memory]") {
  const auto before = ledger(test_device()).largest(100).size();
  const MemoryScope scope("nothing");
  const Timeline timeline(test_device(), 1);
  const Tensor nothing = Tensor::empty({0, 3}, DType::f32, test_device());
  REQUIRE(ledger(test_device()).largest(100).size() == before);
  REQUIRE(timeline.changes().empty());
}

TEST_CASE("an allocation that an observer refuses is not counted", "[engine][memory]") {
  Ledger& account = ledger(test_device());
  const Usage before = account.current();
  Refusal refusal(2);
  account.observe(&refusal);
  const Tensor first = Tensor::empty({10}, DType::f32, test_device());
  const Usage with_first = account.current();
  REQUIRE_ERROR(Tensor::empty({20}, DType::f32, test_device()), "refused by the test");
  REQUIRE(account.current().bytes == with_first.bytes);
  REQUIRE_ERROR(Timeline(test_device(), 1), "has an observer already");
  account.observe(nullptr);
  REQUIRE(account.current().total() - before.total() == Ledger::alignment);
}

TEST_CASE("host blocks are reserved once and handed out again", "[engine][memory]") {
  HostBlocks blocks;
  void* a = blocks.take(1000);
  void* b = blocks.take(5000);
  REQUIRE(blocks.statistics().reserved == 1024 + 5120);  // steps of 512 / 8, of 4096 / 8
  REQUIRE(blocks.statistics().allocated == 1024 + 5120);
  REQUIRE(blocks.statistics().fragmentation() == 0);
  blocks.give(a, 1000);
  REQUIRE(blocks.statistics().allocated == 5120);
  REQUIRE(blocks.statistics().largest_free == 1024);
  REQUIRE(blocks.take(1010) == a);
  blocks.give(a, 1010);
  blocks.give(b, 5000);
  REQUIRE(blocks.statistics().fragmentation() == Approx(1024.0 / (1024 + 5120)));
  REQUIRE(blocks.release_cached() == 1024 + 5120);
  REQUIRE(blocks.statistics().reserved == 0);
  REQUIRE(blocks.statistics().segments == 0);
}

TEST_CASE("the sanitizer sees what lies beyond a host block, and in an idle one",
          "[engine][memory]") {
  if (!sanitized()) return;
  HostBlocks blocks;
  for (const size_t bytes : {size_t{1000}, size_t{1021}}) {  // the same block
    auto* const block = static_cast<char*>(blocks.take(bytes));
    REQUIRE(!__asan_region_is_poisoned(block, bytes));
    for (size_t i = bytes; i < 1024; ++i) REQUIRE(__asan_address_is_poisoned(block + i));
    blocks.give(block, bytes);
    REQUIRE(__asan_address_is_poisoned(block));
  }
}

TEST_CASE("idle host blocks go back before others are taken beside them", "[engine][memory]") {
  constexpr size_t MiB = size_t{1} << 20;  // these sizes are size classes
  HostBlocks blocks;
  void* large = blocks.take(64 * MiB);
  blocks.give(large, 64 * MiB);
  // If the idle 64 MiB stayed, 64 + 48 MiB would be held, although never more than 64 were in use.
  void* other = blocks.take(48 * MiB);
  REQUIRE(blocks.statistics().reserved == 48 * MiB);
  // An idle block stays if all blocks together are no larger than the most memory in use so far,
  // plus the allowance.
  void* small = blocks.take(16 * MiB);
  blocks.give(small, 16 * MiB);
  REQUIRE(blocks.statistics().reserved == 64 * MiB);
  REQUIRE(blocks.take(16 * MiB) == small);
  blocks.give(small, 16 * MiB);
  void* third = blocks.take(20 * MiB);
  REQUIRE(blocks.statistics().reserved == 84 * MiB);
  blocks.give(third, 20 * MiB);
  // 36 MiB are idle now. With 28 more, 112 would be held, but at most 76 + 16 may be.
  void* fourth = blocks.take(28 * MiB);
  REQUIRE(blocks.statistics().reserved == (48 + 16 + 28) * MiB);
  blocks.give(fourth, 28 * MiB);
  blocks.give(other, 48 * MiB);
}

TEST_CASE("a timeline has every change and adds up to the peak", "[engine][memory]") {
  for (const Device device : {test_device(), meta_of(test_device())}) {
    const auto peak_of_two_steps = [&](Timeline* timeline) {
      Learner learner(device);
      ledger(device).reset_peak();
      for (int i = 0; i < 2; ++i) learner.step();
      const size_t peak = ledger(device).peak().total();
      if (timeline) timeline->stop();
      return peak;
    };
    peak_of_two_steps(nullptr);
    const size_t unrecorded = peak_of_two_steps(nullptr);
    Timeline timeline(device, 3);
    const size_t peak = peak_of_two_steps(&timeline);
    REQUIRE(peak == unrecorded);

    const auto& spans = timeline.spans();
    const auto first_forward = std::ranges::find(spans, Phase::forward, &Timeline::Span::phase);
    REQUIRE(first_forward != spans.end());
    Usage usage = timeline.initial();
    size_t highest = 0;
    double last_us = 0;
    std::set<uint64_t> alive;
    for (const auto& [at, event, allocation] : timeline.changes()) {
      size_t& bytes = usage[allocation.category];
      if (event == Timeline::Event::allocate) {
        bytes += allocation.bytes;
        REQUIRE(alive.insert(allocation.number).second);
      } else {
        REQUIRE(bytes >= allocation.bytes);
        bytes -= allocation.bytes;
        REQUIRE(alive.erase(allocation.number) == 1);
      }
      REQUIRE(at.us >= last_us);
      last_us = at.us;
      if (at.us >= first_forward->begin.us) highest = std::max(highest, usage.total());
    }
    REQUIRE(highest == peak);
    // At the end of the timeline the learner's parameters are alive, and no activations.
    const size_t parameters =
        48 + 16 + 720 + 16;  // each tensor rounded up to cache lines of 16 floats
    REQUIRE(usage[Category::parameters] - timeline.initial()[Category::parameters] ==
            parameters * sizeof(float));
    REQUIRE(usage[Category::activations] == timeline.initial()[Category::activations]);
  }
}

TEST_CASE("a timeline's phases nest and are numbered, up to the last step", "[engine][memory]") {
  Timeline timeline(Device::meta, 2);
  Learner learner(Device::meta);
  for (int i = 0; i < 3; ++i) learner.step();
  std::string story;
  std::vector<double> ends;
  double last_begin = 0;
  for (const auto& [phase, begin, end_us] : timeline.spans()) {
    story += fmt::format("{} {}.{}|", name(phase), begin.step, begin.micro_batch);
    REQUIRE(begin.us >= last_begin);
    last_begin = begin.us;
    REQUIRE(end_us >= begin.us);
    while (!ends.empty() && ends.back() <= begin.us) ends.pop_back();
    if (!ends.empty()) REQUIRE(end_us <= ends.back());
    ends.push_back(end_us);
  }
  // The third step is not recorded.
  REQUIRE(story ==
          "setup 0.0|forward 0.0|backward 0.0|forward 0.1|backward 0.1|step 0.2|"
          "forward 1.0|backward 1.0|forward 1.1|backward 1.1|step 1.2|");
  // After its last step another timeline may begin. Two at a time are refused.
  const Timeline next(Device::meta, 1);
  REQUIRE_ERROR(Timeline(Device::meta_cuda, 1), "recorded already");
}

}  // namespace accrue::test
