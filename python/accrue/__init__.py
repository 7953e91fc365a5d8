"""Trains any effective batch in the memory you have (docs/python.md)."""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from . import _accrue, _layers, _modules, _names, _signatures
from ._trainer import Trainer as Trainer  # first, too: mypy takes the first of two definitions
from ._accrue import *  # noqa: F403
from ._accrue import Error as Error
from ._accrue import OutOfMemory as OutOfMemory
from ._history import History as History
from ._listening import Epoch as Epoch
from ._losses import loss as loss
from ._modules import from_torch as from_torch
from ._parts import MultiheadAttention as MultiheadAttention
from ._parts import TransformerEncoder as TransformerEncoder
from ._parts import TransformerEncoderLayer as TransformerEncoderLayer
from ._recurrent import GRU as GRU
from ._recurrent import LSTM as LSTM
from ._recurrent import RNN as RNN
from ._results import Info as Info
from ._results import Memory as Memory
from ._results import Plan as Plan
from ._results import Result as Result
from ._results import Score as Score
from ._results import Scores as Scores
from ._results import Weights as Weights
from ._trainer import Trainer as Trainer
from .onnx import from_onnx as from_onnx

__version__: str = _accrue.__version__

# Functions that make layers remember their arguments, by which a layer is pickled.
globals().update(_layers.remembering())

for _type in (_accrue.Layer, Trainer, Result, History):
    _names.explain_attributes(_type)
for _error in (Error, OutOfMemory):
    _error.__module__ = "accrue"

train = _signatures.function(_accrue.train, _modules.train)
plan = _signatures.function(_accrue.plan, _modules.plan)
info = _signatures.function(_accrue.info, _modules.info)
export = _signatures.function(_accrue.export, _modules.export)
export_onnx = export
evaluate = _signatures.function(_accrue.evaluate, _modules.evaluate)
predict = _signatures.function(_accrue.predict, _modules.predict)
generate = _signatures.function(_accrue.generate, _modules.generate)
embed = _signatures.function(_accrue.embed, _modules.embed)

if _TYPE_CHECKING:
    from ._estimators import Classifier as Classifier
    from ._estimators import Regressor as Regressor


def __getattr__(name: str) -> _Any:
    # scikit-learn takes longer to import than all of this.
    if name in ("Classifier", "Regressor"):
        from . import _estimators

        return getattr(_estimators, name)
    raise _names.lacking_in_package(name)


def __dir__() -> list[str]:
    return sorted({*globals(), "Classifier", "Regressor"})
