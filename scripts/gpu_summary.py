"""Writes the measurements of scripts/gpu_check.py to summary.md, a page, and results.json."""

import json
import pathlib
import re
import statistics

GRAPHS = ("on", "off")
LARGE_BYTES = 256 << 20  # an array that no cache holds


class Target:
    """A figure beside its target, which is a least or a largest value."""

    def __init__(self, name, figure, least=None, most=None):
        self.name, self.figure = name, figure
        self.aim = f">= {least:g}" if most is None else f"<= {most:g}"
        if figure is None:
            self.verdict = "not measured"
        else:
            met = figure >= least if most is None else figure <= most
            self.verdict = "met" if met else "MISSED"


def read_json(text):
    """The parsed text; None if a program was killed while it wrote the text."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return None


def read_measured(folder):
    results = {"gpu": "", "steps": []}
    for file in sorted(folder.glob("*.json")):
        figures = read_json(file.read_text())
        if figures and file.stem.startswith("pytorch-"):
            beside = results.setdefault("pytorch", {"torch": figures["torch"], "results": []})
            beside["results"] += figures["results"]
        elif figures:
            results[file.stem] = figures
    steps = folder / "steps.jsonl"
    if steps.exists():
        lines = filter(None, map(read_json, steps.read_text().splitlines()))
        # The last run of a repeated step counts.
        results["steps"] = list({step["step"]: step for step in lines}.values())
    gpu = folder / "gpu.txt"
    if gpu.exists():
        results["gpu"] = gpu.read_text().strip()
    return results


def window_us(results, model, split, graphs="on"):
    figures = results.get(f"train-{model}-{split}-{graphs}")
    return figures and 1e6 * figures["effective_batch"] / figures["samples_per_s"]


def share_of_copy(results, ladder):
    kernels = results.get("kernels", {"rungs": [], "array_bytes": 0})
    shares = [rung["share_of_copy"] for rung in kernels["rungs"]
              if rung["ladder"] == ladder and rung["rung"].endswith("(shipped)")]
    return shares[0] if shares and kernels["array_bytes"] >= LARGE_BYTES else None


def window_of_eight(results, model):
    """A window's time, with the optimizer's step, over eight times the time of a micro-step."""
    one, four, eight = (window_us(results, model, split) for split in ("32x1", "32x4", "32x8"))
    return eight / (8 * (four - one) / 3) if one and four and eight and four > one else None


def ways_of(results, configuration, names=None):
    """accrue's figures of a configuration, and the figures of PyTorch's ways with these names
    (None: all), or no ways if one of them failed, because the best of the others proves nothing."""
    for result in results.get("pytorch", {"results": []})["results"]:
        if result["configuration"] == configuration:
            ways = dict(result["ways"])
            ways.pop("accrue without graphs", None)
            accrue = ways.pop("accrue")
            wanted = [way for name, way in ways.items() if names is None or name in names]
            return accrue, wanted if all(way["samples_per_s"] for way in wanted) else []
    return None, []


def advantage(results, configuration, names=None):
    """accrue's samples per second over the samples per second of the fastest of these ways."""
    accrue, ways = ways_of(results, configuration, names)
    rates = [statistics.median(way["samples_per_s"]) for way in ways]
    return statistics.median(accrue["samples_per_s"]) / max(rates) if rates else None


def memory_ratio(results, configuration):
    """accrue's peak over the smallest peak of PyTorch's ways, both without the samples."""
    accrue, ways = ways_of(results, configuration)
    peaks = [way["peak_allocated_bytes"] for way in ways]
    return accrue["peak_allocated_bytes"] / min(peaks) if peaks else None


def tokens_per_s(results, name):
    return results.get(f"train-{name}", {}).get("tokens_per_s")


def speed_ratio(results, one, other):
    """The samples per second of one training over another's."""
    rates = [results.get(f"train-{name}", {}).get("samples_per_s") for name in (one, other)]
    return rates[0] / rates[1] if all(rates) else None


def targets(results):
    gpt2, photographs = "gpt2:4x2 bf16", "resnet50:32x2"
    yield Target("gpt2 4 x 2, bf16, speed over torch.compile",
                 advantage(results, gpt2, ("compiled",)), 1)
    yield Target("gpt2 4 x 2, bf16, peak bytes over PyTorch's least", memory_ratio(results, gpt2),
                 most=1)
    yield Target("TinyLlama with LoRA on 4 bits, tokens/s",
                 tokens_per_s(results, "lora-1x4-4-bits"), 25000)
    yield Target("the same, speed over a base in 16 bits",
                 speed_ratio(results, "lora-1x4-4-bits", "lora-1x4-16-bits"), 1)
    for precision, least in (("bf16", 1.5), ("tf32", 1.2), ("fp32", 1)):
        text = photographs if precision == "fp32" else f"{photographs} {precision}"
        yield Target(f"resnet50 32 x 2, {precision}, speed over PyTorch's best",
                     advantage(results, text), least)
    for precision, one in (("bf16", "bf16-first"), ("tf32", "tf32")):
        yield Target(f"resnet50 32 x 2, {precision}, channels last over first, speed",
                     speed_ratio(results, f"resnet50-32x2-{precision}-last",
                                 f"resnet50-32x2-{one}"), 1)
    yield Target("resnet50 8 x 8, activations moved to the host over kept ones, speed",
                 speed_ratio(results, "resnet50-8x8-offload", "resnet50-8x8-keep"), 0.8)
    yield Target("accumulate, bandwidth over a copy's", share_of_copy(results, "accumulate"), 0.9)
    yield Target("Adam, bandwidth over a copy's", share_of_copy(results, "adam"), 0.9)
    for model, eager, best in (("mlp", 5, 1.5), ("cnn", 2, 1.2)):
        small = f"{model}:32x4"
        yield Target(f"{model} 32 x 4, speed over PyTorch eager",
                     advantage(results, small, ("eager",)), eager)
        yield Target(f"{model} 32 x 4, speed over PyTorch's best", advantage(results, small), best)
        yield Target(f"{model}, a window of 8 x 32 over 8 micro-steps",
                     window_of_eight(results, model), most=1.05)
        yield Target(f"{model} 32 x 4, peak bytes over PyTorch's least",
                     memory_ratio(results, small), most=0.7)


