// The program's output and where it goes: standard output, files, terminals of any width.

#include "apps/cli/output.h"

#include <csignal>
#include <regex>

#include "apps/commands/commands_of_networks.h"
#include "apps/commands/progress.h"
#include "tests/support/child.h"
#include "tests/support/cli.h"
#include "tests/support/skipped.h"

namespace accrue::test {

TEST_CASE("a progress line fits its terminal", "[output]") {
  const std::vector<std::string> parts{"step 7/100", "loss 2.301",      "ETA 12 s",
                                       "epoch 1",    "47000 samples/s", "lr 0.001"};
  for (size_t columns = 0; columns <= 140; ++columns) {
    INFO(columns);
    const std::string line = app::progress_line(parts, 0.5, columns);
    REQUIRE(line.size() <= (columns > 0 ? columns - 1 : 0));
    // A part is left out only after all less important ones.
    for (size_t i = 0; i + 1 < parts.size(); ++i)
      if (line.find(parts[i]) == std::string::npos)
        REQUIRE(line.find(parts[i + 1]) == std::string::npos);
  }
  REQUIRE(app::progress_line(parts, 0.5, 30) == "step 7/100  loss 2.301");
  REQUIRE(app::progress_line(parts, 0.5, 60) ==
          "step 7/100  loss 2.301  ETA 12 s  epoch 1  47000 samples/s");
  REQUIRE(app::progress_line(parts, 0.5, 90).starts_with("[#########.........] step 7/100"));
  REQUIRE(app::progress_line(parts, 1, 120).starts_with("[########################] step"));
}

TEST_CASE("- is standard output, and what is for people goes to standard error", "[output]") {
  const Folder folder;
  const auto json_of = [&](const std::string& command) {
    const Output output = accrue_run(command + " 2>" + (folder / "people"));
    INFO(command << "\n" << output.text);
    REQUIRE(output.status == 0);
    REQUIRE_FALSE(fs::exists("-"));
    return output.text;
  };
  const std::string lines = json_of("train --model mlp-small --steps 2 --json - --save " +
                                    (folder / "w") + " --log-dir " + (folder / "log"));
  REQUIRE(std::ranges::count(lines, '\n') == 3);
  std::istringstream stream(lines);
  for (std::string line; std::getline(stream, line);) REQUIRE(nlohmann::json::accept(line));
  REQUIRE_THAT(file_bytes(folder / "people"), ContainsSubstring("predicted to the byte"));
  const std::vector<std::string> commands{"eval --model mlp-small --init " + (folder / "w"),
                                          "plan --model mlp-small --memory 1GiB"};
  for (const std::string& command : commands)
    REQUIRE(nlohmann::json::accept(json_of(command + " --json -")));
  REQUIRE(nlohmann::json::accept(json_of("train --model mlp-small --steps 1 --memory-trace -")));
  REQUIRE(nlohmann::json::accept(json_of("train --model mlp-small --steps 1 --profile -")));
  REQUIRE_THAT(json_of("bench memory --model mlp-small --effective-batch 8 --steps 1 --rounds 1 "
                       "--micro-batches 4 --ways fused --report -"),
               StartsWith("<!DOCTYPE html>"));
  refuse("train --save -",
         "--save -: expected the name of a file or directory, because standard "
         "output takes text only");
}

TEST_CASE("help shows what most runs need, or all, within the terminal", "[output]") {
  const std::string few = succeed("train --help"), all = succeed("train --help-all");
  for (const char* option : {"--micro-batch", "--effective-batch", "--memory-limit", "--resume"})
    REQUIRE_THAT(few, ContainsSubstring(option));
  REQUIRE(few.find("--loss-scale-growth") == std::string::npos);
  REQUIRE_THAT(few, ContainsSubstring("--help-all shows all"));
  REQUIRE_THAT(all, ContainsSubstring("--loss-scale-growth"));
  for (const std::string* text : {&few, &all}) {
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) REQUIRE(line.size() <= 80);
  }
}

