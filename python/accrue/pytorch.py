"""Networks of torch.nn.Module: torch.export lists a module's calls, and each becomes a call of ours.

docs/pytorch.md describes it. PyTorch is imported here alone, when a module is given.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import typing

import numpy as np

from . import _accrue
from ._accrue import Error
from ._origins import Origin
from ._results import Weights

try:
    import torch
except ImportError as error:
    raise Error("torch is not installed: expected PyTorch 2.6 or newer beside accrue") from error

from torch.export.graph_signature import InputKind, OutputKind
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils import _pytree

from . import _pytorch_calls, _pytorch_graph

#: Samples in the example by which a module is traced. PyTorch takes the number for a constant where it meets it again.
_EXAMPLE = 13


@dataclasses.dataclass(repr=False)
class FromTorch(Origin):
    """A module as a network of values; takes the module's place as `model` everywhere.

    `network` has the calls, `weights` the module's values, and `state_dict` makes the module's of trained ones.
    A module of one input of numbers and one output takes data (x, y); another takes arrays by their names.
    """

    module: torch.nn.Module
    network: _accrue.Network
    weights: Weights
    frozen: list[str]  #: names of parameters that do not require a gradient
    dtype: torch.dtype
    inputs: list[str]  #: names of the arguments that the module takes
    outputs: list[str]  #: names of its results
    calls: int  #: of the network
    by_name: bool  #: data comes by these names: there are several, or integers
    _counts: dict[str, int]  # running means, and how often a step updates them
    _binary: frozenset[str]  # inputs of whole numbers with which the module calculates
    _copies: dict[str, str]  # names of tied weights and shared buffers, and the name that the network knows
    _answer: str | None  # the output that a y without a name is compared with

    _kind = "module"
    _one_output = 'model=accrue.from_torch(model, x, outputs="{}")'

    @property
    def _is_wide(self) -> bool:
        return self.dtype == torch.float64

    @property
    def answer(self) -> str | None:
        return self._answer

    def data(self, data: typing.Any) -> typing.Any:
        """(x, y) as the network takes it, or arrays by their names, as a module of transformers takes them."""
        if isinstance(data, dict) and _has_labels(self.module, data) and "labels" not in self.outputs:
            labels = _labels_as_compared(self.module, data["labels"])
            self.check_one_output()
            return self._checked({self._answer if name == "labels" else name: labels if name == "labels" else array
                                  for name, array in data.items()})
        return super().data(data)

    def state_dict(self, weights: typing.Mapping[str, typing.Any] | None = None,
                   steps: int = 0) -> dict[str, torch.Tensor]:
        """The module's state_dict with these weights in it, after so many steps."""
        weights = self.weights if weights is None else weights
        for name, own in self.weights.items():
            if name not in weights or np.shape(weights[name]) != np.shape(own):
                given = f"{name} {list(np.shape(weights[name]))}" if name in weights else f"no {name}"
                raise Error(f"the weights have {given}: expected those of the module's training, {name} "
                            f"{list(np.shape(own))}")
        state = self.module.state_dict()
        for name, tensor in state.items():
            known = self._copies.get(name, name)
            if known in weights:
                value = torch.as_tensor(np.array(weights[known]))
                state[name] = value.reshape(tensor.shape).to(tensor.dtype)
            elif name.endswith("num_batches_tracked"):
                updated = name.removesuffix("num_batches_tracked") + "running_mean"
                state[name] = tensor.detach().cpu() + steps * self._counts.get(self._copies.get(updated, updated), 0)
            else:
                state[name] = tensor.detach().clone()
        return state


