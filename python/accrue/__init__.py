"""Trains any effective batch in the memory you have (docs/python.md)."""

import typing as _typing

from . import _accrue, _layers, _modules, _signatures
from ._accrue import *  # noqa: F403
from ._accrue import Error, OutOfMemory, __version__  # noqa: F401
from ._history import History  # noqa: F401
from ._listening import Epoch  # noqa: F401
from ._losses import loss  # noqa: F401
from ._modules import Trainer, from_torch  # noqa: F401
from ._parts import (  # noqa: F401
    GRU,
    LSTM,
    RNN,
    MultiheadAttention,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from .onnx import from_onnx  # noqa: F401
from ._results import Info, Memory, Plan, Result, Score, Scores, Weights  # noqa: F401

# Functions that make layers remember their arguments, by which a layer is pickled.
globals().update(_layers.remembering())

for _error in (Error, OutOfMemory):
    _error.__module__ = "accrue"

train = _signatures.function(_accrue.train, _modules.train)
plan = _signatures.function(_accrue.plan, _modules.plan)
info = _signatures.function(_accrue.info, _modules.info)
export = _signatures.function(_accrue.export, _modules.export)
evaluate = _signatures.function(_accrue.evaluate, _modules.evaluate)
predict = _signatures.function(_accrue.predict, _modules.predict)
generate = _signatures.function(_accrue.generate)
embed = _signatures.function(_accrue.embed)

if _typing.TYPE_CHECKING:
    from ._estimators import Classifier, Regressor  # noqa: F401


def __getattr__(name: str) -> _typing.Any:
    # scikit-learn takes longer to import than all of this.
    if name in ("Classifier", "Regressor"):
        from . import _estimators

        return getattr(_estimators, name)
    raise AttributeError(f"module 'accrue' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), "Classifier", "Regressor"})