TEST_CASE("one of a kind is not named in the plural", "[output]") {
  const Folder folder;
  const std::string train = "train --model mlp-small --effective-batch 16 --checkpoint-dir " +
                            (folder / "c") + " --steps ";
  std::string said = succeed("info --threads 1");
  for (const char* steps : {"1", "2 --resume"}) said += succeed(train + steps);
  said += succeed(
      "bench memory --model mlp-small --effective-batch 8 --steps 1 --rounds 1 "
      "--micro-batches 4 --ways fused");
  INFO(said);
  REQUIRE_THAT(said, ContainsSubstring("| 1 thread\n") && ContainsSubstring("1 optimizer step\n"));
  REQUIRE_FALSE(std::regex_search(
      said, std::regex("(^|[^0-9.])1 (optimizer )?(step|round|thread|tensor|window|sample)s\\b")));
}

TEST_CASE("tables fit 80 columns", "[cli][full]") {
  const std::string plan = succeed("plan --model mlp-small --memory 1GiB"),
                    bench = succeed(
                        "bench memory --model mlp-small --effective-batch 8 --steps 1 "
                        "--micro-batches 4 --rounds 1 --ways fused,separate"),
                    train = succeed("train --model mlp-small --steps 1 --measure-baseline");
  for (const std::string* text : {&plan, &bench, &train}) {
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) {
      INFO(line);
      // Lines with paths, commands or numbers of a log may be longer.
      if (line.find("accrue train") == std::string::npos &&
          line.find("test samples") == std::string::npos && !line.starts_with("[Epoch"))
        REQUIRE(line.size() <= 80);
    }
  }
}

TEST_CASE("the table at the end of a run fits 60 columns", "[cli][full]") {
  const std::string text = succeed("train --model mlp-small --steps 1");
  std::istringstream table(text.substr(text.find("peak memory on")));
  for (std::string line; std::getline(table, line) && !line.starts_with("predicted");) {
    INFO(line);
    REQUIRE(line.size() < 60);
  }
}

TEST_CASE("tables of benchmarks fit 80 columns", "[output]") {
  for (const char* command : {"bench train --model mlp-small --seconds 0.01 --profile",
                              "bench kernels --size 64KiB --seconds 0.01"}) {
    std::istringstream table(succeed(command));
    for (std::string line; std::getline(table, line);) {
      INFO(line);
      REQUIRE(line.size() <= 80);
    }
  }
}

TEST_CASE("tables follow the terminal's width", "[.][terminal]") {
  if (shell("script -qec true /dev/null").status != 0)
    SKIP_LOUDLY("no terminal can be opened here");
  const auto on_terminal = [](int columns, const std::string& command) {
    const Output output = shell(
        fmt::format("script -qec 'stty cols {}; {} {}' /dev/null", columns, program_path, command));
    REQUIRE(output.status == 0);
    return output.text;
  };
  std::istringstream plan(on_terminal(60, "plan --model mlp-small --memory 1GiB"));
  int rows = 0;
  for (std::string line; std::getline(plan, line) && line.find("(--json") == line.npos; ++rows) {
    INFO(line);
    REQUIRE(line.size() <= 61);  // with the terminal's carriage return
  }
  REQUIRE(rows > 4);
  const std::string profile = "bench train --model mlp-small --seconds 0.01 --profile";
  REQUIRE_THAT(on_terminal(120, profile), ContainsSubstring("% gemm"));
  REQUIRE_THAT(on_terminal(80, profile), !ContainsSubstring("% gemm"));
}

TEST_CASE("shells complete commands, options and choices", "[output]") {
  const auto completed = [](const std::string& words) {
    const Output output = shell(
        fmt::format("bash -c 'source <({} completion bash); COMP_WORDS=(accrue {}); "
                    "COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _accrue; echo ${{COMPREPLY[@]}}'",
                    program_path, words));
    return output.text.substr(0, output.text.find('\n'));
  };
  REQUIRE(completed("tr") == "train");
  REQUIRE(completed("bench me") == "memory");
  REQUIRE(completed("completion ba") == "bash");
  REQUIRE(completed("train --micro") == "--micro-batch");
  REQUIRE(completed("bench train --loss-scale-i") == "--loss-scale-init --loss-scale-interval");
  REQUIRE(completed("train --lr 3 --optimizer ada") == "adam adamw");
  REQUIRE_THAT(succeed("completion fish"), ContainsSubstring("-l optimizer -x -a 'adam adamw "));
  REQUIRE_THAT(succeed("completion zsh"), ContainsSubstring("bashcompinit"));
  refuse("completion tcsh", "expected bash, zsh or fish");
}