def from_torch(module: torch.nn.Module, x: typing.Any, *, training: bool = True,
               outputs: typing.Sequence[str] | str | None = None) -> FromTorch:
    """Describes a module as a network, by torch.export of a call on samples like x [N, ...].

    A module in training mode is taken as it is. One in eval mode, as pretrained ones often come, is put in
    training mode for this; with training=False it stays, so that its dropouts do nothing and its batch norms
    use the running statistics. `outputs` names the results to keep if it has several.
    """
    if not isinstance(module, torch.nn.Module):
        raise Error(f"model is {type(module).__name__}: expected a torch.nn.Module")
    within = {"OptimizedModule": "model._orig_mod", "DataParallel": "model.module",
              "DistributedDataParallel": "model.module"}.get(type(module).__name__)
    if within is not None or isinstance(module, torch.jit.ScriptModule):
        raise Error(f"model is {type(module).__name__}, which has a module within: expected that module itself, "
                    f"{within or 'as it was before torch.jit'}")
    if any(each.is_meta for each in [*module.parameters(), *module.buffers()]):
        raise Error(f'{type(module).__name__} is on the device "meta" and has no values: expected a module with values')
    _check_batch_norms(module)
    examples = _examples(module, x)
    modes = {each: each.training for each in module.modules()}
    config = getattr(module, "config", None)
    has_cache = getattr(config, "use_cache", None) is True  # of transformers: what is kept for the next token
    try:
        if has_cache:
            config.use_cache = False
        if training and not module.training:
            module.train()
        elif not training:
            module.eval()
        program = _exported(module, examples)
    finally:
        for each, mode in modes.items():
            each.training = mode
        if has_cache:
            config.use_cache = True
    return _Translation(module, program).run([outputs] if isinstance(outputs, str) else outputs)


def _check_batch_norms(module: torch.nn.Module) -> None:
    for name, each in module.named_modules():
        if isinstance(each, _BatchNorm) and each.track_running_stats and each.momentum is None:
            raise Error(f"the batch norm {name or type(each).__name__} has momentum=None, by which its statistics "
                        "depend on how often they were updated: expected a number, such as 0.1")
    first: dict[int, str] = {}
    for name, each in module.named_modules(remove_duplicate=False):
        if isinstance(each, _BatchNorm) and first.setdefault(id(each), name) != name:
            raise Error(f"the batch norm {name} is {first[id(each)]} as well, and torch.export cannot list changes of "
                        "one statistic under two names: expected one name for each batch norm")


def _dtype_of(module: torch.nn.Module) -> torch.dtype:
    types = {p.dtype for p in module.parameters()}
    if not types:
        raise Error(f"{type(module).__name__} has no parameters: expected a module that learns")
    if len(types) > 1 or not types <= {torch.float32, torch.float64}:
        names = " and ".join(sorted(str(t).removeprefix("torch.") for t in types))
        raise Error(f"the parameters of {type(module).__name__} are {names}: expected float32 or float64, which "
                    'module.float() makes of them; precision="bf16" computes in 16 bits')
    return types.pop()


def _examples(module: torch.nn.Module, x: typing.Any) -> dict[str, torch.Tensor] | tuple[torch.Tensor, ...]:
    """Zeros of the samples' sizes and types, a few samples."""
    dtype = _dtype_of(module)
    device = next(module.parameters()).device

    def example(of: typing.Any) -> torch.Tensor:
        if not hasattr(of, "shape") or not hasattr(of, "dtype"):
            of = np.asarray(of)
        shape, kind = tuple(of.shape), str(of.dtype).removeprefix("torch.")
        if len(shape) < 1 or kind in ("object", "str"):
            raise Error(f"x is {kind} {list(shape)}: expected an array of samples [N, ...]")
        if kind == "uint8" and len(shape) == 3:  # images, as accrue takes them
            shape = (shape[0], 1, *shape[1:])
        whole = "int" in kind and kind != "uint8"
        return torch.zeros((_EXAMPLE, *shape[1:]), dtype=torch.int64 if whole else dtype, device=device)

    if isinstance(x, dict):
        taken = inspect.signature(module.forward).parameters
        takes_all = any(each.kind == each.VAR_KEYWORD for each in taken.values())
        has_labels = _has_labels(module, x)
        return {name: example(each) for name, each in x.items()
                if (takes_all or name in taken) and not (has_labels and name == "labels")}
    return tuple(map(example, x)) if isinstance(x, tuple) else (example(x),)