def table(heads, rows):
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def number(value, pattern):
    return "" if value is None else pattern.format(value)


def step_lines(steps):
    """A row for each step. Short steps that passed, and steps that were not reached, share rows
    that count them."""
    rows, together = [], {}
    for step in steps:
        kind = " ".join(step["step"].split()[:2])
        if step["status"] == "left" or step["status"] == "passed" and kind == "bench train":
            together.setdefault((kind, step["status"]), []).append(step)
        else:
            rows.append([step["step"], step["status"], step["seconds"], step["need"],
                         step.get("note", "")])
    for (kind, status), those in together.items():
        rows.append([kind, f"{len(those)} {status}", sum(step["seconds"] for step in those),
                     those[0]["need"], those[0].get("note", "")])
    return rows


def case_rows(results):
    """The tests that did not pass, and the line that says why."""
    for stem, figures in results.items():
        for case in figures["cases"] if stem.startswith("cases-") else []:
            if case["status"] in ("failed", "stopped"):
                lines = [line.strip() for line in case["output"].splitlines() if line.strip()]
                told = [line for line in lines if "error:" in line or "FAILED:" in line
                        or "ERROR SUMMARY" in line or "========= " in line and " at " in line]
                yield [stem.removeprefix("cases-"), case["tag"], case["name"], case["status"],
                       (told or lines[-1:] or [""])[0].replace("|", "/")[:120]]


def convolution_rows(results):
    """By model and precision: how often each algorithm and math type was chosen in each direction,
    with the time and memory they took."""
    for stem, figures in results.items():
        if not stem.startswith("convolutions-"):
            continue
        chosen = {}
        for each in figures.get("convolutions", []):
            key = (each["product"], each["algorithm"], each["math"], each["dtype"])
            row = chosen.setdefault(key, {"count": 0, "shapes": 0, "ms": 0.0, "workspace": 0,
                                          "parts": 1, "padded": 0})
            row["shapes"] += 1
            row["count"] += each["count"]
            row["ms"] += (each["ms"] or 0) * each["count"]
            row["workspace"] = max(row["workspace"], each["workspace_bytes"])
            row["parts"] = max(row["parts"], each["parts"])
            row["padded"] += each["padded"]
        for key, row in sorted(chosen.items()):
            yield [stem.removeprefix("convolutions-"), *key, row["shapes"], row["count"],
                   f"{row['ms']:.3f}", f"{row['workspace'] / 1e6:.1f}", row["parts"], row["padded"]]


def profile_rows(results, most=12):
    """The kernels that take the most time, by the profiler."""
    for stem, figures in results.items():
        if stem.startswith("ncu-"):
            total = sum(kernel["us"] for kernel in figures["kernels"])
            for kernel in figures["kernels"][:most]:
                yield [stem.removeprefix("ncu-"), kernel["name"][:60], kernel["launches"],
                       f"{kernel['us'] / kernel['launches']:.2f}", f"{kernel['us'] / total:.1%}",
                       f"{kernel['bytes'] / kernel['us'] / 1e3:.0f}" if kernel["us"] else ""]


def head_rows(results):
    """The launches around the first softmax over logits, with their kernels' whole names."""
    for stem, figures in results.items():
        if stem.startswith("ncu-"):
            for launch in figures.get("head", []):
                yield [stem.removeprefix("ncu-"), launch["name"].replace("|", "/"),
                       f"{launch['us']:.1f}", f"{launch['bytes'] / 1e6:.1f}"]


def large_rows(results):
    for stem, figures in results.items():
        if stem.startswith(("train-resnet50-", "train-resnet-bn", "train-gpt2-", "train-lora-")):
            tokens = figures.get("tokens_per_s")
            yield [stem.removeprefix("train-"), f"{figures['samples_per_s']:,.0f}",
                   number(tokens, "{:,.0f}"),
                   f"{1e3 * figures['effective_batch'] / figures['samples_per_s']:.2f}"]