TEST_CASE("quiet is silent, and writes what it was asked for", "[output]") {
  const Folder folder;
  const std::string run = "train --model mlp-small --steps 2 --quiet --json ";
  REQUIRE(succeed(run + (folder / "log")).empty());
  REQUIRE(json_steps(folder / "log").size() == 2);
  REQUIRE(std::ranges::count(succeed(run + "-"), '\n') == 3);
  REQUIRE(nlohmann::json::parse(succeed("info --quiet --json -"))["parameters"] == 567434);
  refuse("train --quiet --model mlp-small --micro-batch 0", "--micro-batch is 0");
}

TEST_CASE("info says how convolutions are computed on cuda", "[output]") {
  const auto asked = [](const std::string& device, const std::string& more) {
    return nlohmann::json::parse(
        succeed("info --quiet --model cnn --micro-batch 2 --json - --device " + device + more));
  };
  REQUIRE(!asked("cpu", "").contains("convolutions"));
  if (test_device() != Device::cuda) return;
  const auto info = asked("cuda", " --precision bf16 --time-convolutions 1000");
  REQUIRE(info["micro_batch"] == 2);
  REQUIRE(info["precision"] == "bf16");
  std::vector<std::string> products;
  for (const auto& c : info["convolutions"]) {
    products.push_back(fmt::format("{} of {}x{}", c["product"].get<std::string>(),
                                   c["N"].get<int>(), c["C"].get<int>()));
    REQUIRE(c["dtype"] == "bf16");
    REQUIRE(c["count"] == 1);
    REQUIRE(c["parts"] == 1);
    REQUIRE(c["workspace_bytes"] <= c["scratch_bytes"]);
    REQUIRE(c["ms"] >= 0);
  }
  REQUIRE(products == std::vector<std::string>{"forward of 2x1", "forward of 2x16",
                                               "backward filter of 2x16", "backward data of 2x16",
                                               "backward filter of 2x1"});
  REQUIRE(asked("cuda", "")["convolutions"][0]["ms"].is_null());
}

TEST_CASE("output that is not a terminal gets no escape sequences", "[output]") {
  const std::string data =
      computes_slowly() ? " --data " + few_digits().path().string() : std::string();
  for (const std::string& command :
       {std::string("--help"), std::string("train --help-all"),
        "plan --model mlp-small --memory 1GiB" + data, "train --model mlp-small --steps 2" + data})
    for (const char* setting : {"", "NO_COLOR=1 "}) {
      const Output output = shell(fmt::format("{}{} {}", setting, program_path, command));
      INFO(setting << command << "\n" << output.text);
      REQUIRE(output.status == 0);
      REQUIRE(output.text.size() > 100);
      REQUIRE(output.text.find('\033') == std::string::npos);
    }
}

TEST_CASE("output that is lost is an error", "[output]") {
  for (const char* command :
       {"plan --model mlp-small --memory 1GiB", "--help", "train --help", "--version"})
    refuse(std::string(command) + " >/dev/full", "standard output: No space left");
}

TEST_CASE("two runs do not write one file of lines", "[output]") {
  const Folder folder;
  const std::string log = folder / "log";
  Child child("train --model mlp-small --epochs 100000 --json " + log, folder / "text");
  child.wait_until([&] { return fs::exists(log) && fs::file_size(log) > 0; });
  refuse("train --model mlp-small --steps 1 --json " + log, "is being written by another run");
  child.send(SIGHUP);
  REQUIRE(child.wait() == 0);
  // The run stops as by SIGINT, and at once.
  REQUIRE_THAT(child.text(), ContainsSubstring("interrupted: this window is finished first"));
  REQUIRE_THAT(child.text(), ContainsSubstring("interrupted: stopped after a whole window"));
  REQUIRE(json_steps(log).size() > 1);
  succeed("train --model mlp-small --steps 1 --json " + log);
  REQUIRE(json_steps(log).size() == 1);
}

