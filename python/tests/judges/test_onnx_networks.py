"""Networks that ONNX files hold, beside PyTorch's own training in float64, and files of others beside onnxruntime.

The networks of test_torch_modules.py come here by torch.onnx.export in training mode, by both of its exporters. The
bounds are those there. Files of others are those that PyPI's packages bring, if they are installed, and those in the
folder that ACCRUE_ONNX_FILES names.
"""

import importlib.util
import os
import pathlib

import accrue
import numpy as np
import pytest

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")

import test_torch_modules as modules

pytestmark = [pytest.mark.thorough, pytest.mark.filterwarnings("ignore")]
STEPS, WINDOW = modules.STEPS, modules.WINDOW
OUTPUTS = {"googlenet": ["logits", "aux_logits2", "aux_logits1"], "fcn_resnet50": ["out", "aux"]}
# torch.onnx.export without dynamo pools to sizes that divide the image's alone.
SIZES = {"googlenet": 64}

# torch.onnx.export without dynamic_axes: the file says how many samples it has been shown.
FIXED = {"torchscript of 1": 1, "torchscript of 3": 3}


def exported(module, name, x, path, exporter):
    """Writes the module's training graph to a file, for any number of samples unless the exporter says one."""
    fixed = FIXED.get(exporter)
    arguments = tuple(torch.tensor(array[:fixed or 3]) for array in x.values())
    outputs = OUTPUTS.get(name, ["logits"])
    options = dict(input_names=list(x), output_names=outputs, training=torch.onnx.TrainingMode.TRAINING,
                   do_constant_folding=False)
    module.train()
    if exporter == "dynamo":
        pytest.importorskip("onnxscript")
        samples = torch.export.Dim("N", min=2)
        torch.onnx.export(module, arguments, path, dynamo=True, dynamic_shapes=tuple({0: samples} for _ in arguments),
                          opset_version=18, optimize=False, external_data=False, verbose=False, **options)
    else:
        axes = None if fixed else {each: {0: "N"} for each in [*x, *outputs]}
        torch.onnx.export(module, arguments, path, dynamo=False, dynamic_axes=axes, opset_version=17, **options)
    return outputs


def holds_inference(path):
    """Whether a batch norm of the file uses its running statistics, as after training."""
    norms = [n for n in onnx.load(path, load_external_data=False).graph.node if n.op_type == "BatchNormalization"]
    return any(not any(a.name == "training_mode" and a.i == 1 for a in norm.attribute) for norm in norms)


