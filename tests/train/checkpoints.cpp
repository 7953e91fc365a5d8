// A run that stops and continues ends like a run that never stopped.

#include "train/checkpoints.h"

#include <cmath>
#include <thread>

#include "data/checkpoint_directory.h"
#include "images/digits.h"
#include "layers/models.h"
#include "tests/support/child.h"
#include "tests/support/image_files.h"

namespace accrue::test {
namespace {

// 40 training images: an epoch has 5 windows of 8, unless the options say otherwise.
struct Runs : Folder {
  Runs() { write_idx_data(*this); }

  std::string plain(const std::string& options) const {
    std::string command = "train --data " + path().string() + narrow() + options;
    for (const std::string batch : {"--micro-batch 4", "--effective-batch 8"})
      if (options.find(batch.substr(0, batch.find(' '))) == std::string::npos)
        command += " " + batch;
    return command;
  }
  std::string with_checkpoints(const std::string& options) const {
    return plain(options) + " --checkpoint-dir " + (*this / "checkpoints");
  }
  std::string resume(const std::string& options) const {
    return with_checkpoints(options) + " --resume";
  }
  // The final weights of a run.
  std::string end_of(const std::string& command) const {
    succeed(command + " --save " + (*this / "saved"));
    return file_bytes(*this / "saved") + file_bytes(*this / "saved.ema");
  }
  void forget() const { fs::remove_all(*this / "checkpoints"); }
};

// Requires that a run of 13 steps in parts ends like a whole one. The cuts lie within epochs of 5
// steps. The last of three parts resumes from a checkpoint before the end of the second.
void require_same_in_parts(const Runs& runs, const std::string& options, int parts = 3) {
  INFO(options);
  runs.forget();
  const std::string whole = runs.end_of(runs.plain(options + " --steps 13"));
  succeed(runs.with_checkpoints(options) + " --steps 4 --checkpoint-every 3");
  if (parts == 3) {
    succeed(runs.resume(options) + " --steps 9 --checkpoint-every 4 --keep-last 2");
    fs::remove_all(runs / "checkpoints/step-00000009");
  }
  REQUIRE(runs.end_of(runs.resume(options) + " --steps 13") == whole);
}

}  // namespace

TEST_CASE("a run in parts ends with the same bits, for models, strategies and K", "[checkpoint]") {
  const Runs runs;
  const std::string epochs = " --epochs 3 --dropout 0.3 --schedule plateau --lr-patience 0 ";
  const bool slow = on_runner() || sanitized();
  const int few = reduced() ? 2 : 3;
  for (const std::string model : {"mlp-small", "cnn-gn", "cnn-bn"})
    for (const std::string strategy : {"fused --optimizer adamw", "fused --optimizer sgd",
                                       "separate --optimizer sgd --momentum 0.9", "moments"})
      for (const std::string micro : {"3", "4", "8"}) {
        const bool small = model == "mlp-small", even = micro != "3";
        if ((!small && even) || (slow && (!small || even))) continue;
        // cnn-bn below is fused.
        if (reduced() && strategy != "moments") continue;
        require_same_in_parts(runs, "--model " + model + " --strategy " + strategy +
                                        " --micro-batch " + micro + epochs);
      }
  require_same_in_parts(runs, "--model mlp-small --strategy bf16-sum --micro-batch 3" + epochs,
                        few);
  // The loss scale causes overflows at first, and grows again later.
  require_same_in_parts(runs,
                        "--model mlp-small --precision fp16 --loss-scale-init 1e9 "
                        "--loss-scale-interval 2 --epochs 9",
                        few);
  if (sanitized() || reduced())
    require_same_in_parts(runs, "--model cnn-bn --micro-batch 3" + epochs, few);
  if (reduced()) return;
  require_same_in_parts(runs,
                        "--model mlp-small --ema 0.9 --schedule step --lr-every 3 --epochs 3");
  require_same_in_parts(runs,
                        "--model mlp-small --strategy step-in-backward --micro-batch 8" + epochs);
}

TEST_CASE("the log of a run in parts has every step once", "[checkpoint]") {
  const Runs runs;
  const std::string options = " --model mlp-small --epochs 3 --steps ";
  succeed(runs.plain(options + "12 --json " + (runs / "whole.jsonl")));
  const std::string log = " --checkpoint-every 4 --json " + (runs / "log.jsonl");
  succeed(runs.with_checkpoints(options + "7") + log);
  // The files as if the run had been killed after step 6, in the middle of a line.
  fs::remove_all(runs / "checkpoints/step-00000007");
  std::string text = file_bytes(runs / "log.jsonl");
  text.resize(text.rfind("{\"epoch\"") + 20);
  write(runs / "log.jsonl", Bytes(text.begin(), text.end()));
  succeed(runs.resume(options + "12") + log);
  const auto whole = json_lines(runs / "whole.jsonl"), parts = json_lines(runs / "log.jsonl");
  REQUIRE(parts.size() == whole.size());
  for (size_t i = 0; i < parts.size(); ++i)
    for (const char* key : {"step", "epoch", "loss", "grad_norm", "lr", "test"})
      REQUIRE(parts[i].value(key, nlohmann::json()) == whole[i].value(key, nlohmann::json()));
  // If the log is missing, a new one begins, with a warning.
  fs::remove(runs / "log.jsonl");
  const std::string said = succeed(runs.resume(options + "14") + log);
  REQUIRE_THAT(said, ContainsSubstring("has 0 of the 12 windows before the checkpoint"));
  REQUIRE(json_steps(runs / "log.jsonl").front()["step"] == 13);
}

TEST_CASE("another micro-batch goes on within rounding, and says so", "[checkpoint]") {
  const Runs runs;
  // Steps differ by at most lr / eps = 0.01 times the difference of the gradients
  // (tests/apps/cli.cpp).
  const std::string options = "--model mlp-small --epochs 2 --lr 1e-4 --eps 1e-2 --steps ";
  succeed(runs.plain(options + "8") + " --save " + (runs / "whole"));
  succeed(runs.with_checkpoints(options + "5"));
  const std::string said =
      succeed(runs.resume(options + "8 --micro-batch 2") + " --save " + (runs / "parts"));
  REQUIRE_THAT(said, ContainsSubstring("within rounding, not bit for bit"));
  REQUIRE_THAT(said, ContainsSubstring("micro-batch: 4 in the checkpoint, 2 here"));
  REQUIRE(largest_difference(runs / "whole", runs / "parts") < 1e-6);

  // AdamA's result depends on the split.
  runs.forget();
  succeed(runs.with_checkpoints(options + "5 --strategy moments"));
  refuse(
      runs.resume(options + "8 --strategy moments --micro-batch 2"),
      "strategy: moments of micro-batches of 4 in the checkpoint, moments of micro-batches of 2");
}

TEST_CASE("another run's checkpoints are refused with every difference", "[checkpoint]") {
  const Runs runs;
  const std::string options = "--model mlp-small --epochs 2 ";
  succeed(runs.with_checkpoints(options + "--steps 2"));
  for (const auto& [other, part] : std::vector<std::pair<std::string, std::string>>{
           {"--model mlp --epochs 2", "model: mlp-small in the checkpoint, mlp here"},
           {options + "--seed 2", "seed: 1 in the checkpoint, 2 here"},
           {options + "--effective-batch 4", "effective-batch: 8 in the checkpoint, 4 here"},
           {options + "--lr 1e-2 --optimizer sgd",
            "lr: 0.001 in the checkpoint, 0.01 here\n"
            "  optimizer: adam in the checkpoint, sgd"},
           {options + "--schedule cosine", "schedule: constant 0.001 in the checkpoint, cosine"},
           {options + "--clip-norm 1", "clip-norm: none in the checkpoint, 1 here"}})
    refuse(runs.resume(other), part);
  Bytes other_images = idx_images(40);
  other_images.back() ^= 1;
  write(runs / "train-images-idx3-ubyte", other_images);
  refuse(runs.resume(options), "data: ");
  refuse(runs.with_checkpoints(options), "or to resume that one");
  refuse("train --resume", "--resume requires --checkpoint-dir");
  refuse(runs.plain("") + " --checkpoint-dir /proc/none", "/proc/none");
}

TEST_CASE("data is identified by its content, wherever it lies", "[checkpoint]") {
  const Runs runs;
  const Folder elsewhere;
  const std::string options = "--model mlp-small --epochs 2 ";
  const auto resume_with = [&](const std::string& data) {
    return "train --micro-batch 4 --effective-batch 8 " + narrow() + options +
           " --checkpoint-dir " + (runs / "checkpoints") + " --resume --data " + data;
  };
  succeed(runs.with_checkpoints(options + "--steps 2"));
  REQUIRE_THAT(succeed(resume_with(runs.path().string() + "/./")), ContainsSubstring("resumed"));
  for (const auto& file : fs::directory_iterator(runs.path()))
    if (file.is_regular_file()) fs::rename(file.path(), elsewhere.path() / file.path().filename());
  REQUIRE_THAT(succeed(resume_with(elsewhere.path().string())), ContainsSubstring("resumed"));
}

TEST_CASE("a folder's classes are identified by their names", "[checkpoint]") {
  const Folder set, output;
  for (int i = 0; i < 24; ++i)
    set.TemporaryDirectory::write(fmt::format("{}/{}.png", i % 2 ? "cat" : "dog", i),
                                  png_of(some_planes(1, 8, 8)));
  const std::string train =
      "train --model mlp-small --width 0.25 --micro-batch 4 --epochs 2 --data " +
      set.path().string() + " --checkpoint-dir " + (output / "run");
  succeed(train + " --steps 1");
  // The content and the order of the classes stay the same.
  fs::rename(set / "cat", set / "bat");
  refuse(train + " --resume", "class names: cat, dog in the checkpoint, bat, dog here");
  fs::rename(set / "bat", set / "cat");
  succeed(train + " --resume");
}

TEST_CASE("a run that resumes does not read --init again", "[checkpoint]") {
  const Runs runs;
  const std::string init = " --init " + (runs / "start"), moved = " --init " + (runs / "moved");
  succeed(runs.plain("--model mlp-small --mean 0.2 --steps 1 --save " + (runs / "start")));
  const std::string whole = runs.end_of(runs.plain(init + " --steps 3"));
  const auto end_of_rest = [&](const std::string& options) {
    runs.forget();
    succeed(runs.with_checkpoints(init + " --steps 2"));
    if (options == moved) fs::rename(runs / "start", runs / "moved");
    const std::string end = runs.end_of(runs.resume(options + " --steps 3"));
    if (options == moved) fs::rename(runs / "moved", runs / "start");
    return end;
  };
  REQUIRE(end_of_rest(init) == whole);
  REQUIRE(end_of_rest(moved) == whole);
  REQUIRE(end_of_rest(" --init " + (runs / "gone")) == whole);
  REQUIRE(end_of_rest("--model mlp-small --mean 0.2 --init-scheme xavier") == whole);
  // Weights without metadata, such as PyTorch's.
  write_safetensors(runs / "plain", read_safetensors(runs / "start"));
  runs.forget();
  const std::string plain = "--model mlp-small --mean 0.2 --std 0.5 --init " + (runs / "plain");
  succeed(runs.with_checkpoints(plain + " --steps 2"));
  fs::remove(runs / "plain");
  REQUIRE(runs.end_of(runs.resume(plain + " --steps 3")) == whole);
  runs.forget();
  refuse(runs.resume(" --init " + (runs / "gone") + " --steps 3"), "gone");
}

TEST_CASE("a run does not end before its checkpoint", "[checkpoint]") {
  const Runs runs;
  const std::string options = "--model mlp-small ";
  succeed(runs.with_checkpoints(options + "--epochs 2 --steps 7"));
  refuse(runs.resume(options + "--epochs 2 --steps 6"),
         "to end after step 6, but the checkpoint that it would go on from has taken 7");
  refuse(runs.resume(options + "--epochs 1"),
         "to end after epoch 1, but the checkpoint that it would go on from is in epoch 2");
  succeed(runs.resume(options + "--epochs 2 --steps 7"));
  succeed(runs.resume(options + "--epochs 2"));
}

TEST_CASE("the test data identify a run that they decide", "[checkpoint]") {
  const Runs runs;
  const std::string options = "--model mlp-small --eval-every epoch --epochs ";
  const auto change_test = [&](int by) {
    Bytes labels = idx_labels(10);
    for (size_t i = 8; i < labels.size(); ++i)
      labels[i] = static_cast<unsigned char>((labels[i] + by) % 10);
    write(runs / "t10k-labels-idx1-ubyte", labels);
  };
  succeed(runs.with_checkpoints(options + "1 --patience 3"));
  change_test(5);
  refuse(runs.resume(options + "3 --patience 3"), "test data: 10 samples, images [10, 1, 28, 28]");
  refuse(runs.resume(options + "3 --keep-best"), "test data: ");
  // If the test data decides nothing, the run resumes, and the best score starts again.
  REQUIRE_THAT(succeed(runs.resume(options + "2")), ContainsSubstring("the best so far"));
  succeed(runs.resume(options + "3 --patience 3"));
}

TEST_CASE("a run may be prolonged unless that changes its past", "[checkpoint]") {
  const Runs runs;
  const std::string options = "--model mlp-small ";
  const std::string whole = runs.end_of(runs.plain(options + "--epochs 4"));
  succeed(runs.with_checkpoints(options + "--epochs 2"));
  REQUIRE(runs.end_of(runs.resume(options + "--epochs 4")) == whole);
  // Nothing is left to do: the result is the same again.
  REQUIRE(runs.end_of(runs.resume(options + "--epochs 4")) == whole);
  runs.forget();
  succeed(runs.with_checkpoints(options + "--schedule cosine --epochs 2"));
  refuse(runs.resume(options + "--schedule cosine --epochs 4"), "over 10 steps in the checkpoint");
}

TEST_CASE("damaged checkpoints are passed over with a word", "[checkpoint]") {
  const Runs runs;
  const std::string every = "--checkpoint-every 2 ", options = "--model mlp-small --epochs 3 ";
  const std::string whole = runs.end_of(runs.plain(options + "--steps 10"));
  REQUIRE_THAT(succeed(runs.resume(options + every + "--steps 8")),
               ContainsSubstring("no checkpoint in"));
  fs::resize_file(runs / "checkpoints/step-00000008/state.safetensors", 100);
  const std::string said =
      succeed(runs.resume(options + "--steps 10") + " --save " + (runs / "parts"));
  REQUIRE_THAT(said, ContainsSubstring("state.safetensors is not as it was written"));
  REQUIRE_THAT(said, ContainsSubstring("step-00000006"));
  REQUIRE(file_bytes(runs / "parts") == whole);
  for (const auto& entry : fs::directory_iterator(runs / "checkpoints"))
    fs::remove(entry.path() / checkpoint_record);
  refuse(runs.resume(options), "no checkpoint in");
}

TEST_CASE("a disk that fills up ends the run, and it can go on", "[checkpoint]") {
  const Runs runs;
  const std::string options = "--model mlp-small --epochs 3 ";
  const std::string whole = runs.end_of(runs.plain(options + "--steps 6"));
  succeed(runs.with_checkpoints(options + "--steps 2"));
  // The limit is in blocks of 512 bytes. The weights fit; the moments, which take twice as much, do
  // not.
  const std::string limit = computes_slowly() ? "600" : "2400";
  const Output output =
      shell("trap '' XFSZ; ulimit -f " + limit + "; " + program_path + " " +
            runs.resume(options + "--steps 6 --checkpoint-every 1 ") + device_arguments());
  INFO(output.text);
  REQUIRE(output.status == 1);
  REQUIRE_THAT(output.text, ContainsSubstring("no checkpoint of step 3 was written"));
  REQUIRE(runs.end_of(runs.resume(options + "--steps 6")) == whole);
}

TEST_CASE("weights that are not finite are not saved", "[checkpoint]") {
  const Runs runs;
  // The step is so large that the weights become infinite at once.
  const std::string options = "--model mlp-small --lr 1e38 --steps 1 ";
  refuse(runs.plain(options) + " --save " + (runs / "saved"),
         "not written, because 0.weight holds");
  REQUIRE_FALSE(fs::exists(runs / "saved"));
  refuse(runs.with_checkpoints(options), "no checkpoint of step 1 was written, because 0.weight");

  const Dataset digits =
      make_digits(Split::train, {.train_size = 40, .test_size = 1}).to(test_device());
  TrainingOptions once;
  once.model = model_factory({.kind = ModelKind::mlp_small});
  once.batches = {4, 4};
  once.checkpoints.directory = runs / "once";
  {
    Training training(once, digits, test_device());
    Checkpoints checkpoints(once, digits, training, {});
    training.loader().start_epoch(0);
    const auto step = [&] {
      training.micro_step(*training.loader().next(), 0);
      REQUIRE_FALSE(training.window().step().skipped);
    };
    step();
    checkpoints.save();
    step();
    training.parameters().entries()[2].tensor.detach().fill(std::nan(""));
    REQUIRE_ERROR(checkpoints.save(), "because 2.weight holds nan at element 0; those before it");
  }
  REQUIRE(CheckpointDirectory(runs / "once").steps() == std::vector<int64_t>{1});
}

TEST_CASE("one signal ends the run at a whole window, two roll it back", "[checkpoint]") {
  if (on_runner()) return;  // a window of the size needed takes it minutes
  const Folder folder;
  // A window takes a second or more. On a GPU the host's part must take that long: work that has
  // been enqueued is not rolled back.
  const std::string options = fmt::format(
      " --model {} --data digits --micro-batch 1 --effective-batch {} --checkpoint-dir ",
      test_device() == Device::cuda ? "cnn --cuda-graphs off" : "mlp", sanitized() ? 600 : 6000);
  const auto run = [&](const std::string& directory, std::initializer_list<int> signals) {
    Child child("train" + options + directory, directory + ".text");
    child.wait_until([&] { return child.text().find("optimizer steps") != std::string::npos; });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    for (const int signal : signals) {
      child.send(signal);
      // If two signals are pending at once, they are delivered in the order of their numbers:
      // SIGTERM after SIGINT would count as its repetition.
      child.wait_until([&] { return child.text().find("interrupted") != std::string::npos; });
    }
    const int status = child.wait();
    return std::pair(status, child.text());
  };
  const auto [once, said_once] = run(folder / "once", {SIGTERM});
  INFO(said_once);
  REQUIRE(once == 0);
  REQUIRE_THAT(said_once, ContainsSubstring("interrupted: stopped after a whole window"));
  // Both signals come within one window.
  const auto [twice, said_twice] = run(folder / "twice", {SIGTERM, SIGINT});
  INFO(said_twice);
  REQUIRE(twice == 1);
  REQUIRE_THAT(said_twice, ContainsSubstring("interrupted twice: stopped after"));
  REQUIRE(CheckpointDirectory(folder / "twice").steps().empty());
  const auto steps = CheckpointDirectory(folder / "once").steps();
  REQUIRE(steps.size() == 1);
  const std::string more = fmt::format(" --steps {} --save ", steps[0] + 1);
  succeed("train" + options + (folder / "once") + " --resume" + more + (folder / "parts"));
  succeed("train" + options + (folder / "none") + more + (folder / "whole"));
  REQUIRE(file_bytes(folder / "parts") == file_bytes(folder / "whole"));
}

}  // namespace accrue::test