TEST_CASE("a run is one file, and repeats from its log's", "[cli][full]") {
  const Folder folder;
  const std::string config = folder
                                 .TemporaryDirectory::write("run.toml", R"(
# A run.
model = "mlp-small"
lr = 0.02
no-shuffle = true
steps = 3
epochs = 2
)")
                                 .string();
  const std::string run = "train --config ";
  succeed(run + config + " --steps 4 --log-dir " + (folder / "log") + " --save " + (folder / "w"));
  REQUIRE(json_steps(folder / "log/metrics.jsonl").size() == 4);  // by the command line
  succeed(run + (folder / "log/config.toml") + " --save " + (folder / "again"));
  REQUIRE(file_bytes(folder / "w") == file_bytes(folder / "again"));
  succeed("plan --config " + config + " --memory 1GiB");  // plan takes the settings that it knows

  refuse(run + (folder / "none"), "cannot be read");
  const auto file = [&](const std::string& text) {
    return folder.TemporaryDirectory::write("bad.toml", text).string();
  };
  refuse(run + file("lrr = 1"), "there is no setting lrr; did you mean lr?");
  refuse(run + file("lr = fast"), "--lr is fast: expected a number");
  refuse(run + file("momentum = 0.9"), "--momentum has no effect with --optimizer adam");
  refuse(run + file("\xef\xbb\xbfmomentum = 0.9"), "--momentum has no effect with --optimizer");
  refuse(run + file("[train]\nlr = 0.01"), "it has the section [train]: expected lines such as");
}

TEST_CASE("defaults in a run's file yield to options beside it", "[cli]") {
  const Folder folder;
  const std::string few = " --data " + few_digits().path().string() + " --steps 1",
                    config = " --config " + (folder / "log/config.toml");
  succeed("train --model cnn --width 0.25 --schedule cosine --lr 0.02 --beta1 0.8 --micro-batch 4" +
          few + " --log-dir " + (folder / "log"));
  const std::string text = file_bytes(folder / "log/config.toml");
  for (const char* line : {"\nlr = 0.02\n", "\n# lr-floor = 0\n", "\nbeta1 = 0.8\n",
                           "\n# objective = \"labels\"\n", "\n# init-scheme = \"kaiming\"\n"})
    REQUIRE_THAT(text, ContainsSubstring(line));
  succeed("train --schedule constant" + config);                                     // lr-floor
  succeed("train --model unet --data shapes --optimizer adamw --steps 1" + config);  // objective
  refuse("train --optimizer sgd" + config, "--beta1 has no effect with --optimizer sgd");
  succeed(
      "train --optimizer sgd --momentum 0.9 --model mlp-small --steps 1 --data digits --log-dir " +
      (folder / "sgd"));
  refuse("train --optimizer adam --config " + (folder / "sgd/config.toml"), "--momentum has no");
}

