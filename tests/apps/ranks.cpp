// The program under mpirun.

#include <iostream>

#include "tests/support/child.h"
#include "tests/support/cli.h"

namespace accrue::test {
namespace {

bool can_run_ranks() {
  static const bool can = [] {
    if (succeed("info --model mlp-small").find("MPI: none") != std::string::npos) {
      std::cout << "SKIPPED: the program is built without MPI\n";
      return false;
    }
    if (shell("command -v mpirun").status != 0) {
      std::cout << "SKIPPED: there is no mpirun\n";
      return false;
    }
    return true;
  }();
  return can;
}

// Open MPI wants to be told that root, in a container, is meant, and that ranks may share
// processors. The memory that it leaves allocated at its end is not ours to free.
Output mpirun(int ranks, const std::string& arguments) {
  return shell(
      "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
      "OMPI_MCA_rmaps_base_oversubscribe=1 ASAN_OPTIONS=\"$ASAN_OPTIONS:detect_leaks=0\"; "
      "timeout 300 mpirun -n " +
      std::to_string(ranks) + " " + program_path + " " + arguments);
}

const std::string ranked_training =
    "train --device cpu --model mlp-small --lr 0.05 --effective-batch 100 --micro-batch 16 ";
const std::string by_sgd = "--optimizer sgd ", twelve_steps = "--steps 12 ";

std::string few() { return " --data " + few_digits().path().string() + " "; }

size_t times_in(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("the program trains under mpirun as it does alone", "[.][mpi]") {
  if (!can_run_ranks()) return;
  const Folder folder;
  const std::string one = folder / "one.safetensors";
  const Output alone = shell(program_path + " " + ranked_training + by_sgd + twelve_steps + few() +
                             "--save " + one + " --json " + (folder / "one.jsonl"));
  INFO(alone.text);
  REQUIRE(alone.status == 0);
  const auto steps = json_steps(folder / "one.jsonl");
  for (const int R : {2, 3}) {
    const std::string weights = folder / fmt::format("{}.safetensors", R),
                      log = folder / fmt::format("{}.jsonl", R);
    const Output output = mpirun(R, ranked_training + by_sgd + twelve_steps + few() + "--save " +
                                        weights + " --json " + log);
    INFO(output.text);
    REQUIRE(output.status == 0);
    // One rank prints and writes.
    REQUIRE(times_in(output.text, "test accuracy") == 1);
    REQUIRE_THAT(output.text, ContainsSubstring("predicted to the byte"));
    // Twelve steps of 0.05, of gradients whose sums have at most 100 + 784 terms below 1.
    REQUIRE(largest_difference(one, weights) <= 12 * 0.05 * 884 * 0x1p-24);
    const auto ranked_steps = json_steps(log);
    REQUIRE(ranked_steps.size() == steps.size());
    for (size_t i = 0; i < steps.size(); ++i) {
      REQUIRE(ranked_steps[i]["samples"] == steps[i]["samples"]);
      REQUIRE(double(ranked_steps[i]["loss"]) == Approx(double(steps[i]["loss"])).epsilon(1e-5));
    }
    const std::string again = folder / "again.safetensors";
    REQUIRE(mpirun(R, ranked_training + by_sgd + twelve_steps + few() + "--save " + again).status ==
            0);
    REQUIRE(file_bytes(again) == file_bytes(weights));
  }
}

TEST_CASE("ranks of the program resume from the first one's checkpoints", "[.][mpi]") {
  if (!can_run_ranks()) return;
  const Folder folder;
  const std::string whole = folder / "whole.safetensors", rest = folder / "rest.safetensors",
                    directory = folder / "checkpoints";
  REQUIRE(mpirun(2, ranked_training + by_sgd + twelve_steps + few() + "--save " + whole).status ==
          0);
  const std::string saving =
      ranked_training + by_sgd + few() + "--resume --checkpoint-dir " + directory + " ";
  REQUIRE(mpirun(2, saving + "--steps 5").status == 0);
  const Output output = mpirun(2, saving + twelve_steps + "--save " + rest);
  INFO(output.text);
  REQUIRE(output.status == 0);
  REQUIRE(file_bytes(rest) == file_bytes(whole));
}

TEST_CASE("what goes wrong under mpirun is said and ends all ranks", "[.][mpi]") {
  if (!can_run_ranks()) return;
  const auto fails = [](const std::string& arguments, const std::string& part) {
    const Output output = mpirun(2, arguments);
    INFO(arguments << "\n" << output.text);
    REQUIRE(output.status != 0);
    REQUIRE(output.status != 124);  // the time limit's
    REQUIRE_THAT(output.text, ContainsSubstring(part));
    return output.text;
  };
  fails(ranked_training + few() + "--strategy moments --optimizer adam", "over several ranks");
  fails(ranked_training + few() + "--save /nowhere/at/all", "/nowhere/at/all");
  fails(ranked_training + few() + "--measure-baseline", "--measure-baseline");
  fails("font train --device cpu --data strokes", "expected one rank, got 2");
  // Before MPI has started one rank speaks for all.
  REQUIRE(times_in(fails("train --nonsense", "--nonsense"), "--nonsense") == 1);
  fails("info --model mlp-small", "expected train, or no mpirun");
}

}  // namespace accrue::test
