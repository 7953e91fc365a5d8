"""Tests of gpu_summary.py on made-up measurements."""

import json
import pathlib
import tempfile
import unittest

import gpu_summary


def rung(ladder, name, share):
    return {"ladder": ladder, "rung": name, "launches": 1, "bytes": 1, "seconds": 1e-3, "error": 0,
            "ok": True, "bytes_per_s": 4e12, "share_of_copy": share}


def step(name, status="passed", need="required"):
    return {"step": name, "status": status, "seconds": 2, "need": need}


def train(split, samples_per_s):
    micro_batch, accum = (int(number) for number in split.split("x"))
    return {"effective_batch": micro_batch * accum, "samples_per_s": samples_per_s}


def pytorch(configuration, accrue, eager, compiled, failed=()):
    def way(rate, peak):
        return {"samples_per_s": [rate, rate], "peak_allocated_bytes": peak}
    return {"configuration": configuration,
            "ways": {"accrue": way(accrue, 6e6), "accrue without graphs": {"samples_per_s": [1.0]},
                     "eager": way(eager, 12e6), "compiled": way(compiled, 10e6),
                     **{name: {"samples_per_s": [], "error": "no compiler"} for name in failed}}}


MEASURED = {
    "kernels": {"array_bytes": 256 << 20, "rungs": [
        rung("accumulate", "scalar", 0.2), rung("accumulate", "flat (shipped)", 0.95),
        rung("adam", "fused, flat (shipped)", 0.85)]},
    "train-mlp-32x1-on": train("32x1", 32 / 1.5e-3),
    "train-mlp-32x4-on": train("32x4", 128 / 4.5e-3),
    "train-mlp-32x8-on": train("32x8", 256 / 8.5e-3),
    "train-mlp-32x8-off": train("32x8", 16e3),
    "pytorch-mlp-32x4": {"torch": "PyTorch 2.11",
                         "results": [pytorch("mlp:32x4", 100e3, 10e3, 80e3)]},
    "pytorch-mlp-8x16": {"torch": "PyTorch 2.11",
                         "results": [pytorch("mlp:8x16", 90e3, 5e3, 70e3)]},
    "memory-mlp": {"rows": [{"way": "fused", "micro_batch": 32, "accum": 4,
                             "us_per_sample": 2.5, "largest_weight_difference": 1e-7,
                             "peak_bytes": {"activations": 1e6, "workspace": 0, "data": 5e6,
                                            "total": 14e6}}]},
}


def run(measured, steps):
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "out").mkdir()
        (folder / "in").mkdir()
        for name, figures in measured.items():
            (folder / "in" / f"{name}.json").write_text(json.dumps(figures))
        (folder / "in" / "killed.json").write_text('{"rungs": [')
        (folder / "in" / "steps.jsonl").write_text("".join(json.dumps(s) + "\n" for s in steps))
        (folder / "in" / "gpu.txt").write_text("A GPU\n")
        status = gpu_summary.main(folder / "in", folder / "out")
        results = json.loads((folder / "out" / "results.json").read_text())
        return status, (folder / "out" / "summary.md").read_text(), results