def _has_labels(module: torch.nn.Module, data: dict[str, typing.Any]) -> bool:
    """True if a module of transformers would make a loss of the array `labels`."""
    return ("labels" in data and hasattr(module, "loss_type") and
            "labels" in inspect.signature(module.forward).parameters)


def _labels_as_compared(module: torch.nn.Module, labels: typing.Any) -> np.ndarray:
    """The labels by which such a module makes its loss, at the places of the answers that it compares with them."""
    known = ("ForCausalLM", "ForMaskedLM", "ForTokenClassification", "ForSequenceClassification",
             "ForImageClassification")
    given, is_fetched = labels, hasattr(labels, "_accrue_part")
    labels = labels.first if is_fetched else np.asarray(labels)
    kind, config = getattr(module, "loss_type", None), getattr(module, "config", None)
    uses_table = "self.loss_function(" in inspect.getsource(inspect.unwrap(type(module).forward))
    if kind is None and uses_table:
        kind = "ForCausalLM"  # of GPT2LMHeadModel and its like
    is_own = getattr(module, "_loss_function", None) is not None or getattr(config, "output_router_logits", False)
    if kind not in known or is_own or kind == "ForCausalLM" and not uses_table or labels.dtype.kind not in "iu":
        raise Error(f"labels {labels.dtype} {list(labels.shape)} for the loss {kind} of {type(module).__name__}: "
                    f"expected whole numbers, for one of {', '.join(known)}; give others as (x, y), or by an output's "
                    "name, with a loss of accrue's")
    if kind != "ForCausalLM":
        return given if is_fetched else labels
    return given.changed(_told_next) if is_fetched else _told_next(labels)


def _told_next(labels: np.ndarray) -> np.ndarray:
    """Labels [N, T] at the places of the tokens before them."""
    after = np.full_like(labels, -100, dtype=np.int32 if labels.dtype.kind == "u" else labels.dtype)
    after[:, :-1] = labels[:, 1:]
    return after


def _exported(module: torch.nn.Module, examples: typing.Any) -> torch.export.ExportedProgram:
    # PyTorch asks whether a tensor of few samples lies in memory in another order, which decides nothing here.
    samples = torch.export.Dim("N", min=_EXAMPLE, max=1 << 30)
    named = isinstance(examples, dict)
    _pytorch_graph.check_hooks(module)
    sizes = {name: {0: samples} for name in examples} if named else tuple({0: samples} for _ in examples)
    try:
        with _pytorch_graph.own_gradients_refused():
            program = torch.export.export(module, () if named else examples, examples if named else None,
                                          dynamic_shapes=sizes, strict=False)
        _check_stops(module, program)
        program = program.run_decompositions({})
        return _decomposed(program)
    except Error:
        raise
    except Exception as error:
        why = " ".join(str(error).split())[:400] or type(error).__name__
        if "fake tensor in the exported program constant's list" in why:
            raise Error(f"{type(module).__name__} takes a tensor's elements past torch.export, as x.data does: expected "
                        "x.detach(), or x itself") from error
        raise Error(f"torch.export cannot list the calls of {type(module).__name__} for any number of samples: "
                    f"{why}") from error


def _check_stops(module: torch.nn.Module, program: torch.export.ExportedProgram) -> None:
    learned = {name for name, each in module.named_parameters(remove_duplicate=False) if each.requires_grad}
    signature = program.graph_signature
    results = next(node for node in program.graph.nodes if node.op == "output").args[0]
    outputs = [node for node, spec in zip(results, signature.output_specs)
               if spec.kind == OutputKind.USER_OUTPUT and isinstance(node, torch.fx.Node)]
    _pytorch_graph.check_stops(outputs, {spec.arg.name for spec in signature.input_specs
                                         if spec.kind == InputKind.PARAMETER and spec.target in learned})