TEST_CASE("an option that is wrong is named, with what was expected", "[output]") {
  for (const auto& [command, message] :
       {std::pair{"train --model cnn --lr 1 --model mlp",
                  "--model is given 2 times: expected once"},
        {"train --lr 1 --model", "--model has no value: expected cnn|cnn-bn|cnn-gn|gpt-tiny"},
        {"train --bogus 1", "there is no option --bogus; accrue train --help-all lists all"},
        {"train --batch-size 8", "there is no option --batch-size: expected --micro-batch, the"},
        {"eval --batch-size 8", "expected --micro-batch, the samples in memory\n"},
        {"bench memory --batch 8", "expected --effective-batch, the samples of a step\n"},
        {"info --learning-rate 1", "there is no option --learning-rate: expected --lr"},
        {"train bogus", "'bogus' was not expected; accrue train --help-all lists all"},
        {"bogus", "there is no command bogus: expected train, eval, predict"},
        {"help bogus", "there is no command bogus: expected train, eval, predict"},
        {"bench", "accrue bench needs a command: expected train, memory or kernels"},
        {"bench bogus", "there is no command bench bogus: expected train, memory or kernels"},
        {"train --keep-last 2", "--keep-last requires --checkpoint-dir"},
        {"eval --seed 3", "accrue eval has no option --seed, which is for train, plan"},
        {"eval --dropout 0.2", "accrue eval has no option --dropout"},
        {"eval --cuda-graphs off", "accrue eval has no option --cuda-graphs, which is for train"},
        {"predict --init w", "there is no option --init: expected --weights"},
        {"predict --init-scheme xavier", "accrue predict has no option --init-scheme"},
        {"font train --dropout 0.3", "there is no option --dropout: expected --g-dropout"},
        {"font train --loss dice", "accrue font train has no option --loss, which is for train"},
        {"font train --hold-out 0.2", "accrue font train has no option --hold-out"},
        {"font train --data-dir d", "accrue font train has no option --data-dir"},
        {"train --lr fast", "--lr is fast: expected a number"},
        {"export", "--weights is required"}}) {
    const Output output = shell(program_path + " " + command);
    INFO(command << "\n" << output.text);
    REQUIRE(output.status == 2);
    REQUIRE_THAT(output.text, StartsWith("accrue: error: ") && ContainsSubstring(message));
    REQUIRE(output.text.find("did you mean") == std::string::npos);
  }
  const Folder folder;
  refuse("train --config " + folder.path().string(), "it is a directory");
}

TEST_CASE("plan and info take train's command, and name settings that have no effect", "[output]") {
  app::AskedOfNetworks asked;
  const auto settings_of = [&](const char* command) {
    return app::command_of_networks(command, asked).settings;
  };
  const Settings of_info = settings_of("info"), of_plan = settings_of("plan");
  for (const Setting& setting : settings_of("train")) {
    INFO(setting.about.name);
    REQUIRE(of_info.has(setting.about.name));
    REQUIRE((setting.about.name == "memory-limit" || of_plan.has(setting.about.name)));
  }
  const Folder folder;
  const std::string of_both =
      " --on-oom split --no-shuffle --max-minutes 3 --init-scheme lecun --seed 3 --beta1 0.8 --eps "
      "1e-6 --weight-decay 0.1 --loss-scale-init 8 --max-skipped 3 --patience 2 --keep-best "
      "--checkpoint-every 7 --keep-last 4 --rank-timeout 5 --save " +
      (folder / "w") + " --log-dir " + (folder / "log") + " --log-histograms 2 --memory-trace " +
      (folder / "trace") + " --memory-trace-windows 3 --profile " + (folder / "profile") +
      " --profile-windows 3 --log-every 2 --measure-baseline";
  const std::string of_schedule = " --lr 0.1 --schedule step --warmup-steps 3 --lr-gamma 0.5";
  const std::string heeded_by_one = " --eval-every 4 --checkpoint-dir " + (folder / "kept") +
                                    " --loss-scale dynamic --micro-batch 4 --accum 2";
  const auto names_in = [](const std::string& text) {
    std::vector<std::string> names;
    std::istringstream words(text);
    for (std::string word; words >> word;)
      if (word.starts_with("--")) names.push_back(word.substr(0, word.find(',')));
    std::ranges::sort(names);
    return names;
  };
  const auto answer = [&](const std::string& command, const std::string& passed_over) {
    const Output output = accrue_run(command + passed_over + " --json " + (folder / "answer"));
    INFO(output.text);
    REQUIRE(output.status == 0);
    const std::string said = command.substr(0, 4) + " does nothing with ";
    REQUIRE(output.text.starts_with(said) == !passed_over.empty());
    if (!passed_over.empty())
      REQUIRE(names_in(output.text.substr(0, output.text.find('\n'))) == names_in(passed_over));
    return file_bytes(folder / "answer");
  };
  const std::string plan =
      "plan --model mlp-small --strategy fused --recompute none --memory 1GiB" + heeded_by_one;
  REQUIRE(answer(plan, of_both + of_schedule) == answer(plan, ""));
  const std::string info = "info --model mlp-small" + of_schedule;
  REQUIRE(answer(info + " --micro-batch 4 --accum 2",
                 of_both + " --eval-every 4 --loss-scale dynamic --checkpoint-dir " +
                     (folder / "kept")) == answer(info, ""));
  REQUIRE_FALSE(fs::exists(folder / "kept"));
  const std::string of_text = "info --model gpt-tiny";
  REQUIRE(answer(of_text + " --context 64", "") != answer(of_text, ""));
  REQUIRE_THAT(succeed(info + " --micro-batch 4 --accum 2 --beta2-half-life 100"),
               ContainsSubstring("at an effective batch of 8:"));
}

