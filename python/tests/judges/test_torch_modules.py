"""Networks of torchvision, transformers and a small GPT, given as modules, beside PyTorch's own training in float64.

Five steps of Adam, whole, in every split, and by two ranks. The bound is ten times the distance of PyTorch from itself
with the samples of a window in another order. Nothing is dropped, because PyTorch draws other masks; a dropout of 0 is no call.

    python -m pytest -m thorough -s -k test_steps python/tests/judges/test_torch_modules.py

prints the table of docs/pytorch.md.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import unittest.mock

import accrue
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn
from torch.nn import functional

pytestmark = pytest.mark.thorough
STEPS, WINDOW, CLASSES, LR = 5, 8, 5, 1e-3


class Hardsigmoid(nn.Module):
    """PyTorch's has a gradient of 1/6 in float32, whatever it computes in."""

    def forward(self, x):
        return torch.clamp(x / 6 + 0.5, 0, 1)


def judged(module):
    """The module as it is compared: nothing is dropped."""
    for each in module.modules():
        if type(each).__name__ in ("Dropout", "StochasticDepth"):
            each.p = 0.0
        for name, child in each.named_children():
            if isinstance(child, nn.Hardsigmoid):
                setattr(each, name, Hardsigmoid())
    return module.double()


def vision(name, **options):
    torchvision = pytest.importorskip("torchvision")
    return getattr(torchvision.models, name)(num_classes=CLASSES, **options)


def googlenet():
    return vision("googlenet", init_weights=False)


def fcn():
    segmentation = pytest.importorskip("torchvision").models.segmentation
    return segmentation.fcn_resnet50(weights=None, weights_backbone=None, num_classes=3, aux_loss=True)


def bert():
    transformers = pytest.importorskip("transformers")
    return transformers.BertForSequenceClassification(transformers.BertConfig(
        vocab_size=17, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=16, num_labels=CLASSES, hidden_dropout_prob=0, attention_probs_dropout_prob=0))


def vit():
    torchvision = pytest.importorskip("torchvision")
    return torchvision.models.VisionTransformer(
        image_size=32, patch_size=8, num_layers=2, num_heads=4, hidden_dim=32, mlp_dim=64, num_classes=CLASSES)


def swin():
    torchvision = pytest.importorskip("torchvision")
    return torchvision.models.SwinTransformer(
        patch_size=[4, 4], embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=[4, 4], num_classes=CLASSES)


