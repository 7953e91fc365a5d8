// Checkpoints as files: they are written whole or not at all, damage is found, and old ones are
// removed in time.

#include "data/checkpoint_directory.h"

#include <cmath>
#include <fstream>
#include <limits>

#include "tests/support/catch.h"
#include "tests/support/files.h"

namespace accrue::test {
namespace {

namespace fs = std::filesystem;
using Steps = std::vector<int64_t>;

CheckpointRecord example_record() {
  return {.counters = {{"epoch", int64_t{3}},
                       {"seed", std::numeric_limits<int64_t>::min()},
                       {"sum", 0.1 + 0.2},
                       {"whole", 2.0},
                       {"best", std::numeric_limits<double>::infinity()},
                       {"low", -std::numeric_limits<double>::infinity()}},
          .decisive = {{"--lr", "0.001"}},
          .rounding = {{"--micro-batch", "4"}},
          .origin = {{"command", "accrue train \"quoted\" \xc3\xa9"}}};
}

NamedTensors example_tensors() { return {{"w", Tensor::from(std::vector<float>{1, 2, 3}, {3})}}; }

void write_example(const fs::path& directory) {
  write_checkpoint(directory, example_record(), {example_tensors(), {}}, {example_tensors(), {}});
}

void add(CheckpointDirectory& checkpoints, int64_t step, int64_t keep = 3) {
  checkpoints.add(step, keep, write_example);
}

std::vector<std::string> reasons_for_none(const CheckpointDirectory& checkpoints) {
  std::vector<std::string> reasons;
  REQUIRE_ERROR(checkpoints.latest([&](const std::string& r) { reasons.push_back(r); }),
                "is whole:");
  return reasons;
}

}  // namespace

TEST_CASE("a checkpoint's record comes back as it was written", "[checkpoint]") {
  const TemporaryDirectory directory;
  write_example(directory.path());
  const CheckpointRecord found = read_checkpoint(directory.path()), written = example_record();
  REQUIRE(found.counters == written.counters);
  REQUIRE(found.decisive == written.decisive);
  REQUIRE(found.rounding == written.rounding);
  REQUIRE(found.origin == written.origin);
  CheckpointRecord with_nan;
  with_nan.counters["nan"] = std::nan("");
  write_checkpoint(directory.path(), with_nan, {}, {});
  REQUIRE(std::isnan(std::get<double>(read_checkpoint(directory.path()).counters.at("nan"))));
}

TEST_CASE("any byte of a checkpoint that is changed, missing or added is noticed", "[checkpoint]") {
  const TemporaryDirectory directory;
  write_example(directory.path());
  for (const char* name : {checkpoint_record, checkpoint_weights, checkpoint_state}) {
    const std::string good = read_file(directory.path() / name);
    const auto refused = [&](const std::string& content) {
      directory.write(name, content);
      REQUIRE_ERROR(read_checkpoint(directory.path()), directory.path().string());
    };
    for (size_t i = 0; i < good.size(); ++i) {
      INFO(name << " at " << i);
      std::string damaged = good;
      damaged[i] ^= 4;
      // Whitespace between JSON's tokens means nothing. No other byte may change.
      const bool blank = std::isspace(static_cast<unsigned char>(good[i])) != 0;
      if (name == std::string(checkpoint_record) && blank) continue;
      refused(damaged);
    }
    // Without its last line break the record is still whole.
    for (const size_t bytes : {size_t{0}, size_t{1}, good.size() / 2, good.size() - 2})
      refused(good.substr(0, bytes));
    refused(good + "x");
    fs::remove(directory.path() / name);
    REQUIRE_ERROR(read_checkpoint(directory.path()), "No such file");
    directory.write(name, good);
    read_checkpoint(directory.path());
  }
  std::string other = read_file(directory.path() / checkpoint_record);
  other.replace(other.find("\"version\": 1"), 12, "\"version\": 2");
  directory.write(checkpoint_record, other);
  REQUIRE_ERROR(read_checkpoint(directory.path()), "version 2; this program reads version 1");
}

TEST_CASE("the latest whole checkpoint is found, and damaged ones are named", "[checkpoint]") {
  const TemporaryDirectory directory;
  CheckpointDirectory checkpoints(directory.path() / "made/here");
  const auto no_damage = [](const std::string& reason) { FAIL(reason); };
  REQUIRE(!checkpoints.latest(no_damage));
  for (const int64_t step : {5, 10, 99'999'999, 100'000'000}) add(checkpoints, step, 9);
  REQUIRE(checkpoints.steps() == Steps{5, 10, 99'999'999, 100'000'000});
  REQUIRE(checkpoints.latest(no_damage)->directory == checkpoints.at(100'000'000));
  fs::remove(checkpoints.at(100'000'000) / checkpoint_state);
  fs::resize_file(checkpoints.at(99'999'999) / checkpoint_weights, 10);
  std::vector<std::string> reasons;
  const auto found = checkpoints.latest([&](const std::string& r) { reasons.push_back(r); });
  REQUIRE(found->directory == checkpoints.at(10));
  REQUIRE(reasons.size() == 2);
  REQUIRE_THAT(reasons[0], ContainsSubstring("state.safetensors': No such file"));
  REQUIRE_THAT(reasons[1], ContainsSubstring("weights.safetensors is not as it was written"));
  for (const int64_t step : {5, 10}) fs::remove(checkpoints.at(step) / checkpoint_record);
  REQUIRE(reasons_for_none(checkpoints).size() == 4);
}

TEST_CASE("a checkpoint that cannot be read is not taken for damaged", "[checkpoint]") {
  const TemporaryDirectory directory;
  CheckpointDirectory checkpoints(directory.path());
  for (const int64_t step : {10, 20}) add(checkpoints, step);
  // Makes the system refuse to read the file. Taking the permission away would not stop the
  // superuser.
  const fs::path state = checkpoints.at(20) / checkpoint_state, elsewhere = directory.path() / "s";
  fs::rename(state, elsewhere);
  fs::create_symlink(state, state);
  REQUIRE_ERROR(checkpoints.latest([](const std::string& reason) { FAIL(reason); }),
                "Too many levels of symbolic links");
  fs::rename(elsewhere, state);
  REQUIRE(checkpoints.latest([](const auto&) {})->directory == checkpoints.at(20));
}

TEST_CASE("a new checkpoint replaces what the run has written, not more", "[checkpoint]") {
  const TemporaryDirectory directory;
  {
    CheckpointDirectory checkpoints(directory.path());
    for (const int64_t step : {10, 20, 30, 40}) add(checkpoints, step, 3);
    REQUIRE(checkpoints.steps() == Steps{20, 30, 40});
  }
  // 40 is damaged, so the run continues from 30. Later checkpoints of other runs are in the way.
  CheckpointDirectory checkpoints(directory.path());
  fs::remove(checkpoints.at(40) / checkpoint_record);
  directory.write("step-00000025/notes.txt", "the user's");
  directory.write("step-00000099/notes.txt", "the user's");
  CheckpointRecord other = example_record();
  other.decisive["--lr"] = "0.1";
  fs::create_directory(checkpoints.at(15));
  write_checkpoint(checkpoints.at(15), other, {example_tensors(), {}}, {example_tensors(), {}});
  checkpoints.adopt(example_record().decisive);
  add(checkpoints, 35, 1);
  REQUIRE(checkpoints.steps() == Steps{15, 25, 35, 40, 99});
  add(checkpoints, 40, 2);
  REQUIRE(checkpoints.steps() == Steps{15, 25, 35, 40, 99});
  read_checkpoint(checkpoints.at(40));
  REQUIRE(fs::exists(directory.path() / "step-00000040.skipped" / checkpoint_weights));
  add(checkpoints, 40, 2);  // its own
  REQUIRE(!fs::exists(directory.path() / "step-00000040.skipped-2"));
  directory.write("step-x/notes.txt", "the user's");
  add(checkpoints, 50, 1);
  REQUIRE(checkpoints.steps() == Steps{15, 25, 50, 99});
  // A new best checkpoint may have an earlier step than the last best one.
  add(checkpoints, 45, 1);
  REQUIRE(checkpoints.steps() == Steps{15, 25, 45, 99});
  REQUIRE_ERROR(add(checkpoints, 60, 0), "expected 1 or more");
}

TEST_CASE("a checkpoint that cannot be written leaves those before it", "[checkpoint]") {
  const TemporaryDirectory directory;
  CheckpointDirectory checkpoints(directory.path());
  add(checkpoints, 10, 1);
  REQUIRE_ERROR(checkpoints.add(20, 1,
                                [](const fs::path& made) {
                                  write_safetensors(made / checkpoint_weights, example_tensors());
                                  fail("the disk is full");
                                }),
                "no checkpoint of step 20 was written");
  REQUIRE(checkpoints.steps() == Steps{10});
  REQUIRE(std::distance(fs::directory_iterator(directory.path()), {}) == 1);
}

TEST_CASE("a directory of checkpoints belongs to one run, which cleans it", "[checkpoint]") {
  const TemporaryDirectory directory;
  directory.write(".accrue-checkpoint-0/weights.safetensors", "half of it");
  {
    const CheckpointDirectory first(directory.path());
    REQUIRE(fs::is_empty(directory.path()));
    directory.write(".accrue-checkpoint-notes", "the user's");
    REQUIRE_ERROR(CheckpointDirectory(directory.path()), "another run writes");
  }
  const CheckpointDirectory second(directory.path());
  REQUIRE(fs::exists(directory.path() / ".accrue-checkpoint-notes"));
  REQUIRE_ERROR(CheckpointDirectory(directory.write("file", "")), "file");
  REQUIRE_ERROR(CheckpointDirectory("/proc/none"), "cannot make directories");
}

}  // namespace accrue::test
