"""One graph of PyTorch's calls as calls of accrue on values, each by its row (docs/pytorch.md)."""

from __future__ import annotations

import contextlib
import math
import operator
import os
import typing

import numpy as np
import torch
import torch.utils.checkpoint

from . import _accrue as a
from . import _pytorch_moves as moves
from . import _pytorch_masks as masks
from ._accrue import Error, Value

_Node = torch.fx.Node
Call = typing.Callable[..., typing.Any]
#: PyTorch's calls by their names. They are added by _pytorch_calls.py.
CALLS: dict[str, Call] = {}


class Empty:
    """A tensor of no elements yet: noise is drawn into it."""

    def __init__(self, shape: tuple):
        self.shape = shape


class Noise:
    """Draws of a dropout: 1 with the probability `keep`, else 0; times `factor`. `origin` drew them."""

    def __init__(self, shape: tuple, keep: float, origin: _Node, factor: float = 1.0):
        self.shape, self.keep, self.origin, self.factor = shape, keep, origin, factor


class Uniform:
    """Draws from [0, 1) by `origin`, plus `above`."""

    def __init__(self, shape: tuple, origin: _Node, above: float = 0.0):
        self.shape, self.origin, self.above = shape, origin, above


class Spread:
    """Constant numbers, the same for each sample."""

    def __init__(self, tensor: torch.Tensor, shape: tuple):
        self.tensor, self.shape = tensor, shape

    def of(self, samples: int) -> torch.Tensor:
        return self.tensor.expand([_of(size, samples) for size in self.shape])


class Place:
    """The places of the samples in their micro-batch, 0, 1, ..., N - 1."""

    def __init__(self, shape: tuple):
        self.shape = shape

    def of(self, samples: int) -> torch.Tensor:
        return torch.arange(samples).reshape([_of(size, samples) for size in self.shape])


def _of(x: typing.Any, samples: int) -> typing.Any:
    """A size, a tensor or something else where there are so many samples."""
    return x._times * samples if isinstance(x, a.Samples) else x.of(samples) if isinstance(x, (Spread, Place)) else x


def sizes(shape: typing.Iterable) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


def line_of(node: typing.Any) -> str:
    """" in net.py:12: `x = x + 1`": the last line of the module's source that led to the call."""
    trace = getattr(node, "meta", {}).get("stack_trace") or ""
    own = os.path.dirname(torch.__file__) + os.sep
    found, place = "", ""
    for line in trace.splitlines():
        line = line.strip()
        if line.startswith('File "'):
            file, _, rest = line[6:].partition('"')
            number = rest.partition("line ")[2].partition(",")[0]
            place = "" if file.startswith(own) else f" in {file}:{number}"
            found = place or found
        elif place and line and not set(line) <= set("~^ "):
            found, place = f"{place}: {line}", ""
    return found


def is_samples(size: typing.Any) -> bool:
    return isinstance(size, a.Samples)


def _functions(of: type) -> typing.Iterator[type]:
    for each in of.__subclasses__():
        yield each
        yield from _functions(each)


@contextlib.contextmanager
def own_gradients_refused() -> typing.Iterator[None]:
    """While a module is called, refuses gradients that are not its calls': torch.export would drop them unseen."""

    def refusing(why: str) -> typing.Callable[..., typing.NoReturn]:
        def refuse(*args: typing.Any, **options: typing.Any) -> typing.NoReturn:
            raise Error(f"{why}: expected calls that have PyTorch's gradients")
        return refuse

    checkpoint = torch.utils.checkpoint.CheckpointFunction
    changed: list[tuple[type, str, typing.Any]] = []

    def change(of: type, name: str, to: typing.Any) -> None:
        changed.append((of, name, of.__dict__.get(name)))
        setattr(of, name, to)

    try:
        for each in set(_functions(torch.autograd.Function)):
            if "forward" in each.__dict__ and not each.__module__.startswith("torch."):
                change(each, "forward", staticmethod(refusing(
                    f"the torch.autograd.Function {each.__qualname__} has a backward() of its own")))
        change(torch.Tensor, "register_hook", refusing("register_hook() is called for a gradient"))
        # A checkpoint has its calls' gradients. By PyTorch's way its calls would be seen without gradients.
        change(checkpoint, "apply", classmethod(lambda _, function, preserve, *args: function(*args)))
        yield
    finally:
        for of, name, was in reversed(changed):
            if was is None:
                delattr(of, name)
            else:
                setattr(of, name, was)