class Gpt(nn.Module):
    """A small GPT whose head is tied to its embedding."""

    class Block(nn.Module):
        def __init__(self, n, heads):
            super().__init__()
            self.heads = heads
            self.ln_1, self.ln_2 = nn.LayerNorm(n), nn.LayerNorm(n)
            self.c_attn, self.c_proj = nn.Linear(n, 3 * n), nn.Linear(n, n)
            self.c_fc, self.mlp = nn.Linear(n, 4 * n), nn.Linear(4 * n, n)

        def forward(self, x):
            B, T, C = x.size()
            q, k, v = self.c_attn(self.ln_1(x)).split(C, dim=2)
            q, k, v = (t.view(B, T, self.heads, C // self.heads).transpose(1, 2) for t in (q, k, v))
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))
            return x + self.mlp(functional.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))

    def __init__(self, vocabulary=17, context=12, n=16, heads=2, layers=2):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, n), nn.Embedding(context, n)
        self.h = nn.ModuleList(self.Block(n, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(n)
        self.lm_head = nn.Linear(n, vocabulary, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.size(1), device=tokens.device))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


# The module, its pixels, and factors of its outputs' losses, if there are several.
MODULES = {
    "mobilenet_v3_small": (lambda: vision("mobilenet_v3_small"), 64),
    "efficientnet_b0": (lambda: vision("efficientnet_b0"), 32),
    "convnext_tiny": (lambda: vision("convnext_tiny"), 32),
    "densenet121": (lambda: vision("densenet121"), 32),
    "squeezenet1_1": (lambda: vision("squeezenet1_1"), 64),
    "shufflenet_v2_x0_5": (lambda: vision("shufflenet_v2_x0_5"), 32),
    "regnet_y_400mf": (lambda: vision("regnet_y_400mf"), 64),
    "googlenet": (googlenet, 32, {"logits": 1, "aux_logits2": 0.3, "aux_logits1": 0.3}),
    "vit_b_16": (vit, 32),
    "swin_t": (swin, 32),
    "fcn_resnet50": (fcn, 32, {"out": 1, "aux": 0.5}),
    "bert": (bert, 0),
    "gpt": (Gpt, 0),
}


def data_of(name, size, n):
    """Arrays by the names of the arguments, and the answers."""
    random = np.random.default_rng(2)
    if name == "gpt":
        tokens = random.integers(0, 17, (n, 13))
        counts = np.arange(12) < random.integers(4, 13, (n, 1))  # the others are padding
        return {"tokens": tokens[:, :-1]}, np.where(counts, tokens[:, 1:], -100)
    if name == "bert":
        mask = (np.arange(12) < random.integers(4, 13, (n, 1))).astype(np.int64)
        return {"input_ids": random.integers(0, 17, (n, 12)), "attention_mask": mask}, random.integers(0, CLASSES, n)
    x = random.normal(size=(n, 3, size, size))
    return {"x": x}, random.integers(0, 3, (n, size, size)) if name == "fcn_resnet50" else random.integers(0, CLASSES, n)


def loss_of(answers, y, factors):
    if factors is None:
        answers = getattr(answers, "logits", answers)
        answers = answers.flatten(0, 1) if answers.dim() == 3 else answers  # [N, T, V], labels [N, T]
        return functional.cross_entropy(answers, y.flatten() if answers.dim() == 2 else y)
    outputs = answers if isinstance(answers, dict) else answers._asdict()
    return sum(factor * functional.cross_entropy(outputs[name], y) for name, factor in factors.items())


def steps_of(module, state, x, y, lr, factors):
    """PyTorch's gradient of the first window, and its weights after all."""
    module.load_state_dict(state)
    module.train()
    optimizer = torch.optim.Adam(module.parameters(), lr=lr, eps=1e-3)
    first = None
    for i in range(0, len(y), WINDOW):
        optimizer.zero_grad()
        window = [torch.tensor(array[i:i + WINDOW]) for array in (*x.values(), y)]
        answers = module(**dict(zip(x, window))) if len(x) > 1 else module(window[0])
        loss_of(answers, window[-1], factors).backward()
        first = first or {n: p.grad.numpy().copy() for n, p in module.named_parameters() if p.grad is not None}
        optimizer.step()
    return first, {n: p.detach().clone().numpy() for n, p in module.state_dict().items()}


def farthest(a, b, names):
    return max(np.abs(np.asarray(a[name]) - np.asarray(b[name])).max() for name in names)


class Judged:
    """A module, its data, and PyTorch's results, by which others are judged."""

    def __init__(self, name, asks_pytorch=True):
        make, size, *factors = MODULES[name]
        self.factors = factors[0] if factors else None
        torch.manual_seed(1)
        self.module = judged(make())
        self.state = {n: t.clone() for n, t in self.module.state_dict().items()}
        self.x, self.y = data_of(name, size, STEPS * WINDOW)
        if asks_pytorch:
            self.ask_pytorch()
        self.traced = accrue.from_torch(self.module, self.x if len(self.x) > 1 else next(iter(self.x.values())))

    def ask_pytorch(self):
        random = np.random.default_rng(3)
        self.gradient, self.weights = steps_of(self.module, self.state, self.x, self.y, LR, self.factors)
        order = np.concatenate([i + random.permutation(WINDOW) for i in range(0, len(self.y), WINDOW)])
        _, moved = steps_of(self.module, self.state, {n: array[order] for n, array in self.x.items()}, self.y[order],
                            LR, self.factors)
        self.module.load_state_dict(self.state)
        self.largest = max(np.abs(g).max() for g in self.gradient.values())
        self.floats = [n for n, w in self.weights.items() if w.dtype.kind == "f"]
        self.bound = 10 * max(farthest(moved, self.weights, self.floats), 1e-15)

    def train(self, by, micro_batch):
        """A step of SGD on the first window, which moves weights by the gradient, or all steps of Adam."""
        options = dict(micro_batch=micro_batch, effective_batch=WINDOW, no_shuffle=True, threads=1,
                       schedule="constant", weight_decay=0)
        if any(isinstance(each, nn.modules.batchnorm._BatchNorm) for each in self.module.modules()):
            options |= dict(batch_norm="window", batch_norm_by="keep")
        if self.factors:
            options["loss"] = {output: accrue.loss("cross_entropy", weight=f) for output, f in self.factors.items()}
        if by == "sgd":
            return accrue.train(self.traced, self.data(WINDOW), optimizer="sgd", momentum=0, lr=1, **options)
        return accrue.train(self.traced, self.data(len(self.y)), optimizer="adam", lr=LR, eps=1e-3, **options)

    def data(self, n):
        seen = {key: array[:n] for key, array in self.x.items()}
        if self.factors:
            return {**seen, **{output: self.y[:n] for output in self.factors}}
        return seen if len(seen) > 1 else next(iter(seen.values())), self.y[:n]

    def differences(self, after_step, after_all):
        """The gradient's as a part of its largest, and the weights' in the end."""
        of_gradient = max(np.abs(np.asarray(self.state[n] - after_step[n]) - g).max() for n, g in self.gradient.items())
        return of_gradient / self.largest, farthest(after_all, self.weights, self.floats)

    def decide(self, of_gradient, of_weights):
        assert of_gradient <= 1e-10
        assert of_weights <= self.bound


@pytest.mark.parametrize("name", MODULES)
def test_steps(name):
    judge, found = Judged(name), []
    for micro_batch in (8, 3, 1):
        step, result = (judge.train(by, micro_batch) for by in ("sgd", "adam"))
        memory = [result.memory[which]["total"] for which in ("this run", "predicted")]
        found.append((*judge.differences(step.state_dict(), result.state_dict()), memory))
    print(f"\n| {name} | {judge.traced.calls} | {max(f[0] for f in found):.1e} | {max(f[1] for f in found):.1e} | "
          f"{judge.bound / 10:.1e} | " + " | ".join(f"{m[0]}" + ("" if m[0] == m[1] else f" ({m[1]} predicted)")
                                                    for _, _, m in found) + " |")
    for of_gradient, of_weights, memory in found:
        judge.decide(of_gradient, of_weights)
        assert memory[0] == memory[1]
    module = judge.module
    module.load_state_dict(result.state_dict(), strict=True)
    assert {int(t) for n, t in module.state_dict().items() if n.endswith("num_batches_tracked")} <= {STEPS}


SMALL = dict(vocab_size=17, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
NO_DROPOUT = dict(hidden_dropout_prob=0, attention_probs_dropout_prob=0, max_position_embeddings=16)
SMALL_GPT2 = dict(vocab_size=17, n_embd=32, n_layer=2, n_head=2, n_positions=16, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
# Modules of transformers that make their loss of `labels`: class, configuration, and the type of the numbers.
WITH_LABELS = {
    "GPT2LMHeadModel": ("GPT2Config", SMALL_GPT2, torch.float64),
    "GPT2ForSequenceClassification": ("GPT2Config", SMALL_GPT2 | dict(num_labels=3, pad_token_id=0), torch.float64),
    "BertForMaskedLM": ("BertConfig", SMALL | NO_DROPOUT, torch.float64),
    "RobertaForTokenClassification": ("RobertaConfig", SMALL | NO_DROPOUT | dict(num_labels=5), torch.float64),
    # Its norms compute in float32 also in float64.
    "LlamaForCausalLM": ("LlamaConfig", SMALL | dict(num_key_value_heads=2, max_position_embeddings=16), torch.float32),
}


@pytest.mark.parametrize("name", WITH_LABELS)
def test_labels_of_transformers(name):
    transformers = pytest.importorskip("transformers")
    config, options, dtype = WITH_LABELS[name]
    torch.manual_seed(1)
    module = getattr(transformers, name)(getattr(transformers, config)(**options)).to(dtype).train()
    random = np.random.default_rng(2)
    there = np.arange(12) < random.integers(4, 13, (WINDOW, 1))
    ids = np.where(there, random.integers(1, 17, (WINDOW, 12)), 0)
    x = {"input_ids": ids, "attention_mask": there.astype(np.int64)}
    if name.startswith("Roberta"):  # it would calculate places and types of the tokens
        places = np.broadcast_to(np.arange(2, 14), ids.shape).copy()
        x |= {"position_ids": places, "token_type_ids": np.zeros_like(ids)}
    if name.endswith("SequenceClassification"):
        labels = random.integers(0, 3, WINDOW)
    else:
        labels = np.where(there, ids if "LM" in name else ids % 5, -100)
    with unittest.mock.patch.object(torch.Tensor, "float", lambda each: each):  # losses would become float32
        module(**{n: torch.tensor(array) for n, array in x.items()}, labels=torch.tensor(labels)).loss.backward()
    largest = max(float(p.grad.abs().max()) for p in module.parameters() if p.grad is not None)
    for micro_batch in (8, 3):
        state = accrue.train(module, {**x, "labels": labels}, micro_batch=micro_batch, effective_batch=WINDOW, threads=1,
                             optimizer="sgd", momentum=0, lr=1, weight_decay=0, schedule="constant",
                             epochs=1).state_dict()
        worst = max(float((p.detach() - state[n] - p.grad).abs().max()) for n, p in module.named_parameters()
                    if p.grad is not None)
        print(f"{name}, {micro_batch}: {worst / largest:.1e}")
        assert worst <= largest * (1e-10 if dtype == torch.float64 else 1e-5)


def have_ranks():
    info = subprocess.run([sys.executable, "-m", "accrue", "info", "--model", "mlp-small"], capture_output=True,
                          text=True, check=True)
    return shutil.which("mpirun") and "MPI: none" not in info.stdout


def train_as_rank(name, by, folder):
    """A process of two, which lists the module's calls itself, trains once, and leaves its state."""
    torch.set_num_threads(1)
    rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["PMI_RANK"]
    torch.save(Judged(name, asks_pytorch=False).train(by, 3).state_dict(), pathlib.Path(folder) / f"{by}-{rank}.pt")


def state_of_ranks(name, by, folder):
    may_share = dict(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                     OMPI_MCA_rmaps_base_oversubscribe="1", PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe")
    paths = [str(pathlib.Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    work = f"import test_torch_modules as t; t.train_as_rank({name!r}, {by!r}, {str(folder)!r})"
    done = subprocess.run(["mpirun", "-n", "2", sys.executable, "-c", work], capture_output=True, text=True,
                          timeout=900, env=os.environ | may_share | dict(PYTHONPATH=os.pathsep.join(paths)))
    assert done.returncode == 0, done.stdout + done.stderr
    ours, theirs = (torch.load(folder / f"{by}-{rank}.pt") for rank in (0, 1))
    for each in ours:
        np.testing.assert_array_equal(ours[each], theirs[each], err_msg=each)
    return ours


@pytest.mark.parametrize("name", MODULES)
def test_steps_of_two_ranks(name, tmp_path):
    if not have_ranks():
        pytest.skip("no mpirun, or accrue is built without MPI")
    judge = Judged(name)
    differences = judge.differences(*(state_of_ranks(name, by, tmp_path) for by in ("sgd", "adam")))
    print(f"\n| {name}, two ranks | " + " | ".join(f"{d:.1e}" for d in differences) + " |")
    judge.decide(*differences)