@pytest.mark.parametrize("exporter", ["torchscript", *FIXED, "dynamo"])
@pytest.mark.parametrize("name", modules.MODULES)
def test_steps(name, exporter, tmp_path):
    make, size, *factors = modules.MODULES[name]
    size = SIZES.get(name, size)
    factors = factors[0] if factors else None
    torch.manual_seed(1)
    module = modules.judged(make())
    for each in module.modules():
        if hasattr(each, "padding_idx"):  # which no file holds
            each.padding_idx = None
    state = {n: t.clone() for n, t in module.state_dict().items()}
    x, y = modules.data_of(name, size, STEPS * WINDOW)
    path = str(tmp_path / "net.onnx")
    try:
        exported(module, name, x, path, exporter)
    except Exception as error:  # of the exporter
        needs_samples = FIXED.get(exporter) == 1 and "more than 1 value per channel" in str(error)
        if exporter != "dynamo" and not needs_samples:  # torchscript writes all of them
            raise
        module.load_state_dict(state)
        pytest.skip(f"torch.onnx.export: {' '.join(str(error).split())[:120]}")
    module.load_state_dict(state)
    if holds_inference(path):  # whose gradients differ from PyTorch's in training
        assert exporter == "dynamo"  # torchscript writes batch norms in training mode
        pytest.skip("holds the inference graph")
    if name == "bert" and exporter in FIXED:  # whose masks and types of tokens are calculated for this number
        with pytest.raises(accrue.Error, match="export it with a dynamic batch"):
            accrue.from_onnx(path)
        pytest.skip("refused: made for a number of samples")
    net = accrue.from_onnx(path)
    # Parameters that no weight slot holds, such as a class token.
    parameters = {n for n, _ in module.named_parameters(remove_duplicate=False)}
    others = [n for n in net.constants if n in parameters]
    net = accrue.from_onnx(path, train=others) if others else net
    # The export has run the module, whose running statistics follow.
    state |= {n: torch.tensor(w) for n, w in net.weights.items() if n in state}
    lr = 1e-3
    random = np.random.default_rng(3)
    gradient, weights = modules.steps_of(module, state, x, y, lr, factors)
    order = np.concatenate([i + random.permutation(WINDOW) for i in range(0, len(y), WINDOW)])
    _, moved = modules.steps_of(module, state, {n: array[order] for n, array in x.items()}, y[order], lr, factors)
    module.load_state_dict(state)
    largest = max(np.abs(g).max() for g in gradient.values())
    # The file has one of the names of tied weights.
    at = {n: tensor.data_ptr() for n, tensor in module.state_dict().items()}
    gradient = {next((m for m in net.weights if n not in net.weights and at.get(m) == at[n]), n): g
                for n, g in gradient.items()}
    missing = sorted(set(gradient) - set(net.weights))
    assert not missing, f"the file does not train {missing}"
    floats = [n for n, w in weights.items() if w.dtype.kind == "f" and n in net.weights]
    bound = 10 * max(modules.farthest(moved, weights, floats), 1e-15)

    options = dict(effective_batch=WINDOW, no_shuffle=True, threads=1, schedule="constant", weight_decay=0)
    if any(isinstance(each, torch.nn.modules.batchnorm._BatchNorm) for each in module.modules()):
        options |= dict(batch_norm="window", batch_norm_by="keep")
    if factors:
        options["loss"] = {output: accrue.loss("cross_entropy", weight=f) for output, f in factors.items()}

    def data(n):
        seen = {key: array[:n] for key, array in x.items()}
        return {**seen, **{output: y[:n] for output in factors}} if factors else (
            seen if len(x) > 1 else next(iter(seen.values())), y[:n])

    found = []
    for options["micro_batch"] in (8, 3, 1):
        step = accrue.train(net, data(WINDOW), optimizer="sgd", momentum=0, lr=1, **options)
        difference = max(np.abs(state[n].numpy() - step.weights[n] - g).max() for n, g in gradient.items())
        result = accrue.train(net, data(len(y)), optimizer="adam", lr=lr, eps=1e-3, **options)
        memory = [result.memory[which]["total"] for which in ("this run", "predicted")]
        found.append((difference / largest, modules.farthest(result.weights, weights, floats), memory))
    nodes = len(onnx.load(path, load_external_data=False).graph.node)
    print(f"\n| {name}, {exporter} | {nodes} | {net.calls} | {max(f[0] for f in found):.1e} | {max(f[1] for f in found):.1e} | "
          f"{bound / 10:.1e} | " + " | ".join(f"{m[0]}" + ("" if m[0] == m[1] else f" ({m[1]} predicted)")
                                              for _, _, m in found) + " |")
    for of_gradient, of_weights, memory in found:
        assert of_gradient <= 1e-10
        # Both exporters write the scale 8 ** -0.5 of swin's attention as float32, also in float64.
        assert of_weights <= (1e-11 if name == "swin_t" else bound)
        assert memory[0] == memory[1]
    # The file that is saved has the trained weights, bit for bit.
    check_saved(net, result, others, tmp_path / "tuned.onnx")


def check_saved(net, result, others, path):
    net.save(path, result.weights)
    again = accrue.from_onnx(path, train=others) if others else accrue.from_onnx(path)
    assert sorted(again.weights) == sorted(result.weights)
    for name, array in again.weights.items():
        np.testing.assert_array_equal(array, result.weights[name])


def files_of_others():
    """Paths of files that we did not make, under the names of what brings them."""
    found = {}
    folders = {"onnx": pathlib.Path(onnx.__file__).parent / "backend/test/data/light"}
    for package in ("silero_vad", "magika", "rapidocr_onnxruntime", "ddddocr", "nudenet"):
        spec = importlib.util.find_spec(package)
        if spec and spec.submodule_search_locations:
            folders[package] = pathlib.Path(spec.submodule_search_locations[0])
    if os.environ.get("ACCRUE_ONNX_FILES"):
        folders[""] = pathlib.Path(os.environ["ACCRUE_ONNX_FILES"])
    for package, folder in folders.items():
        for path in sorted(folder.rglob("*.onnx")):
            found[f"{package}/{path.relative_to(folder)}".strip("/")] = path
    return found


def with_weights(path, folder):
    """The file with numbers drawn at random where it has weights filled with one number, as onnx's own have."""
    model = onnx.load(path)
    stored = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    fills = [n for n in model.graph.node if n.op_type == "ConstantOfShape" and n.input[0] in stored]
    if not fills:
        return path
    variances = {n.input[4] for n in model.graph.node if n.op_type == "BatchNormalization"}
    random = np.random.default_rng(6)
    for fill in fills:
        shape = tuple(stored[fill.input[0]])
        array = random.normal(size=shape) * (np.sqrt(2 / max(np.prod(shape[1:]), 1)) if len(shape) > 1 else 0.1)
        if fill.output[0] in variances:
            array = np.abs(array) + 1
        model.graph.initializer.append(onnx.numpy_helper.from_array(array.astype(np.float32), fill.output[0]))
        model.graph.node.remove(fill)
    sizes = {fill.input[0] for fill in fills}
    for each in [i for i in model.graph.initializer if i.name in sizes]:
        model.graph.initializer.remove(each)
    held = sizes | {each.name for each in model.graph.initializer}
    for each in [i for i in model.graph.input if i.name in held]:
        model.graph.input.remove(each)
    model.ir_version = max(model.ir_version, 4)  # from which on a constant need not be an input
    onnx.save(model, folder / path.name)
    return folder / path.name


