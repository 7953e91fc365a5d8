"""Callbacks and the bar of a run."""

from __future__ import annotations

import dataclasses
import sys
import time
import typing

from . import _accrue

if typing.TYPE_CHECKING:
    from ._results import Score


@dataclasses.dataclass(frozen=True)
class Epoch:
    """An epoch that has ended, the argument of on_epoch.

    Attributes
    ----------
    epoch : int
        Its number, from 0.
    step : int
        Optimizer steps taken so far.
    loss : float
        The mean over the epoch.
    lr : float
        The learning rate of the last window.
    seconds : float
        The time of training so far, without scores.
    validation : Score or None
        The latest score in this epoch of what is scored on the way.

    Examples
    --------
    >>> losses = []
    >>> result = accrue.train("mlp-small", "digits", epochs=1, effective_batch=1024,
    ...                       on_epoch=lambda epoch: losses.append(epoch.loss))
    >>> len(losses)
    1
    """

    epoch: int
    step: int
    loss: float
    lr: float
    seconds: float
    validation: Score | None = None


def _functions(given: typing.Any, name: str) -> list:
    functions = [] if given is None else list(given) if isinstance(given, (list, tuple)) else [given]
    for function in functions:
        if not callable(function):
            what = "a Step" if name == "on_step" else "an Epoch"
            raise _accrue.Error(f"{name} is {function!r}: expected a function of {what}, or a list of functions")
    return functions


def _is_false(result: typing.Any) -> bool:
    """True for False, also NumPy's, which a comparison of its numbers gives."""
    import numpy

    return result is False or isinstance(result, numpy.bool_) and not result


def _all_go_on(functions: list, argument: typing.Any) -> bool:
    """Calls all functions. False if one of them returns False."""
    return not any([_is_false(function(argument)) for function in functions])


def _is_notebook() -> bool:
    """True in Jupyter. Nobody is there who has not imported IPython."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if hasattr(ipython, "get_ipython") else None
    return type(shell).__name__ == "ZMQInteractiveShell"


def _bar_type(progress: bool | None, may_show: bool) -> typing.Any:
    """tqdm's class of a bar, or None for no bar."""
    if progress is not None and not isinstance(progress, bool):
        raise _accrue.Error(f"progress is {progress!r}: expected True, False or None")
    in_notebook = _is_notebook()
    is_watched = in_notebook or (sys.stderr is not None and sys.stderr.isatty())
    if progress is False or (progress is None and not (may_show and is_watched)):
        return None
    try:
        if not in_notebook:
            from tqdm.std import tqdm

            return tqdm
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # without ipywidgets it is a line of text
            from tqdm.autonotebook import tqdm

            return tqdm
    except ImportError:
        if progress is None:
            return None
        raise _accrue.Error("progress=True is tqdm's bar, but there is no tqdm: expected pip install tqdm, or "
                            "quiet=False") from None


class _Listener:
    """Hears of the windows, scores and epochs of a run, from RunListener."""

    def __init__(self, on_step: list, on_epoch: list, bar_type: typing.Any, measure: typing.Any):
        self._on_step, self._on_epoch, self._bar_type = on_step, on_epoch, bar_type
        self._measure = measure
        self.hears_steps = bool(on_step) or bar_type is not None
        self._bar: typing.Any = None
        self._drawn = 0.0
        self._loss: float | None = None
        self._validation: tuple[int, typing.Any] | None = None

    def begin(self, steps: int, total: int) -> None:
        if self._bar_type is not None:
            self._bar = self._bar_type(initial=steps, total=total, unit="step", dynamic_ncols=True)

    def step(self, step: typing.Any) -> bool:
        goes_on = _all_go_on(self._on_step, step)
        if self._bar is not None:
            self._loss = step.loss
            now = time.monotonic()
            if now - self._drawn > 0.1:
                self._drawn = now
                self._describe()
            self._bar.update(step.step - self._bar.n)
        return goes_on

    def score(self, epoch: int, windows: int, score: typing.Any, is_best: bool) -> None:
        if self._measure is not None:
            self._measure(score)
        self._validation = epoch, score
        if self._bar is not None:
            self._describe()

    def epoch(self, epoch: int, step: int, loss: float, lr: float, seconds: float) -> bool:
        scored = self._validation
        ended = Epoch(epoch, step, loss, lr, seconds, scored[1] if scored and scored[0] == epoch else None)
        return _all_go_on(self._on_epoch, ended)

    def _describe(self) -> None:
        texts = [] if self._loss is None else [f"loss={self._loss:.4g}"]
        if self._validation:
            texts += [f"val_{name}={value:.4g}" for name, value in self._validation[1].items()
                      if isinstance(value, float)][:2]
        self._bar.set_postfix_str(", ".join(texts), refresh=False)

    def close(self) -> None:
        if self._bar is not None:
            self._describe()
            self._bar.close()
            self._bar = None


def listener(on_step: typing.Any, on_epoch: typing.Any, progress: bool | None, may_show: bool,
             measure: typing.Any) -> _Listener:
    return _Listener(_functions(on_step, "on_step"), _functions(on_epoch, "on_epoch"),
                     _bar_type(progress, may_show), measure)