def check_hooks(module: torch.nn.Module) -> None:
    """Refuses hooks of gradients, which nothing would call."""
    for name, each in module.named_modules():
        if each._backward_hooks or each._backward_pre_hooks:
            raise Error(f"{name or type(module).__name__} has backward hooks, which nothing calls: expected none")
    for name, each in module.named_parameters():
        if each._backward_hooks or getattr(each, "_post_accumulate_grad_hooks", None):
            raise Error(f"the parameter {name} has hooks of its gradient, which nothing calls: expected none")


def check_stops(outputs: typing.Iterable[_Node], learned: set[str]) -> None:
    """Refuses torch.no_grad() around a call of the outputs that depends on the placeholders `learned`."""
    for node in with_origins(outputs):
        if node.target is not torch.ops.higher_order.wrap_with_set_grad_enabled or node.args[0]:
            continue
        values, _ = torch.utils._pytree.tree_flatten(node.meta.get("val"))
        found = sorted(each.name for each in with_origins([node]) if each.name in learned)
        if found and any(isinstance(value, torch.Tensor) and value.is_floating_point() for value in values):
            inside = getattr(node.graph.owning_module, node.args[1].target).graph
            line = next((line_of(each) for each in inside.nodes if each.op == "call_function"), "")
            raise Error(f"torch.no_grad(){line}: it stops the gradient of {found[0].removeprefix('p_')}: "
                        "expected parameters with requires_grad=False there, or none")


def with_origins(nodes: typing.Iterable[_Node]) -> set[_Node]:
    """These nodes, and those that they are made of."""
    found: set[_Node] = set()
    left = list(nodes)
    while left:
        node = left.pop()
        if node not in found:
            found.add(node)
            left.extend(node.all_input_nodes)
    return found


def _tables_of(node: _Node) -> typing.Iterator[int]:
    """The rows of the tables into which all numbers of this node are indices."""
    for user in node.users:
        name = str(user.target)
        if name == "aten.embedding.default" and user.args[1] is node:
            yield int(user.args[0].meta["val"].shape[0])
        elif name.split(".")[1:2] and name.split(".")[1] in {"view", "reshape", "clone", "alias", "unsqueeze"}:
            yield from _tables_of(user)


def _moves(node: _Node) -> bool:
    """True if a call's whole numbers are among its operands', and not places that it finds."""
    tensor = node.meta.get("val")
    return node.op != "call_function" or "arg" not in str(node.target) and not (
        isinstance(tensor, torch.Tensor) and (tensor.dtype == torch.bool or tensor.dtype.is_floating_point))


