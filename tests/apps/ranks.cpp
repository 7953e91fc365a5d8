// The program under mpirun.

#include "core/cuda.h"
#include "tests/support/child.h"
#include "tests/support/cli.h"
#include "tests/support/skipped.h"

namespace accrue::test {
namespace {

bool can_run_ranks() {
  static const bool can = [] {
    if (succeed("info --model mlp-small").find("MPI: none") != std::string::npos) {
      say_skipped("the program is built without MPI");
      return false;
    }
    if (shell("command -v mpirun").status != 0) {
      say_skipped("there is no mpirun");
      return false;
    }
    return true;
  }();
  return can;
}

// Open MPI needs variables that allow root, in a container, and ranks that share processors; since
// version 5 the latter is another variable. It leaves memory allocated at its end, which is not a
// leak of ours. `wrapper` is a command that runs each rank.
Output mpirun(int ranks, const std::string& arguments, const std::string& wrapper = "") {
  return shell(
      "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
      "OMPI_MCA_rmaps_base_oversubscribe=1 "
      "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe "
      "ASAN_OPTIONS=\"$ASAN_OPTIONS:detect_leaks=0\"; "
      "timeout 300 mpirun -n " +
      std::to_string(ranks) + " " + wrapper + program_path + " " + arguments);
}

const std::string ranked_training =
    "train --device cpu --model mlp-small --lr 0.05 --effective-batch 100 --micro-batch 16 ";
const std::string by_sgd = "--optimizer sgd ", twelve_steps = "--steps 12 ";

std::string few() { return " --data " + few_digits().path().string() + " "; }

// Runs one process, without ranks.
std::string alone(const std::string& arguments) {
  const Output output = shell(program_path + " " + arguments);
  INFO(output.text);
  REQUIRE(output.status == 0);
  return output.text;
}

size_t times_in(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

// Rank 1 of three stops itself when training has begun. Requires that the other ranks then end.
void require_end_of_hanging_ranks(const std::string& training) {
  const Folder folder;
  const std::string log = folder / "log.json";
  const std::string stops_rank_1 = fmt::format(
      "sh -c '[ $OMPI_COMM_WORLD_RANK$PMI_RANK = 1 ] && (for i in $(seq 900); do [ -s {} ] && "
      "break; sleep 0.1; done; sleep 1; kill -STOP $$) & exec \"$@\"' -- ",
      log);
  const Output output =
      mpirun(3, training + few() + "--rank-timeout 5 --log-every 1 --epochs 100000 --json " + log,
             stops_rank_1);
  INFO(output.text);
  REQUIRE(output.status != 0);
  REQUIRE(output.status != 124);
  // "step 1/1400000" if mpirun gives ranks a terminal, "[Step 1]" if not.
  REQUIRE_THAT(output.text, ContainsSubstring("tep 1"));
  REQUIRE(times_in(output.text, "rank 1 of 3, on ") == 1);
  REQUIRE_THAT(output.text, ContainsSubstring("no sign of life for 5 s (--rank-timeout)"));
}

}  // namespace

TEST_CASE("the program trains under mpirun as it does alone", "[.][mpi]") {
  if (!can_run_ranks()) return;
  const Folder folder;
  const std::string one = folder / "one.safetensors";
  alone(ranked_training + by_sgd + twelve_steps + few() + "--save " + one + " --json " +
        (folder / "one.jsonl"));
  const auto steps = json_steps(folder / "one.jsonl");
  for (const int R : {2, 3}) {
    const std::string weights = folder / fmt::format("{}.safetensors", R),
                      log = folder / fmt::format("{}.jsonl", R);
    const Output output = mpirun(R, ranked_training + by_sgd + twelve_steps + few() + "--save " +
                                        weights + " --json " + log);
    INFO(output.text);
    REQUIRE(output.status == 0);
    // Only one rank prints and writes.
    REQUIRE(times_in(output.text, "test accuracy") == 1);
    REQUIRE_THAT(output.text, ContainsSubstring("predicted to the byte"));
    // Twelve steps of 0.05; the gradients are sums of at most 100 + 784 terms below 1.
    REQUIRE(largest_difference(one, weights) <= 12 * 0.05 * 884 * 0x1p-24);
    const auto ranked_steps = json_steps(log);
    REQUIRE(ranked_steps.size() == steps.size());
    for (size_t i = 0; i < steps.size(); ++i) {
      REQUIRE(ranked_steps[i]["samples"] == steps[i]["samples"]);
      REQUIRE(double(ranked_steps[i]["loss"]) == Approx(double(steps[i]["loss"])).epsilon(1e-5));
    }
    const std::string again = folder / "again.safetensors",
                      apart = R == 2 ? "--rank-overlap off " : "";
    REQUIRE(mpirun(R, ranked_training + by_sgd + twelve_steps + few() + apart + "--save " + again)
                .status == 0);
    REQUIRE(file_bytes(again) == file_bytes(weights));
  }
}

TEST_CASE("ranks of the program train without whole gradients as one process does", "[.][mpi]") {
  if (!can_run_ranks()) return;
  const Folder folder;
  const auto same = [&](const std::string& one, const std::string& ranked) {
    const std::string by_one = folder / "one.safetensors", by_three = folder / "three.safetensors";
    const std::string training = "train --device cpu --model mlp-small --effective-batch 96 ";
    alone(training + twelve_steps + few() + one + " --save " + by_one);
    const Output output =
        mpirun(3, training + twelve_steps + few() + ranked + " --save " + by_three);
    INFO(output.text);
    REQUIRE(output.status == 0);
    REQUIRE_THAT(output.text, ContainsSubstring("predicted to the byte"));
    // The same bound as above. A larger eps keeps Adam from dividing by nearly nothing.
    REQUIRE(largest_difference(by_one, by_three) <= 12 * 0.05 * 884 * 0x1p-24);
  };
  const std::string adam = "--optimizer adam --eps 1e-3 --lr 0.001 ";
  same(adam + "--strategy moments --micro-batch 16", adam + "--strategy moments --micro-batch 16");
  // simclr compares all answers of a window, so the ranks exchange them.
  const std::string simclr =
      adam + "--objective simclr --embedding-size 8 --augment crop=0.6,rotate --micro-batch 16";
  same(simclr, simclr);
  // An epoch's last window has fewer samples than a micro-batch.
  same(adam + "--micro-batch 96", adam + "--strategy step-in-backward --micro-batch 32");
}

TEST_CASE("ranks train a network in an ONNX file as one process does", "[.][mpi]") {
  if (!can_run_ranks()) return;
  const Folder folder;
  const std::string weights = folder / "w.safetensors", network = folder / "net.onnx",
                    one = folder / "one.onnx", two = folder / "two.onnx";
  alone("train --device cpu --model cnn --width 0.25 --steps 1 --save " + weights + few());
  alone("export --weights " + weights + " --out " + network);
  const std::string training = "train --device cpu --model " + network + few() +
                               "--steps 3 --effective-batch 20 --micro-batch 6 --save ";
  alone(training + one);
  const Output output = mpirun(2, training + two);
  INFO(output.text);
  REQUIRE(output.status == 0);
  const std::string eval = "eval --device cpu --split test" + few() + "--model ";
  REQUIRE(alone(eval + one) == alone(eval + two));
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

TEST_CASE("ranks that share the optimizer's state need the planned memory each", "[.][mpi]") {
  if (!can_run_ranks()) return;
  const Folder folder;
  const std::string model =
      "--device cpu --model cnn --optimizer adamw --ema 0.99 --effective-batch 48 " + few();
  const auto optimizer_bytes = [&](const std::string& name, const std::string& more) {
    const std::string log = folder / (name + ".jsonl"), plan = folder / (name + ".plan");
    const std::string weights = folder / (name + ".safetensors");
    const Output output =
        mpirun(3, "train " + model + more + " --micro-batch 16 --steps 3 --save " + weights +
                      " --log-dir " + (folder / name));
    INFO(output.text);
    REQUIRE(output.status == 0);
    REQUIRE_THAT(output.text, ContainsSubstring("predicted to the byte"));
    const auto peak =
        nlohmann::json::parse(file_bytes(folder / name + "/summary.json"))["peak_bytes"];
    alone("plan " + model + more +
          "--memory 1GiB --ranks 3 --strategy fused --recompute none --json " + plan);
    // The plan takes a rank's whole share at once.
    const auto planned = nlohmann::json::parse(file_bytes(plan))["recommended"];
    REQUIRE(planned["micro_batch"] == 16);
    REQUIRE(planned["peak_bytes"] == peak["total"]);
    return peak["optimizer"].get<size_t>();
  };
  const size_t whole = optimizer_bytes("whole", ""),
               shard = optimizer_bytes("shard", "--shard-optimizer ");
  // A shard has three tensors, m, v and the average, and Adam's three numbers.
  REQUIRE(shard <= (whole - 64) / 3 + 3 * 64 + 64);
  REQUIRE(file_bytes(folder / "whole.safetensors") == file_bytes(folder / "shard.safetensors"));
  REQUIRE(file_bytes(folder / "whole.ema.safetensors") ==
          file_bytes(folder / "shard.ema.safetensors"));
  // A model as small as this one needs the most memory while its state is written to a checkpoint
  // in pieces.
  const Output output =
      mpirun(2,
             "train --device cpu --model mlp-small --optimizer adam --shard-optimizer --steps 1 "
             "--effective-batch 2 --micro-batch 1 --checkpoint-dir " +
                 (folder / "checkpoints") + few());
  INFO(output.text);
  REQUIRE_THAT(output.text, ContainsSubstring("predicted to the byte"));
}

namespace {

bool can_run_ranks_on_gpus() {
  if (!can_run_ranks()) return false;
  if (cuda::unavailable_reason().empty()) return true;
  say_skipped(cuda::unavailable_reason());
  return false;
}

// True if the program is built for the runner, where each process has its own GPU.
bool program_is_on_runner() {
  return succeed("info --model mlp-small").find("SIMT runner") != std::string::npos;
}

const std::string cuda_training =
    "train --device cuda --model mlp-small --effective-batch 48 --lr 0.01 --ema 0.9 ";

}  // namespace

// The ranks exchange by NCCL if each of them has its own GPU, as on the runner, and through the
// host.
TEST_CASE("ranks of the program train on GPUs as one does", "[.][mpi-cuda]") {
  if (!can_run_ranks_on_gpus()) return;
  const Folder folder;
  const std::string training = cuda_training + few();
  enum Part : unsigned { by_way_of_host = 1, in_parts_of_a_run = 2, every_part = 3 };
  const auto same = [&](const std::string& one, const std::string& ranked, unsigned parts) {
    INFO(one << " | " << ranked);
    const std::string by_one = folder / "one.safetensors", by_ranks = folder / "two.safetensors",
                      by_host = folder / "host.safetensors", again = folder / "again.safetensors",
                      directory = folder / "checkpoints";
    alone(training + "--steps 3 " + one + " --save " + by_one);
    const auto ranks = [&](const std::string& more) {
      const Output output = mpirun(2, training + ranked + more);
      INFO(output.text);
      REQUIRE(output.status == 0);
      REQUIRE_THAT(output.text, ContainsSubstring("predicted to the byte"));
      return output.text;
    };
    const std::string text = ranks(" --steps 3 --save " + by_ranks);
    if (program_is_on_runner()) REQUIRE_THAT(text, ContainsSubstring("exchange by NCCL 2"));
    // The bound of the test on the cpu, for three steps.
    REQUIRE(largest_difference(by_one, by_ranks) <= 3 * 0.01 * 884 * 0x1p-24);
    if (parts & by_way_of_host) {
      REQUIRE_THAT(ranks(" --steps 3 --rank-exchange host --save " + by_host),
                   ContainsSubstring("exchange through the host"));
      REQUIRE(file_bytes(by_host) == file_bytes(by_ranks));
    }
    if (!(parts & in_parts_of_a_run)) return;
    ranks(" --steps 2 --resume --checkpoint-dir " + directory);
    ranks(" --steps 3 --resume --checkpoint-dir " + directory + " --save " + again);
    REQUIRE(file_bytes(again) == file_bytes(by_ranks));
    REQUIRE(file_bytes(folder / "again.ema.safetensors") ==
            file_bytes(folder / "two.ema.safetensors"));
    fs::remove_all(directory);
  };
  const std::string adam = "--optimizer adam --eps 1e-3 ", sgd = "--optimizer sgd ",
                    in_parts = "--micro-batch 16 ";
  same(sgd + in_parts, sgd + in_parts + "--rank-overlap on",
       reduced() ? by_way_of_host : every_part);
  same(adam + in_parts, adam + in_parts + "--shard-optimizer",
       reduced() ? in_parts_of_a_run : every_part);
  if (reduced()) return;
  const std::string moments = adam + in_parts + "--strategy moments";
  same(moments, moments, every_part);
  same(adam + "--micro-batch 48", adam + "--micro-batch 24 --strategy step-in-backward",
       every_part);
}

TEST_CASE("ranks that share a GPU exchange through the host", "[.][mpi-cuda]") {
  if (!can_run_ranks_on_gpus()) return;
  const Output output =
      mpirun(2, cuda_training + few() + "--optimizer sgd --micro-batch 16 --steps 1",
             "env SIMT_DEVICE=7 CUDA_VISIBLE_DEVICES=0 ");
  INFO(output.text);
  REQUIRE(output.status == 0);
  REQUIRE_THAT(output.text, ContainsSubstring("exchange through the host"));
}

TEST_CASE("a rank on the second GPU may keep a window's activations", "[.][mpi-cuda]") {
  if (!can_run_ranks_on_gpus()) return;
  if (!program_is_on_runner() && cuda::device_count() < 2) return say_skipped("there is one GPU");
  const std::string training =
      "train --device cuda --model cnn-bn --batch-norm window --batch-norm-by keep " + few() +
      "--effective-batch 8 --micro-batch 2 --steps 1";
  const Output output = mpirun(2, training, "env SIMT_DEVICES=2 ");
  INFO(output.text);
  REQUIRE(output.status == 0);
  REQUIRE_THAT(output.text, ContainsSubstring("2 GPUs on this machine"));
}

TEST_CASE("ranks on GPUs need the planned memory each", "[.][mpi-cuda]") {
  if (!can_run_ranks_on_gpus()) return;
  const Folder folder;
  const std::string model =
      "--device cuda --model mlp-small --optimizer adamw --effective-batch 48 " + few();
  for (const std::string exchange : {"auto", "host"}) {
    if (reduced() && exchange == "host") continue;  // other cases check this prediction, too
    INFO(exchange);
    const std::string plan = folder / "plan", log = folder / exchange;
    const std::string by = " --rank-exchange " + exchange;
    const Output output =
        mpirun(3, "train " + model + by + " --micro-batch 16 --steps 3 --log-dir " + log);
    INFO(output.text);
    REQUIRE(output.status == 0);
    alone("plan " + model + by +
          " --memory 1GiB --ranks 3 --strategy fused --recompute none --json " + plan);
    const auto planned = nlohmann::json::parse(file_bytes(plan))["recommended"];
    REQUIRE(planned["micro_batch"] == 16);
    const bool by_nccl = output.text.find("exchange by NCCL") != std::string::npos;
    REQUIRE((by_nccl || exchange == "host" || !program_is_on_runner()));
    if (by_nccl == (exchange == "auto"))  // a plan is for as many GPUs as ranks
      REQUIRE(planned["peak_bytes"] ==
              nlohmann::json::parse(file_bytes(log + "/summary.json"))["peak_bytes"]["total"]);
  }
}

// The other ranks' GPUs wait for the GPU of the rank that hangs.
TEST_CASE("ranks on GPUs end when one of them hangs", "[.][mpi-cuda]") {
  if (!can_run_ranks_on_gpus()) return;
  require_end_of_hanging_ranks(cuda_training + "--micro-batch 16 ");
}

TEST_CASE("ranks of the program share what eval scores", "[.][mpi]") {
  if (!can_run_ranks()) return;
  const Folder folder;
  const std::string weights = folder / "w.safetensors";
  alone(ranked_training + by_sgd + twelve_steps + few() + "--save " + weights);
  const std::string scoring = "eval --device cpu --model mlp-small --init " + weights + few();
  const std::string by_one = alone(scoring);
  const Output output = mpirun(3, scoring);
  INFO(output.text);
  REQUIRE(output.status == 0);
  for (const char* split : {"training", "test"}) {
    const size_t begin = by_one.find(fmt::format("{} accuracy", split));
    REQUIRE(begin != std::string::npos);
    REQUIRE_THAT(output.text,
                 ContainsSubstring(by_one.substr(begin, by_one.find('\n', begin) - begin)));
    REQUIRE(times_in(output.text, fmt::format("{} accuracy", split)) == 1);
  }
}

TEST_CASE("ranks of the program train a font as one does", "[.][mpi]") {
  if (!can_run_ranks()) return;
  const Folder folder;
  const auto training = [&](const std::string& name) {
    return "font train --device cpu --data strokes --image-size 32 --width 0.125 --optimizer sgd "
           "--micro-batch 2 --effective-batch 6 --steps 2 --sample-every 2 --save " +
           (folder / (name + ".safetensors")) + " --log-dir " + (folder / name);
  };
  alone(training("one"));
  for (const int R : {2, 3}) {
    const std::string name = fmt::format("{}", R);
    const Output output = mpirun(R, training(name));
    INFO(output.text);
    REQUIRE(output.status == 0);
    REQUIRE_THAT(output.text, ContainsSubstring("predicted to the byte"));
    REQUIRE(times_in(output.text, "test SSIM") == 1);
    REQUIRE(fs::exists(folder / name + "/samples/window-000002.png"));
    // Two steps of 0.001; the gradients are sums of at most 2^16 terms, each below 1. After two
    // steps no kink of a loss has amplified the rounding yet.
    REQUIRE(largest_difference(folder / "one.safetensors", folder / (name + ".safetensors")) <=
            2 * 0.001 * 0x1p16 * 0x1p-24);
  }
}

TEST_CASE("ranks end when one of them hangs", "[.][mpi]") {
  if (!can_run_ranks()) return;
  require_end_of_hanging_ranks(ranked_training);
}

TEST_CASE("an error under mpirun is reported and ends all ranks", "[.][mpi]") {
  if (!can_run_ranks()) return;
  const auto fails = [](const std::string& arguments, const std::string& part) {
    const Output output = mpirun(2, arguments);
    INFO(arguments << "\n" << output.text);
    REQUIRE(output.status != 0);
    REQUIRE(output.status != 124);  // the time limit's
    REQUIRE_THAT(output.text, ContainsSubstring(part));
    return output.text;
  };
  fails(ranked_training + few() + "--strategy moments --optimizer adam --shard-optimizer",
        "every rank needs all of it");
  fails(ranked_training + few() + "--strategy step-in-backward",
        "on 2 ranks: expected micro-batches of 50");
  fails(ranked_training + few() + "--rank-overlap on --on-oom split", "on-oom fail");
  fails(ranked_training + few() + "--save /nowhere/at/all", "/nowhere/at/all");
  fails(ranked_training + few() + "--measure-baseline", "--measure-baseline");
  // Before MPI has started, one rank prints for all.
  REQUIRE(times_in(fails("train --nonsense", "--nonsense"), "--nonsense") == 1);
  // Slurm runs the program several times, but the command does not mention ranks.
  REQUIRE_THAT(
      shell("SLURM_STEP_NUM_TASKS=2 " + program_path + " " + ranked_training + few() + "--steps 1")
          .text,
      ContainsSubstring("warning: Slurm runs this 2 times"));
  fails("info --model mlp-small", "expected train, eval or bench train, or no mpirun");
}

}  // namespace accrue::test