#: Sizes of one sample where a file leaves them free.
IMAGES = {"nudenet": (3, 64, 64), "ch_PP-OCRv4_det": (3, 64, 64), "ch_PP-OCRv4_rec": (3, 48, 64),
          "ch_ppocr_mobile": (3, 48, 64), "common.onnx": (1, 64, 64), "common_old": (1, 64, 64), "lstm": (10, 4)}


def question_of(path, name, n):
    """Samples as the file takes them, and their sizes where it leaves them free."""
    file = accrue.onnx.described_inputs(path)
    random = np.random.default_rng(4)
    samples, x = {}, {}
    for each, kind, sizes in file:
        given = next((size for key, size in IMAGES.items() if key in name), None)
        known = [size if isinstance(size, int) else None for size in sizes[1:]]
        if None in known:
            if given is None or len(given) != len(known):
                raise pytest.skip.Exception(f"free sizes {sizes}")
            samples[each] = known = list(given)
        if kind.startswith("float"):
            x[each] = random.normal(size=(n, *known)).astype(np.float64 if kind == "float64" else np.float32)
        else:
            x[each] = random.integers(0, 200 if "32" in kind or "64" in kind else 2, (n, *known)).astype(
                {"bool": bool}.get(kind, kind))
    return x, samples


def answers_of_others(path, x):
    """onnxruntime's answers: sample by sample where the file says a number of samples."""
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    fixed = [i.shape[0] for i in session.get_inputs() if i.shape and isinstance(i.shape[0], int)]
    n = len(next(iter(x.values())))
    step = fixed[0] if fixed else n
    parts = [session.run(names, {k: a[i:i + step] for k, a in x.items()}) for i in range(0, n, step)]
    return {name: np.concatenate([part[i] for part in parts]) for i, name in enumerate(names)}


@pytest.mark.parametrize("name", files_of_others())
def test_files_of_others(name, tmp_path):
    path = with_weights(files_of_others()[name], tmp_path)
    pytest.importorskip("onnxruntime")
    try:
        x, samples = question_of(path, name, 3)
        net = accrue.from_onnx(path, samples=samples)
    except accrue.Error as error:
        assert not name.startswith("onnx/"), error  # all of which are taken
        pytest.skip(f"refused: {str(error).removeprefix(str(path) + ': ')}")
    expected = answers_of_others(path, x)
    asked = x if net.by_name else next(iter(x.values()))
    found = accrue.predict(net, asked)
    if not isinstance(found, dict):
        found = {net.outputs[0]: found}
    largest = {o: max(np.abs(expected[o]).max(), 1e-30) for o in net.outputs}
    difference = max(np.abs(found[o] - expected[o].reshape(found[o].shape)).max() / largest[o] for o in net.outputs)
    sizes = list(largest.values())
    # One window by its splits, and a few steps.
    random = np.random.default_rng(5)
    y = {o: (random.normal(size=found[o].shape) * largest[o]).astype(np.float32) for o in net.outputs}
    data = {**x, **y} if net.by_name else (asked, next(iter(y.values())))
    options = dict(effective_batch=3, no_shuffle=True, schedule="constant", weight_decay=0, precision="fp64",
                   loss={o: "mse" for o in net.outputs} if net.by_name else "mse")
    own = {n: np.asarray(w, np.float64) for n, w in net.weights.items()}
    gradients = []
    for micro in (3, 2, 1):
        step = accrue.train(net, data, optimizer="sgd", momentum=0, lr=1e-3, epochs=1, micro_batch=micro, **options)
        gradients.append({n: own[n] - step.weights[n] for n in own})
    largest = max(np.abs(g).max() for g in gradients[0].values())
    splits = max(np.abs(g[n] - gradients[0][n]).max() for g in gradients for n in own) / largest
    run = accrue.train(net, data, optimizer="adam", lr=1e-4, epochs=3, micro_batch=2, **options)
    print(f"\n| {name} | {net.calls} calls | forward {difference:.1e} | splits {splits:.1e} | "
          f"loss {run.losses[0]:.6g} to {run.losses[-1]:.6g} |")
    # onnxruntime's Sigmoid is right to 1e-7, however small it is.
    assert difference < 2e-4 or max(difference * size for size in sizes) < 2e-7
    assert np.isfinite(run.losses).all() and largest > 0
    assert splits < 1e-10
    assert run.losses[-1] < run.losses[0]