def count_of_tests(results):
    """The tests that passed, of those that were run or had to be. The sanitizers' are others."""
    cases = {case["name"]: case["status"] for stem, figures in results.items()
             if stem.startswith("cases-") and not re.match("cases-(memcheck|racecheck)", stem)
             for case in figures["cases"]}
    passed = sum(status == "passed" for status in cases.values())
    return f" {passed} of {len(cases)} tests passed." if cases else ""


def train_rows(results):
    for model in ("mlp", "cnn"):
        for split in ("32x4", "8x16", "128x1", "1x32", "32x1", "32x8"):
            figures = [results.get(f"train-{model}-{split}-{graphs}") for graphs in GRAPHS]
            if any(figures):
                yield ([model, split.replace("x", " x ")] +
                       [f"{each['samples_per_s']:,.0f}" if each else "" for each in figures] +
                       [number(window_us(results, model, split, graphs), "{:.1f}")
                        for graphs in GRAPHS])


def kernel_rows(results):
    for rung in results.get("kernels", {"rungs": []})["rungs"]:
        rate, share = rung.get("bytes_per_s"), rung.get("share_of_copy")
        yield [rung["ladder"], rung["rung"], rung["launches"], f"{1e6 * rung['seconds']:.1f}",
               number(rate and rate / 1e9, "{:.0f}"), number(share, "{:.0%}"),
               "ok" if rung["ok"] else "WRONG"]


def memory_rows(results):
    for model in ("mlp", "cnn", "unet", "resnet"):
        for row in results.get(f"memory-{model}", {"rows": []})["rows"]:
            peak = row["peak_bytes"]
            yield [model, row.get("way", ""), f"{row['micro_batch']} x {row['accum']}",
                   *(f"{value / 1e6:.2f}" for value in (
                       peak["activations"], peak["workspace"], peak["total"] - peak["data"])),
                   number(row.get("us_per_sample"), "{:.1f}"),
                   number(row["largest_weight_difference"], "{:.1e}")]


def pytorch_rows(results):
    for result in results.get("pytorch", {"results": []})["results"]:
        for name, way in result["ways"].items():
            rates = way["samples_per_s"]
            yield [result["configuration"], name,
                   f"{statistics.median(rates):,.0f}" if rates else way.get("error", "")[:60],
                   *(number(key in way and way[key] / 1e6 or None, "{:.1f}")
                     for key in ("peak_allocated_bytes", "peak_reserved_bytes"))]


def verdict(results):
    failed = failures(results)
    return f"FAILED: {', '.join(failed)}." if failed else "No required step failed."


def summary(results):
    tables = [
        ("Steps", ["step", "status", "s", "", ""], step_lines(results["steps"])),
        ("Tests that did not pass", ["step", "tag", "test", "", "why"], case_rows(results)),
        ("Targets", ["target", "aim", "measured", ""],
         [[each.name, each.aim, number(each.figure, "{:.3g}"), each.verdict]
          for each in targets(results)]),
        ("Kernels", ["ladder", "rung", "launches", "us", "GB/s", "of a copy", "result"],
         kernel_rows(results)),
        ("Training", ["model", "micro-batch x K", "samples/s", "without graphs", "us a window",
                      "without graphs"], train_rows(results)),
        ("Training, ResNets and language models",
         ["model", "samples/s", "tokens/s", "ms a window"], large_rows(results)),
        ("Time per kernel, by the profiler",
         ["model", "kernel", "launches", "us", "of all", "GB/s"], profile_rows(results)),
        ("Kernels around the first softmax over logits", ["model", "kernel", "us", "MB"],
         head_rows(results)),
        ("Convolutions, 32 images", ["model", "product", "algorithm", "math", "type", "shapes",
                                     "calls", "ms", "workspace MB", "parts", "padded"],
         convolution_rows(results)),
        ("Memory, MB, effective batch 128 (mlp, cnn) and 256",
         ["model", "way", "micro-batch x K", "activations", "workspace", "peak without data",
          "us/sample", "max abs dw"],
         memory_rows(results)),
        ("Beside PyTorch", ["model", "way", "samples/s", "peak MB allocated", "reserved"],
         pytorch_rows(results))]
    text = f"# GPU check\n\n{verdict(results)}{count_of_tests(results)}\n\n{results['gpu']}\n"
    if "pytorch" in results:
        text += f"\n{results['pytorch']['torch']}\n"
    for title, heads, rows in tables:
        rows = list(rows)
        if rows:
            text += f"\n## {title}\n\n{table(heads, rows)}\n"
    return text


def failures(results):
    return [step["step"] for step in results["steps"]
            if step["status"] in ("failed", "left") and step["need"] == "required"
            or step["status"] == "failed" and step["need"] == "budget"]


def write(file, text):
    part = file.with_suffix(".part")
    part.write_text(text)
    part.replace(file)


def main(measured, out):
    """Whether a required step failed or was not reached. A missed target is reported, and fails
    nothing."""
    results = read_measured(pathlib.Path(measured))
    write(pathlib.Path(out) / "results.json", json.dumps(results, indent=1) + "\n")
    write(pathlib.Path(out) / "summary.md", summary(results))
    return bool(failures(results)) or not results["steps"]
