// Python's safetensors and PyTorch load what a run has written, and a run loads what they write.

#include <bit>
#include <cstdlib>

#include "tests/support/cli.h"

namespace accrue::test {
namespace {

// Checks a checkpoint and writes its weights three times more, with PyTorch's own count of batches.
constexpr const char* script = R"(
import json, sys, torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
checkpoint, to = sys.argv[1:]
weights = load_file(checkpoint + "/weights.safetensors")
state = load_file(checkpoint + "/state.safetensors")
with safe_open(checkpoint + "/state.safetensors", "pt") as file:
    arena = json.loads(file.metadata()["arena"])
assert state["optimizer.steps"].item() == 3
for name, (begin, end) in arena.items():
    m = state["optimizer.m"][begin:end].view(weights[name].shape)
    assert torch.isfinite(m).all() and (m != 0).any(), name
weights["1.num_batches_tracked"] = torch.tensor(3)
save_file(weights, to + "/f32")
for dtype, name in (torch.float16, "f16"), (torch.bfloat16, "bf16"):
    save_file({k: v.to(dtype) if v.is_floating_point() else v for k, v in weights.items()},
              to + "/" + name)
)";

}  // namespace

TEST_CASE("PyTorch loads a checkpoint, and its files load here", "[.python]") {
  const char* given = std::getenv("ACCRUE_TEST_PYTHON");
  const std::string python = given ? given : "python3";
  if (shell(python + " -c 'import safetensors.torch'").status != 0)
    SKIP_LOUDLY("no Python modules torch and safetensors for " << python
                                                               << "; set ACCRUE_TEST_PYTHON");
  const Folder folder;
  write_idx_data(folder);
  const std::string train = "train --model cnn-bn --micro-batch 4 --data " + folder.path().string(),
                    checkpoint = folder / "checkpoints/step-00000003";
  succeed(train + " --steps 3 --checkpoint-dir " + (folder / "checkpoints"));
  const auto path = folder.TemporaryDirectory::write("check.py", script);
  const Output output = shell(
      fmt::format("{} '{}' '{}' '{}'", python, path.string(), checkpoint, folder.path().string()));
  INFO(output.text);
  REQUIRE(output.status == 0);

  const auto loaded = [&](const std::string& name) {
    succeed(train + " --steps 0 --init " + (folder / name) + " --save " + (folder / "again"));
    return file_bytes(folder / "again");
  };
  REQUIRE(loaded("f32") == file_bytes(checkpoint + "/weights.safetensors"));
  const NamedTensors weights = read_safetensors(checkpoint + "/weights.safetensors");
  // A half unit in the last place: 2^-11 of f16, of which the smallest is 2^-24; 2^-8 of bf16.
  for (const auto& [name, precision] : {std::pair{"f16", 0x1p-11f}, {"bf16", 0x1p-8f}}) {
    loaded(name);
    const NamedTensors rounded = read_safetensors(folder / "again");
    REQUIRE(rounded.size() == weights.size());
    bool differs = false;
    for (size_t t = 0; t < weights.size(); ++t) {
      const auto x = weights[t].second.span<float>(), y = rounded[t].second.span<float>();
      for (size_t i = 0; i < x.size(); ++i) {
        const bool near = std::abs(x[i] - y[i]) <= precision * std::abs(x[i]) + 0x1p-25f;
        REQUIRE(near);
        differs |= x[i] != y[i];
      }
    }
    REQUIRE(differs);
  }
}

}  // namespace accrue::test