TEST_CASE("options that do nothing are refused", "[output]") {
  for (const auto& [options, message] :
       {std::pair{"--momentum 0.9", "expected --optimizer sgd, or no --momentum"},
        {"--optimizer sgd --beta1 0.8", "--beta1 has no effect with --optimizer sgd"},
        {"--schedule cosine --lr-every 3", "expected --schedule step, or no --lr-every"},
        {"--loss-scale-growth 3", "expected --loss-scale dynamic or --precision fp16"},
        {"--loss-scale-init 8 --precision fp16 --loss-scale 2",
         "--loss-scale-init has no effect with --loss-scale 2: expected --loss-scale dynamic or no "
         "--loss-scale"},
        {"--no-decay vectors", "--no-decay has no effect with no --weight-decay"},
        {"--model cnn-bn --batch-norm window --window-passes 2",
         "--window-passes has no effect with --batch-norm-by keep: expected --batch-norm-by walk"},
        {"--model gpt-tiny --init-scheme normal",
         "--init-scheme has no effect with --model gpt-tiny: expected --model cnn"},
        {"--model llama-tiny --width 0.5", "--width has no effect with --model llama-tiny"},
        {"--model mlp --pack on", "--pack has no effect with --model mlp: expected --model cnn"},
        {"--shard-optimizer", "--shard-optimizer has no effect in one process: expected several"},
        {"--rank-timeout 60", "--rank-timeout has no effect in one process"},
        {"--noise-scale --accum 1", "expected a smaller --micro-batch, or no --noise-scale"},
        {"--data-dir /mnist",
         "--data-dir has no effect with --data digits: expected --data mnist or"},
        {"--data shapes --model unet --skip-bad", "--skip-bad has no effect with --data shapes"},
        {"--hold-out 0.2", "expected a folder of images or a table, or no --hold-out"},
        {"--model zi2zi --dropout 0.3",
         "--dropout has no effect with --model zi2zi: expected --g-dropout, or no --dropout"},
        {"--model zi2zi --data strokes --image-size 32 --n-critic 9 --steps 8",
         "the generator plays in one window of 9, and the run has 8: expected more --epochs"},
        {"--data strokes --model zi2zi --cache no", "--cache has no effect with --data strokes"}})
    refuse(std::string("train ") + options, message);
  if (test_device() == Device::cpu)
    refuse("train --cuda-graphs off", "--cuda-graphs has no effect on the CPU");
  refuse("train --steps 1 --hold-out 0.2 --data " + few_digits().path().string(),
         "expected a folder of images or a table, or no --hold-out");
}

TEST_CASE("a loss that grows without bound is the learning rate's doing", "[cli][full]") {
  const Output output = accrue_run("train --model mlp-small --lr 1e30 --steps 40");
  INFO(output.text);
  REQUIRE(output.status == 1);
  REQUIRE_THAT(output.text, ContainsSubstring("learning rate of 1e+30: lower the learning rate") &&
                                ContainsSubstring(" in step 1, the last in which it was finite") &&
                                !ContainsSubstring("in step 1 and"));
}

TEST_CASE("a run that was resumed counts both ways", "[cli][full]") {
  const Folder folder;
  const std::string run = "train --model mlp-small --checkpoint-dir " + (folder / "c") +
                          " --checkpoint-every 1 --steps ";
  succeed(run + "2");
  REQUIRE_THAT(succeed(run + "5 --resume"),
               ContainsSubstring("2 of 5 steps are taken") &&
                   ContainsSubstring("3 optimizer steps since it was resumed, 5 of 5 in all"));
}

}  // namespace accrue::test
