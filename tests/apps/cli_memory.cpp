// The program and memory: its predictions, plans and measurements, and its behavior when memory
// runs out.

#include <set>
#include <thread>

#include "tests/support/cli.h"

namespace accrue::test {

TEST_CASE("the prediction on meta is the measurement, for every model and K",
          "[cli][memory][full]") {
  const Folder folder;
  if (computes_slowly()) WARN("K = 8 and 64 are left out on the runner and under sanitizers");
  for (const std::string model : {"mlp", "mlp-small", "cnn", "cnn-gn", "cnn-bn"}) {
    std::string first;
    for (const int K : {1, 2, 8, 64}) {
      if (computes_slowly() && K > 2) continue;
      const std::string text =
          succeed("train --model " + model + narrow() + "--micro-batch 8 --steps 2 --accum " +
                  std::to_string(K) + " --epochs 2 --json " + (folder / "log"));
      const auto peak = json_steps(folder / "log").back()["peak_bytes"];
      INFO(model << " K " << K << " " << peak.dump() << "\n" << text);
      // Every K takes the same bytes.
      if (first.empty()) first = peak.dump();
      REQUIRE(peak.dump() == first);
      // The prediction in the table is the same; the text rounds it to 0.1 of a unit.
      REQUIRE_THAT(text, ContainsSubstring("predicted to the byte"));
    }
  }
}

TEST_CASE("resnet's memory is predicted, and its BatchNorm warned of", "[cli][memory][full]") {
  const Folder folder;
  write_idx_data(folder);
  const std::string train =
      "train --steps 2" + narrow() + "--micro-batch 4 --data " + folder.path().string();
  for (const std::string model : {"resnet", "resnet-bn"})
    for (const int K : {1, 2, 7}) {
      if (on_runner() && (model == "resnet" || K != 2)) continue;
      const std::string text =
          succeed(train + " --model " + model + " --accum " + std::to_string(K) + " --epochs 2");
      INFO(model << " K " << K << "\n" << text);
      REQUIRE_THAT(text, ContainsSubstring("predicted to the byte"));
      const bool warned = text.find("warning: BatchNorm") != std::string::npos;
      REQUIRE(warned == (model == "resnet-bn" && K > 1));
    }
}

TEST_CASE("a limit is kept and an excess explained", "[cli][memory]") {
  succeed("train --model mlp-small --steps 1 --memory-limit 1GiB");
  refuse("train --model mlp --steps 1 --memory-limit 12MB --micro-batch 16",
         "out of memory on " + std::string(name(test_device())));
}

TEST_CASE("what an error advises is pasted into a shell", "[cli][memory][full]") {
  const std::string train = "train --model mlp-small --steps 1 ";
  const Output refused = accrue_run(train + "--memory-limit 3MiB");
  INFO(refused.text);
  REQUIRE(refused.status == 1);
  // Not even the gradients fit, so no smaller micro-batch helps.
  REQUIRE(refused.text.find("smaller micro-batch") == std::string::npos);
  const std::string advice = refused.text.substr(refused.text.find("\ntry: ") + 6);
  const Output pasted = shell(fmt::format("sh -c '{} {}{}{}'", program_path, train,
                                          device_arguments(), advice.substr(0, advice.find('\n'))));
  INFO(pasted.text);
  REQUIRE(pasted.status == 0);
  REQUIRE_THAT(pasted.text, ContainsSubstring("predicted to the byte"));
}

TEST_CASE("without accumulation the program reports no savings", "[cli][memory][full]") {
  const std::string text = succeed("train --model mlp-small --steps 1 --accum 1");
  REQUIRE_THAT(text, ContainsSubstring("nothing was accumulated: the effective batch is one") &&
                         !ContainsSubstring("saves nothing"));
}

TEST_CASE("every tensor has the name of the layer that made it", "[cli][memory][full]") {
  if (computes_slowly()) {
    WARN("left out: 2000 test images take minutes here");
    return;
  }
  const Folder folder;
  succeed("train --model unet --steps 1 --memory-trace " + (folder / "trace"));
  std::set<std::string> names;
  const auto trace = nlohmann::json::parse(file_bytes(folder / "trace"));
  for (const auto& event : trace["traceEvents"]) {
    if (event.value("cat", "") != "activations") continue;
    const std::string name = event["name"];
    names.insert(name);
    // The loss itself is one or two numbers.
    REQUIRE((name != "loss" || event["args"]["bytes"] == 64));
  }
  for (const char* name : {"encoder.0 pooled", "encoder.1 pooled", "loss"})
    REQUIRE(names.contains(name));
  REQUIRE(!names.contains(""));
}

TEST_CASE("plan's choice runs within its memory, and one sample more does not", "[cli][memory]") {
  const Folder folder;
  // Memory for about half of an effective batch of 64.
  const std::map<std::string, std::string> memory =
      test_device() == Device::cuda
          ? std::map<std::string, std::string>{{"mlp-small", on_runner() ? "8750KB" : "7650KB"}}
      : sanitized() ? std::map<std::string, std::string>{{"mlp", "18850KB"}}
                    : std::map<std::string, std::string>{
                          {"mlp", "18850KB"}, {"cnn-gn", "15500KB"}, {"cnn-bn", "15500KB"}};
  for (const auto& [model, limit] : memory) {
    const std::string asked = " --model " + model + " --effective-batch 64 ";
    const std::string text = succeed("plan" + asked + "--strategy fused --json " +
                                     (folder / "plan") + " --memory " + limit);
    REQUIRE_THAT(text, ContainsSubstring("recommended: effective batch 64"));
    const auto plan = nlohmann::json::parse(file_bytes(folder / "plan"));
    REQUIRE(plan.size() == 2);
    const auto& best = plan["recommended"];
    std::vector<std::string> keys;
    for (const auto& [key, value] : best.items()) keys.push_back(key);
    // nlohmann::json sorts the keys.
    REQUIRE(keys == std::vector<std::string>{"accum", "batch_norm_by", "micro_batch", "peak_bytes",
                                             "recompute", "remainder", "sequence_piece",
                                             "strategy"});
    for (const char* key : {"peak_by_category", "relative_cost", "fits", "accum", "peak_bytes"})
      REQUIRE(plan["alternatives"][0].contains(key));
    const auto micro = best["micro_batch"].get<int64_t>();
    REQUIRE(best["accum"] == (64 + micro - 1) / micro);
    REQUIRE(best["remainder"] == 64 % micro);
    REQUIRE(micro < 64);
    const auto train = [&](int64_t size) {
      return accrue_run("train" + asked + "--steps 2 --memory-limit " + limit + " --micro-batch " +
                        std::to_string(size));
    };
    const Output fits = train(micro), too_large = train(micro + 1);
    INFO(fits.text << too_large.text);
    REQUIRE(fits.status == 0);
    REQUIRE_THAT(fits.text, ContainsSubstring("predicted to the byte"));
    REQUIRE(too_large.status == 1);
    REQUIRE_THAT(too_large.text, ContainsSubstring("out of memory on"));
    // The error names flags that fit.
    REQUIRE_THAT(too_large.text, ContainsSubstring(fmt::format(
                                     "try: --micro-batch {} --effective-batch 64", micro)));
    const std::string chosen =
        succeed("train" + asked + "--steps 1 --micro-batch auto --memory-limit " + limit);
    REQUIRE_THAT(chosen, ContainsSubstring(fmt::format("micro-batch auto: {} of", micro)));
    // The last line is a command for a shell.
    const std::string command = text.substr(text.rfind("accrue train") + 6);
    const Output pasted =
        shell(program_path + command.substr(0, command.find('\n')) + " --steps 1");
    INFO(pasted.text);
    REQUIRE(pasted.status == 0);
    REQUIRE_THAT(pasted.text, ContainsSubstring("predicted to the byte"));
  }
}

TEST_CASE("a plan has a row for the windows that were asked for", "[cli][memory]") {
  const Folder folder;
  const std::string plan = "plan --model mlp-small --json " + (folder / "plan");
  const auto yours = [&](const std::string& asked) {
    const std::string text = succeed(plan + asked);
    INFO(text);
    const auto written = nlohmann::json::parse(file_bytes(folder / "plan"));
    REQUIRE(written.contains("yours") == (text.find(" yours\n") != text.npos));
    return written.value("yours", nlohmann::json());
  };
  const std::string way = " --micro-batch 5 --accum 3 --steps 2 --memory-limit 1GiB ";
  const auto row = yours(way + "--strategy fused --recompute none");
  succeed("train --model mlp-small --log-dir " + (folder / "log") + way);
  const auto summary = nlohmann::json::parse(file_bytes(folder / "log/summary.json"));
  REQUIRE(row["micro_batch"] == 5);
  REQUIRE(row["accum"] == 3);
  REQUIRE(row["fits"] == true);
  REQUIRE(row["peak_bytes"] == summary["peak_bytes"]["total"]);
  // One option alone, with the other as in train; a row that the plan has already; and no row at
  // all.
  REQUIRE(yours(" --micro-batch 3 --memory 1GiB")["accum"] == 4);
  REQUIRE(yours(" --accum 2 --memory 1GiB")["micro_batch"] == 16);
  REQUIRE(yours(" --micro-batch 12 --accum 1 --memory 1GiB")["relative_cost"] == 1);
  REQUIRE(yours(" --micro-batch auto --memory 1GiB").is_null());
  REQUIRE(yours(" --effective-batch 6 --memory 1GiB").is_null());
  if (test_device() == Device::cpu)
    REQUIRE_THAT(succeed("plan --model mlp-small --strategy fused --recompute none"),
                 ContainsSubstring(", all that this machine has\n"));
  refuse(plan + " --micro-batch 5 --accum 3 --effective-batch 16 --memory 1GiB",
         "--micro-batch 5 x --accum 3 is 15, but --effective-batch is 16");
}

TEST_CASE("a plan that is impossible says what is missing", "[cli][memory][full]") {
  refuse("plan --model mlp --memory 1MiB", "which is");
  refuse("plan --model mlp --memory 1MiB", "it would fit with --memory");
  refuse("plan --model mlp --ranks 2", "--ranks 2 without --memory: expected the memory that each");
  refuse("plan --model mlp --memory 1GiB --effective-batch 1000000", "larger than the data");
  refuse("train --micro-batch auto --accum 3 --memory-limit 1GiB", "instead of --accum 3");
  refuse("train --micro-batch auto --memory-limit 10MiB", "nothing fits in 10.0 MiB");
  if (test_device() == Device::cpu) {
    refuse("plan --model mlp --memory 17MiB", "with --optimizer sgd --micro-batch");
    refuse("train --micro-batch auto", "needs --memory-limit");
  } else {
    succeed("train --model mlp-small --micro-batch auto --steps 1");
  }
}

TEST_CASE("--on-oom split finds a micro-batch that fits, and gives its weights", "[cli][memory]") {
  const Folder folder;
  // On the runner all of the few digits are on the device.
  const char* limit = on_runner() ? "8700KB" : test_device() == Device::cuda ? "7600KB" : "12900KB";
  // With fewer threads than cores the loader has two slots, whose memory does not shrink with the
  // micro-batches.
  const std::string options = fmt::format(
      "train --model mlp-small --steps 3 --effective-batch 60 --dropout 0.2 "
      "--threads {} --memory-limit {}",
      std::thread::hardware_concurrency(), limit);
  const Output refused = accrue_run(options + " --micro-batch 60 --save " + (folder / "none"));
  REQUIRE(refused.status == 1);
  REQUIRE(!fs::exists(folder / "none"));
  const std::string text =
      succeed(options + " --micro-batch 60 --on-oom split --save " + (folder / "split"));
  INFO(text);
  REQUIRE_THAT(text, ContainsSubstring("out of memory: 60 (1 x 60) becomes 60 (30 x 2)") ||
                         ContainsSubstring("out of memory: 60 (60 x 1) becomes 60 (30 x 2)"));
  REQUIRE_THAT(text, ContainsSubstring("predicted to the byte"));
  const std::string line = "becomes 60 (";
  const int64_t micro = std::stoll(text.substr(text.rfind(line) + line.size()));
  succeed(options + " --micro-batch " + std::to_string(micro) + " --save " + (folder / "small"));
  REQUIRE(file_bytes(folder / "split") == file_bytes(folder / "small"));
}

TEST_CASE("bench memory compares ways, widths and batches", "[cli][memory]") {
  const Folder folder;
  const std::string widths = reduced() ? "0.25" : "0.25,0.5";
  const std::string text =
      succeed("bench memory --model mlp-small --widths " + widths +
              " --effective-batch 16,32 "
              "--micro-batches 8,32 --ways fused,separate --steps 2 --rounds 1 --csv " +
              (folder / "csv") + " --json " + (folder / "memory"));
  REQUIRE_THAT(text, ContainsSubstring("the baseline"));
  const auto rows = nlohmann::json::parse(file_bytes(folder / "memory"))["rows"];
  // Each group has a row for the batch at once, and both ways with micro-batches of 8: 32 is not
  // smaller than any effective batch.
  REQUIRE(rows.size() == (reduced() ? 2 : 4) * 3);
  for (size_t i = 0; i < rows.size(); i += 3) {
    const auto &whole = rows[i], &fused = rows[i + 1], &separate = rows[i + 2];
    INFO(whole.dump() << fused.dump() << separate.dump());
    REQUIRE(whole["way"] == "at-once");
    REQUIRE(fused["way"] == "fused");
    REQUIRE(separate["way"] == "separate");
    REQUIRE(whole["width"] == (i < 6 ? 0.25 : 0.5));
    REQUIRE(whole["effective_batch"] == (i % 6 == 0 ? 16 : 32));
    REQUIRE(whole["accum"] == 1);
    REQUIRE(fused["accum"].get<int64_t>() * 8 == whole["effective_batch"]);
    const auto bytes = [](const auto& row, const char* category) {
      return row["peak_bytes"][category].template get<int64_t>();
    };
    REQUIRE(bytes(fused, "activations") < bytes(whole, "activations"));
    REQUIRE(bytes(fused, "gradients") == bytes(whole, "gradients"));
    REQUIRE(bytes(separate, "gradients") == 2 * bytes(whole, "gradients"));
    REQUIRE(fused["largest_weight_difference"].get<double>() < 1e-4);
    REQUIRE(fused["us_per_sample"].get<double>() > 0);
    REQUIRE(fused["peak_rss_growth_bytes"].get<int64_t>() > 0);
    // There are hardly any activations, so a second gradient costs more than accumulation saves.
    REQUIRE_THAT(separate["verdict"].get<std::string>(), ContainsSubstring("does not pay"));
    REQUIRE_THAT(separate["verdict"].get<std::string>(), ContainsSubstring("more memory"));
  }
  // Twice the width gives a gradient twice as large: 784 w + w + 10 w + 10, for w = 64 and 128.
  if (!reduced())
    REQUIRE(rows[6]["peak_bytes"]["gradients"].get<int64_t>() >
            int64_t{1990} * rows[0]["peak_bytes"]["gradients"].get<int64_t>() / 1000);
  REQUIRE(file_bytes(folder / "csv").starts_with("width,effective_batch,micro_batch,accum,way,"));
}

TEST_CASE("bench memory shows what 16 bits save", "[cli][memory][full]") {
  const Folder folder;
  const auto measure = [&](const std::string& options) {
    const std::string batches = " --effective-batch 64 --micro-batches 32 --steps 1 --rounds 1";
    succeed("bench memory --model mlp-small" + batches + " --json " + (folder / "memory") +
            options);
    return nlohmann::json::parse(file_bytes(folder / "memory"));
  };
  const auto activations = [](const auto& row) {
    return row["peak_bytes"]["activations"].template get<double>();
  };
  const auto rows = measure(" --ways fused-bf16,fused-fp16")["rows"];
  REQUIRE(rows.size() == 5);
  for (const size_t at_once : {1, 2}) {
    REQUIRE(rows[at_once]["accum"] == 1);
    REQUIRE(activations(rows[at_once]) < 0.55 * activations(rows[0]));
    REQUIRE(activations(rows[at_once + 2]) < 0.55 * activations(rows[at_once]));
  }
  // --precision applies to every row that does not set its own.
  const auto in_bf16 = measure(" --precision bf16 --ways fused");
  REQUIRE(in_bf16["precision"] == "bf16");
  REQUIRE(activations(in_bf16["rows"][0]) == activations(rows[1]));
  REQUIRE(activations(in_bf16["rows"][1]) == activations(rows[3]));
  refuse("bench memory --effective-batch 64 --precision bf16 --ways pytorch --python true",
         "pytorch, which is measured in fp32");
}

}  // namespace accrue::test