class Summary(unittest.TestCase):
    def verdicts(self, measured):
        _, _, results = run(measured, [])
        return {target.name: (target.verdict, target.figure)
                for target in gpu_summary.targets(results)}

    def test_targets(self):
        verdicts = self.verdicts(MEASURED)
        self.assertEqual(verdicts["accumulate, bandwidth over a copy's"], ("met", 0.95))
        self.assertEqual(verdicts["Adam, bandwidth over a copy's"], ("MISSED", 0.85))
        self.assertEqual(verdicts["mlp 32 x 4, speed over PyTorch eager"], ("met", 10))
        self.assertEqual(verdicts["mlp 32 x 4, speed over PyTorch's best"], ("MISSED", 1.25))
        verdict, figure = verdicts["mlp, a window of 8 x 32 over 8 micro-steps"]
        self.assertEqual(verdict, "MISSED")  # micro-steps of 1 ms and a step of 0.5 ms
        self.assertAlmostEqual(figure, 8.5 / 8)
        self.assertEqual(verdicts["mlp 32 x 4, peak bytes over PyTorch's least"], ("met", 0.6))
        self.assertEqual(verdicts["cnn 32 x 4, speed over PyTorch eager"], ("not measured", None))

    def test_targets_of_language_models_and_photographs(self):
        verdicts = self.verdicts({
            "train-lora-1x4-4-bits": train("1x4", 24.0) | {"tokens_per_s": 24e3},
            "train-lora-1x4-16-bits": train("1x4", 20.0) | {"tokens_per_s": 20e3},
            "train-resnet50-32x2-bf16-first": train("32x2", 100.0),
            "train-resnet50-32x2-bf16-last": train("32x2", 120.0),
            "train-resnet50-8x8-keep": train("8x8", 100.0),
            "train-resnet50-8x8-offload": train("8x8", 90.0),
            "pytorch-a": {"torch": "", "results": [pytorch("gpt2:4x2 bf16", 360, 130, 300),
                                                   pytorch("resnet50:32x2", 600, 700, 650)]},
            "pytorch-b": {"torch": "", "results": [
                pytorch("resnet50:32x2 tf32", 2000, 1000, 1600)]}} | MEASURED)
        self.assertEqual(verdicts["gpt2 4 x 2, bf16, speed over torch.compile"], ("met", 1.2))
        self.assertEqual(verdicts["gpt2 4 x 2, bf16, peak bytes over PyTorch's least"],
                         ("met", 0.6))
        self.assertEqual(verdicts["TinyLlama with LoRA on 4 bits, tokens/s"], ("MISSED", 24e3))
        self.assertEqual(verdicts["the same, speed over a base in 16 bits"], ("met", 1.2))
        beside = "resnet50 32 x 2, {}, speed over PyTorch's best"
        self.assertEqual(verdicts[beside.format("fp32")], ("MISSED", 600 / 700))
        self.assertEqual(verdicts[beside.format("tf32")], ("met", 1.25))
        self.assertEqual(verdicts[beside.format("bf16")], ("not measured", None))
        self.assertEqual(verdicts["resnet50 32 x 2, bf16, channels last over first, speed"],
                         ("met", 1.2))
        moved = "resnet50 8 x 8, activations moved to the host over kept ones, speed"
        self.assertEqual(verdicts[moved], ("met", 0.9))

    def test_large_networks_and_the_head(self):
        launch = {"name": "gemm<(int)8>(a | b)", "us": 900.5, "bytes": 7e6}
        _, page, _ = run({
            "train-lora-1x4-4-bits": {"samples_per_s": 24.0, "tokens_per_s": 24e3,
                                      "effective_batch": 4},
            "ncu-gpt2": {"kernels": [launch | {"launches": 2}], "head": [launch]},
            "cases-ops": {"cases": [{"name": "a", "status": "left"},
                                    {"name": "b", "status": "passed"}]},
            "cases-memcheck-of-all-ops": {"cases": [{"name": "c", "status": "left"}]}}, [step("a")])
        self.assertIn("No required step failed. 1 of 2 tests passed.\n", page)
        self.assertIn("| lora-1x4-4-bits | 24 | 24,000 | 166.67 |", page)
        self.assertIn("| gpt2 | gemm<(int)8>(a / b) | 900.5 | 7.0 |", page)

    def test_a_cached_array_is_no_bandwidth(self):
        small = {"kernels": MEASURED["kernels"] | {"array_bytes": 1 << 20}}
        self.assertEqual(self.verdicts(small)["Adam, bandwidth over a copy's"][0], "not measured")

    def test_the_best_is_unknown_where_a_way_failed(self):
        failed = pytorch("mlp:32x4", 100e3, 10e3, 80e3, failed=["compiled"])
        verdicts = self.verdicts({"pytorch-mlp-32x4": {"torch": "", "results": [failed]}})
        self.assertEqual(verdicts["mlp 32 x 4, speed over PyTorch eager"], ("met", 10))
        self.assertEqual(verdicts["mlp 32 x 4, speed over PyTorch's best"][0], "not measured")

    def test_page(self):
        status, page, results = run(MEASURED, [step("build"), step("bench train mlp 32x8")])
        self.assertEqual(status, 0)
        self.assertIn("| mlp | 32 x 8 | 30,118 | 16,000 | 8500.0 | 16000.0 |", page)
        self.assertIn("| mlp | fused | 32 x 4 | 1.00 | 0.00 | 9.00 | 2.5 | 1.0e-07 |", page)
        self.assertIn("| bench train | 1 passed |", page)
        self.assertIn("\n\nA GPU\n\nPyTorch 2.11\n\n", page)
        self.assertIn("| mlp:8x16 | compiled | 70,000 |", page)
        self.assertEqual(results["gpu"], "A GPU")

    def test_nothing_measured(self):
        status, page, _ = run({}, [step("build", "failed")])
        self.assertEqual(status, 1)
        self.assertIn("| build | failed |", page)
        self.assertNotIn("MISSED", page)

    def test_status(self):
        self.assertEqual(run({}, [step("memcheck", "failed")])[0], 1)
        self.assertEqual(run({}, [step("racecheck", "failed", "budget")])[0], 1)
        self.assertEqual(run({}, [step("racecheck", "stopped", "budget")])[0], 0)
        self.assertEqual(run({}, [step("beside PyTorch", "failed", "optional")])[0], 0)
        self.assertEqual(run({}, [])[0], 1)

    def test_the_last_time_of_a_step_counts(self):
        status, page, _ = run({}, [step("tests", "failed"), step("build"), step("tests")])
        self.assertEqual(status, 0)
        self.assertIn("No required step failed.\n", page)
        self.assertEqual(page.count("| tests |"), 1)

    def test_what_was_not_reached(self):
        status, page, _ = run({}, [step("tests"), step("bench kernels", "left")])
        self.assertEqual(status, 1)
        self.assertIn("FAILED: bench kernels.", page)
        self.assertEqual(run({}, [step("memcheck", "left", "budget")])[0], 0)

    def test_tests_that_did_not_pass(self):
        cases = [{"tag": "ops", "name": "relu", "status": "failed", "seconds": 1,
                  "output": "x.cpp:3: FAILED:\n  1 | 2"},
                 {"tag": "ops", "name": "tanh", "status": "passed", "seconds": 1, "output": ""}]
        _, page, _ = run({"cases-ops": {"cases": cases}}, [step("ops", "failed")])
        self.assertIn("| ops | ops | relu | failed | x.cpp:3: FAILED: |", page)
        self.assertNotIn("tanh", page)

    def test_convolutions(self):
        each = {"product": "forward", "algorithm": "IMPLICIT_GEMM", "math": "FMA_MATH",
                "dtype": "f32", "count": 2, "workspace_bytes": 4e6, "parts": 1, "padded": False,
                "ms": 0.25}
        both = [each, each | {"parts": 2}]
        _, page, _ = run({"convolutions-cnn-fp32": {"convolutions": both}}, [])
        self.assertIn("| cnn-fp32 | forward | IMPLICIT_GEMM | FMA_MATH | f32 | 2 | 4 | 1.000 |"
                      " 4.0 | 2 | 0 |", page)