def _decomposed(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Calls that we do not know are made of others, where PyTorch says how."""
    tried: set[typing.Any] = set()
    known = None
    while True:
        unknown = {node.target for node in program.graph.nodes
                   if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)
                   and str(node.target) not in _pytorch_calls.CALLS} - tried
        if not unknown:
            return program
        known = torch.export.default_decompositions() if known is None else known
        tried |= unknown
        table = {op: known[op] for op in unknown if op in known}
        if not table:
            return program
        program = program.run_decompositions(table)


class _Translation:
    """One module's calls, turned into a network."""

    def __init__(self, module: torch.nn.Module, program: torch.export.ExportedProgram):
        self.module, self.program = module, program
        self.dtype = _dtype_of(module)
        self.parameters = dict(module.named_parameters(remove_duplicate=False))
        self.buffers = dict(module.named_buffers(remove_duplicate=False))
        first: dict[int, str] = {}
        self.copies = {name: first.setdefault(id(each), name)
                       for name, each in [*self.parameters.items(), *self.buffers.items()]}
        self.held: dict[str, _accrue.Value] = {}
        self.fixed: set[str] = set()  # parameters that are constants of the network
        self.counts: dict[str, int] = {}  # of calls that update a running mean
        self.values: dict[str, typing.Any] = {}

    def run(self, outputs: typing.Sequence[str] | None) -> FromTorch:
        graph, signature = self.program.graph, self.program.graph_signature
        results = next(node for node in graph.nodes if node.op == "output").args[0]
        wanted = [node for node, spec in zip(results, signature.output_specs)
                  if spec.kind == OutputKind.USER_OUTPUT]
        names = self._output_names(len(wanted))
        if outputs is not None:
            missing = [name for name in outputs if name not in names]
            if missing:
                raise Error(f"the module has no output {missing[0]}: expected some of {', '.join(names)}")
            wanted, names = [wanted[names.index(name)] for name in outputs], list(outputs)
        keep = [(node, name) for node, name in zip(wanted, names) if isinstance(node, torch.fx.Node)]
        self._check_changes(results, signature)
        needed = _pytorch_graph.with_origins([node for node, _ in keep])
        inputs: list[tuple[str, _accrue.Value]] = []
        specs = {spec.arg.name: spec for spec in signature.input_specs}
        call = _pytorch_graph.Caller(self, graph)
        for node in graph.nodes:
            if node.op == "placeholder":
                value = self._placeholder(node, specs[node.name], inputs, needed)
                if value is not None:
                    self.values[node.name] = value
            elif node.op == "call_function" and node in needed:
                self.values[node.name] = call(node)
        found = [call.value(self.values[node.name], node) for node, _ in keep]
        for value, (node, name) in zip(found, keep):
            if not value.shape or value.shape[0] != call.samples:
                call.refuse(node, f"the output {name} is {_pytorch_graph.sizes(value.shape)}, which has no samples "
                            "first: expected [N, ...], and no loss, which is accrue's to make of the answers and y")
        by_name = len(inputs) > 1 or len(found) > 1 or any(value._is_whole for _, value in inputs)
        if not inputs:
            raise Error("the outputs do not depend on x: expected a module of its inputs")
        network = _accrue.Network(dict(inputs), dict(zip((name for _, name in keep), found)))
        for name in self.fixed:
            del self.held[name]
        weights = Weights({name: self._array(self.parameters.get(name, self.buffers.get(name)))
                           for name in self.held})
        frozen = [name for name in self.held
                  if name in self.parameters and not self.parameters[name].requires_grad]
        return FromTorch(self.module, network, weights, frozen, self.dtype, [name for name, _ in inputs],
                         [name for _, name in keep], call.count, by_name, self.counts,
                         frozenset(call.binary), self.copies, self._answer_of([name for _, name in keep]))

    def _answer_of(self, outputs: list[str]) -> str | None:
        """The output that answers: the only one, or `logits` of a module of transformers."""
        is_known = hasattr(self.module, "loss_type") and "logits" in outputs
        return outputs[0] if len(outputs) == 1 else "logits" if is_known else None

    def _output_names(self, count: int) -> list[str]:
        spec = self.program.call_spec.out_spec
        paths, _ = _pytree.tree_flatten_with_path(_pytree.tree_unflatten(list(range(count)), spec))
        names = [_pytree.keystr(path).strip("[]'.").replace("']['", ".") or "output" for path, _ in paths]
        taken = self.program.graph_signature.user_inputs
        return [f"output_{name}" if name.isdigit() or name in taken else name for name in names]

    @staticmethod
    def _array(tensor: torch.Tensor) -> np.ndarray:
        return tensor.detach().cpu().numpy()

    def _placeholder(self, node: torch.fx.Node, spec: typing.Any, inputs: list[tuple[str, _accrue.Value]],
                     needed: set[torch.fx.Node]) -> typing.Any:
        if spec.kind == InputKind.USER_INPUT:
            tensor = node.meta.get("val")
            if not isinstance(tensor, torch.Tensor):
                return spec.arg.value if hasattr(spec.arg, "value") else tensor
            sizes = [int(size) for size in tensor.shape[1:]]
            whole = not tensor.dtype.is_floating_point
            value = _accrue.input(tuple(sizes), dtype="int32" if whole else "float32", name=node.name)
            if node in needed:
                inputs.append((node.name, value))
            return value
        if node not in needed:
            return None
        if spec.kind == InputKind.PARAMETER:
            return self.parameter(spec.target)
        if spec.kind == InputKind.BUFFER:
            return self.buffers[spec.target].detach().cpu()
        if spec.kind == InputKind.CONSTANT_TENSOR:
            return self.program.constants[spec.target].detach().cpu()
        raise Error(f"the module takes {node.name}, a {spec.kind.name.lower()}: expected tensors")

    def parameter(self, name: str) -> _accrue.Value:
        known = self.copies[name]
        if known not in self.held:
            self.held[known] = _accrue.parameter(tuple(self.parameters[known].shape), known)
        return self.held[known]

    def buffer(self, name: str) -> _accrue.Value:
        known = self.copies[name]
        if known not in self.held:
            self.held[known] = _accrue.buffer(tuple(self.buffers[known].shape), known)
        return self.held[known]

    def name_of(self, node: typing.Any, kind: InputKind) -> str | None:
        """The name of the parameter or buffer that a placeholder stands for."""
        if not isinstance(node, torch.fx.Node):
            return None
        for spec in self.program.graph_signature.input_specs:
            if spec.arg.name == node.name and spec.kind == kind:
                return spec.target
        return None

    def _check_changes(self, results: typing.Any, signature: typing.Any) -> None:
        """A call may change running statistics and their counts alone."""
        for node, spec in zip(results, signature.output_specs):
            if spec.kind == OutputKind.USER_OUTPUT:
                continue
            name = str(spec.target)
            target = str(getattr(getattr(node, "args", (None,))[0], "target", ""))
            is_statistic = spec.kind == OutputKind.BUFFER_MUTATION and (
                name.endswith("num_batches_tracked") or "batch_norm" in target)
            if not is_statistic:
                raise Error(f"a call of the module changes {name}{_pytorch_graph.line_of(node)}: "
                            "expected no change but that of a batch norm's running statistics")


def calls() -> list[str]:
    """The calls of PyTorch that accrue makes."""
    return sorted(_pytorch_calls.CALLS)


def traced(model: torch.nn.Module, x: typing.Any, options: dict[str, typing.Any]) -> FromTorch:
    """The network of a module on x, the samples of a caller's data."""
    if x is None or isinstance(x, (str, os.PathLike)):
        raise Error("model is a torch.nn.Module, and data is no arrays: expected data=(x, y), or "
                    "model=accrue.from_torch(model, x) by samples x like those of the data")
    if options.get("crop") is not None:
        raise Error("model is a torch.nn.Module, and crop= changes the size that it sees: expected "
                    "model=accrue.from_torch(model, x) by samples x of that size")
    return from_torch(model, x)