class Caller:
    """Calls of a graph, one after the other. It keeps the places of the samples in mind.

    The samples lie along one dimension of each value that depends on them, of size c N. A value's elements are
    those of sample (i / inner) mod N where i is their place in C order. `outer` counts how often the samples
    come in turn within their dimension: 1 where all elements of a sample lie together.
    """

    def __init__(self, translation: typing.Any, graph: torch.fx.Graph):
        self.translation, self.values = translation, translation.values
        self.symbol: typing.Any = None
        for node in graph.nodes:
            tensor = node.meta.get("val") if node.op == "placeholder" else None
            if isinstance(tensor, torch.Tensor) and tensor.dim() and isinstance(tensor.shape[0], torch.SymInt):
                self.symbol = tensor.shape[0].node.expr
        if self.symbol is None:
            raise Error("the module's calls do not depend on the number of samples: expected x [N, ...]")
        self.samples = a.input(1).shape[0]
        self.outer: dict[int, int] = {}  # of values by their identity
        self.kept: list[Value] = []  # so that identities last
        self.layouts: dict[int, moves.Layout] = {}  # of values that are moved elements of others
        self.masks: dict[tuple[_Node, ...], Value] = {}  # of keys, by the nodes that they join
        self.draws: dict[_Node, tuple[Value, float]] = {}  # noise that several calls share, and what it keeps
        self.binary: set[str] = set()  # inputs of whole numbers with which the module calculates
        self.count = 0
        self.node: _Node | None = None

    def refuse(self, node: typing.Any, why: str) -> typing.NoReturn:
        raise Error(f"{node.target}{line_of(node)}: {why}")

    # Sizes

    def size(self, size: typing.Any) -> typing.Any:
        """A number, or a multiple of N."""
        if isinstance(size, (int, a.Samples)):
            return size
        if isinstance(size, _Node):
            return self.size(size.meta["val"])
        expression = size.node.expr
        if expression.is_Integer:
            return int(expression)
        times = expression / self.symbol
        if not times.is_Integer:
            self.refuse(self.node, f"a size is {expression}: expected numbers, or multiples of the samples "
                        f"{self.symbol}")
        return self.samples * int(times)

    def shape(self, node: _Node | None = None) -> tuple:
        """The sizes of the call's result, or of its first one."""
        tensor = (node or self.node).meta["val"]
        if isinstance(tensor, (list, tuple)):
            tensor = tensor[0]
        return tuple(self.size(size) for size in tensor.shape)

    def place(self, x: typing.Any) -> int | None:
        """The dimension along which samples lie."""
        if not isinstance(x, Value):
            return None
        found = [i for i, size in enumerate(x.shape) if is_samples(size)]
        return found[0] if found else None

    def apart(self, x: typing.Any, dims: typing.Iterable[int]) -> None:
        """Refuses calls that act along the samples."""
        rank = len(x.shape) if isinstance(x, Value) else 0
        place = self.place(x)
        if place is not None and place in [d % rank for d in dims]:
            self.refuse(self.node, f"it acts along dimension {place} of {sizes(x.shape)}, across samples, so that the "
                        "result would depend on the split: expected calls within a sample")

    # Values

    def value(self, x: typing.Any, node: _Node | None = None, whole: bool = False) -> Value:
        """An operand of a call: constants and noise become values."""
        if isinstance(x, Value):
            return x
        if isinstance(x, (bool, int, float)):
            x = torch.tensor(float(x), dtype=torch.float64)
        if isinstance(x, torch.Tensor):
            x = x.detach().cpu()
            if x.dim() == 0:
                x = x.reshape(1)
            return a.constant(x.to(torch.int32).numpy() if whole else x.to(torch.float64).numpy())
        if isinstance(x, Noise):
            return self.drawn(x)
        if isinstance(x, Spread):
            return self.value(x.tensor, node, whole).expand(x.shape)
        self.refuse(node or self.node, f"an operand is {type(x).__name__.lower()}: expected a tensor")

    def number(self, x: typing.Any) -> Value:
        """Whole numbers of the data as numbers: 0 or 1, as masks have them."""
        if isinstance(x, Value) and x._is_whole:
            self.binary.update(self.inputs_of(x))
            return self.flag(self.outer.get(id(x), 1), a.embedding(x, a.constant(np.array([[0.0], [1.0]]))).reshape(x.shape))
        return self.value(x)

    def rows_of(self, x: typing.Any) -> int | None:
        """A number above all of these whole numbers, if each is an index into a table elsewhere."""
        if not isinstance(x, Value) or not x._is_whole:
            return None
        origins = self.origins_of(x)
        if not all(_moves(each) for each in origins):
            return None
        given = [each for each in origins if each.op == "placeholder" and isinstance(self.values.get(each.name), Value)]
        tables = [list(_tables_of(each)) for each in given]
        return max(map(min, tables)) if tables and all(tables) else None

    def origins_of(self, x: Value) -> set[_Node]:
        return with_origins(each for each in self.node.all_input_nodes if self.values.get(each.name) is x)

    def inputs_of(self, x: Value) -> set[str]:
        """The inputs whose whole numbers these are."""
        origins = self.origins_of(x)
        found = {each.name for each in origins
                 if each.op == "placeholder" and isinstance(self.values.get(each.name), Value)}
        if not all(map(_moves, origins)) or any(not self.values[name].shape or not self.values[name]._is_whole
                                                for name in found):
            self.refuse(self.node, "it calculates with whole numbers that the module has found, such as places: "
                        "expected them as indices alone")
        return found

    def drawn(self, noise: Noise) -> Value:
        if not any(map(is_samples, noise.shape)):
            self.refuse(self.node, f"noise {sizes(noise.shape)} is the same for all samples of a micro-batch, so that "
                        "the result would depend on the split: expected noise for each sample")
        if noise.origin not in self.draws:
            ones = a.constant(np.ones([1] * len(noise.shape))).expand(noise.shape)
            self.draws[noise.origin] = self.dropped(ones, 1 - noise.keep), noise.keep
        kept, keep = self.draws[noise.origin]
        if keep != noise.keep:
            self.refuse(self.node, f"noise that keeps {keep} keeps {noise.keep} here: expected noise of its own")
        factor = noise.factor * noise.keep
        return kept if math.isclose(factor, 1) else a.scale(kept, factor)

    def is_alone(self, noise: Noise) -> bool:
        """Whether this call alone sees what was drawn."""
        node = noise.origin
        while node is not self.node:
            if len(node.users) != 1:
                return False
            node = next(iter(node.users))
        return True

    def dropped(self, x: Value, p: float) -> Value:
        """Dropout by the sample, wherever the samples lie."""
        p = round(p, 12)
        if p <= 0:
            return x
        if p >= 1:
            self.refuse(self.node, "everything is dropped: expected a probability below 1")
        place, outer = self.place(x), self.outer.get(id(x), 1)
        if place is None:
            self.refuse(self.node, f"the value {sizes(x.shape)} that is dropped is the same for all samples: expected "
                        "a value for each sample")
        if place == 0 and outer == 1:
            return a.dropout(x, p)
        shape = list(x.shape)
        each = shape[place]._times // outer
        split = x.reshape([*shape[:place], outer, self.samples, each, *shape[place + 1:]])
        axes = list(range(len(split.shape)))
        moved = [place + 1, *axes[:place + 1], *axes[place + 2:]]
        back = [moved.index(i) for i in axes]
        return a.dropout(split.permute(moved), p).permute(back).reshape(shape)

    def flag(self, outer: int, value: Value) -> Value:
        self.outer[id(value)] = outer
        self.kept.append(value)
        return value

    # Calls

    def argument(self, x: typing.Any) -> typing.Any:
        if isinstance(x, _Node):
            value = x.meta.get("val")
            if isinstance(value, torch.SymInt):
                return self.size(value)
            if x.name not in self.values:
                self.refuse(x, "its value is not known")
            return self.values[x.name]
        if isinstance(x, (list, tuple)):
            return [self.argument(each) for each in x]
        return x

    def __call__(self, node: _Node) -> typing.Any:
        if isinstance(node.meta.get("val"), (torch.SymInt, torch.SymBool, torch.SymFloat)):
            return None  # sizes come from what the calls give
        self.node = node
        args = [self.argument(each) for each in node.args]
        options = {name: self.argument(each) for name, each in node.kwargs.items()}
        if node.target is operator.getitem:
            return args[0][args[1]]
        name = str(node.target)
        if self.is_constant(node, args, options):
            options.pop("device", None)
            with torch.no_grad():
                return node.target(*args, **options)
        spread = self.spread(node, args, options)
        if spread is not None:
            return spread
        if name not in CALLS:
            self.refuse(node, "there is no such call in accrue: expected one of accrue.pytorch.calls()")
        before = self.places_in(args)
        try:
            result = CALLS[name](self, *args, **options)
        except Error as error:
            if str(error).startswith(name):
                raise
            raise Error(f"{name}{line_of(node)}: {error}") from error
        except (TypeError, IndexError, ValueError, RuntimeError, ArithmeticError) as error:
            raise Error(f"{name}{line_of(node)}: {error}: expected other arguments") from error
        return self.checked(node, self.moved(node, args, result), before)

    def is_constant(self, node: _Node, args: list, options: dict) -> bool:
        """True if the call gives the same for all samples and steps: PyTorch computes it now."""
        tags = getattr(node.target, "tags", ())
        if torch.Tag.nondeterministic_seeded in tags or "empty" in str(node.target):
            return False
        flat, _ = torch.utils._pytree.tree_flatten([args, options])
        return not any(isinstance(each, (Value, Empty, Noise, Uniform, Spread, Place, a.Samples)) for each in flat)

    def spread(self, node: _Node, args: list, options: dict) -> Spread | None:
        """The result of a call of numbers that are the same for each sample, if it is so, too: PyTorch computes it."""
        flat, structure = torch.utils._pytree.tree_flatten([args, options])
        tags = getattr(node.target, "tags", ())
        if not any(isinstance(x, Spread) for x in flat) or any(isinstance(x, (Value, Empty, Noise, Uniform)) for x in flat) \
                or torch.Tag.nondeterministic_seeded in tags or not isinstance(node.meta.get("val"), torch.Tensor):
            return None
        shape = self.shape()
        if not shape or shape[0] != self.samples or any(map(is_samples, shape[1:])):
            return None
        for samples in (2, 3):
            given, named = torch.utils._pytree.tree_unflatten([_of(x, samples) for x in flat], structure)
            named.pop("device", None)
            try:
                with torch.no_grad():
                    found = node.target(*given, **named)
            except (TypeError, IndexError, ValueError, RuntimeError):
                return None
            if found.shape != (samples, *shape[1:]) or not torch.equal(found, found[:1].expand_as(found)):
                return None
        return Spread(found[:1], shape)

    def places_in(self, args: list) -> set:
        flat, _ = torch.utils._pytree.tree_flatten(args)
        return {self.outer.get(id(x), 1) for x in flat if self.place(x) is not None}

    def checked(self, node: _Node, result: typing.Any, before: set) -> typing.Any:
        """Compares sizes with PyTorch's, and refuses results that mix samples."""
        expected = node.meta.get("val")
        several = isinstance(result, (list, tuple))
        for value, tensor in zip(result if several else [result], expected if several else [expected]):
            if not isinstance(value, Value) or not isinstance(tensor, torch.Tensor):
                continue
            self.count += 1
            shape = tuple(self.size(size) for size in tensor.shape)
            if len(before) > 1:
                self.refuse(node, "its operands have their samples in different orders: expected one order")
            if before and sum(map(is_samples, shape)) != 1:
                self.refuse(node, f"its result {sizes(shape)} mixes samples, so that it would depend on the split: "
                            "expected calls within a sample")
            if tuple(value.shape) != shape and not (shape == () and tuple(value.shape) == (1,)):
                self.refuse(node, f"its result is {sizes(value.shape)} in accrue: expected {sizes(shape)}")
            if before and id(value) not in self.outer:
                self.flag(next(iter(before)), value)
        return result

    # Moved elements

    def layout(self, x: typing.Any) -> moves.Layout | None:
        """Where the elements of a value lie."""
        if id(x) not in self.layouts and self.place(x) == 0 and self.outer.get(id(x), 1) == 1:
            self.lies(x, moves.Layout.of(x))
        return self.layouts.get(id(x))

    def lies(self, x: Value, layout: moves.Layout) -> Value:
        self.layouts[id(x)] = layout
        self.kept.append(x)
        return x

    def moved(self, node: _Node, args: list, result: typing.Any) -> typing.Any:
        """The result of a call, and the value that it moved back to if it did; notes where elements lie."""
        layout = self.layout(args[0]) if args and str(node.target) in moves.MOVES else None
        found = None if layout is None else self.through(node, layout, args[1:])
        if isinstance(found, list):
            return [self.moved_to(x, each) for x, each in zip(result, found)]
        return self.moved_to(result, found)

    def moved_to(self, x: typing.Any, layout: moves.Layout | None) -> typing.Any:
        if layout is None or not isinstance(x, Value):
            return x
        if layout.is_whole():
            x = self.flag(1, moves.shaped(layout.base, x.shape))
        return self.lies(x, layout)

    def through(self, node: _Node, layout: moves.Layout, args: list) -> moves.Moved:
        """The layout of a moving call's result, or a list of them."""
        several = isinstance(node.meta["val"], (list, tuple))
        tensors = node.meta["val"] if several else [node.meta["val"]]
        return moves.MOVES[str(node.target)](layout, args, [[self.size(n) for n in each.shape] for each in tensors])

    def is_moved_back(self, node: _Node, layout: moves.Moved) -> bool:
        """True if all that is read of this call's result needs no copy, if it lies so."""
        for user in node.users:
            name = str(user.target)
            if user.target is operator.getitem:
                found = layout[user.args[1]] if isinstance(layout, list) else None
            elif name in moves.MOVES and isinstance(layout, moves.Layout) and user.args[0] is node:
                found = self.through(user, layout, [self.argument(each) for each in user.args[1:]])
            elif "scaled_dot_product_attention" in name and isinstance(layout, moves.Layout) and (
                    layout.heads() and not any(user.args[4:5]) and not user.kwargs.get("dropout_p") and
                    not set(user.kwargs) - {"attn_mask", "dropout_p", "is_causal", "scale"} and
                    masks.seen_of(self, user) is not None):
                continue
            else:
                return False
            if found is None or not (isinstance(found, moves.Layout) and found.is_whole() or
                                     self.is_moved_back(user, found)):
                return False
        return True

    # Shapes

    def reshaped(self, x: typing.Any, shape: typing.Sequence | None = None) -> typing.Any:
        """x in other sizes, by default the call's."""
        shape = list(self.shape() if shape is None else shape)
        if isinstance(x, Place):
            return Place(tuple(shape))
        if isinstance(x, (Empty, Noise, Uniform)):
            self.refuse(self.node, "noise changes its sizes: expected sizes when it is drawn")
        x = self.value(x)
        if list(x.shape) == shape:
            return x
        place, outer = self.place(x), self.outer.get(id(x), 1)
        made = x.reshape(shape or [1])
        if place is None:
            return made
        found = [i for i, size in enumerate(shape) if is_samples(size)]
        if len(found) != 1:
            self.refuse(self.node, f"{sizes(x.shape)} becomes {sizes(shape)}, which mixes samples: expected one "
                        "dimension of samples")
        turns = math.prod(x.shape[:place]) * outer  # of all samples, one after the other
        inside = math.prod(x.shape[place + 1:]) * x.shape[place]._times // outer
        first, last = math.prod(shape[:found[0]]), math.prod(shape[found[0] + 1:])
        if turns % first or inside % last:
            self.refuse(self.node, f"{sizes(x.shape)} becomes {sizes(shape)}, which mixes samples: "
                        "expected a shape that keeps them apart")
        return self.flag(turns // first, made)

    def expanded(self, x: typing.Any) -> typing.Any:
        """x in the call's sizes, repeated along dimensions of size 1."""
        shape = list(self.shape())
        if isinstance(x, Spread) or isinstance(x, torch.Tensor) and not x.dtype.is_floating_point:
            return Spread(x.tensor if isinstance(x, Spread) else x, tuple(shape))
        x = self.value(x)
        return x if list(x.shape) == shape else x.expand(shape)
