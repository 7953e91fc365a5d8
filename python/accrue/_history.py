"""The course of a training: arrays by window."""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    import numpy


class History(dict[str, "numpy.ndarray"]):
    """The course of a training, a dict of arrays with an element for each window.

    "step", "epoch" (from 0), "loss", "lr", "grad_norm", "samples_per_second" or what the network
    counts, such as "tokens_per_second", and "seconds" of training so far, without scores. The
    scores of validation are "val_loss", "val_accuracy" and so on, NaN after the other windows.
    With several networks "player" is the one that the window belongs to.

    Examples
    --------
    >>> history = accrue.train("mlp-small", "digits", steps=3).history
    >>> history["step"]
    array([1, 2, 3])
    """

    def to_pandas(self) -> typing.Any:
        """Makes a table of the windows, by pandas.

        Returns
        -------
        pandas.DataFrame
            A row for each window.
        """
        import pandas

        return pandas.DataFrame(dict(self))

    def plot(self, ax: typing.Any = None) -> typing.Any:
        """Draws losses by step, and below them the other scores of validation, by matplotlib.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where the losses alone are drawn.

        Returns
        -------
        Axes or ndarray of them
            The Axes, or an array of two.
        """
        scores = [name for name in self if name.startswith("val_") and name != "val_loss"]
        if ax is not None:
            self._draw(ax, "loss", "val_loss")
            return ax
        import matplotlib.pyplot

        _, axes = matplotlib.pyplot.subplots(2 if scores else 1, sharex=True, squeeze=False,
                                             layout="constrained")
        self._draw(axes[0, 0], "loss", "val_loss")
        if scores:
            self._draw(axes[1, 0], *scores)
        axes[-1, 0].set_xlabel("step")
        return axes[:, 0] if scores else axes[0, 0]

    def _draw(self, ax: typing.Any, *names: str) -> None:
        import numpy

        for name in names:
            if name not in self:
                continue
            there = ~numpy.isnan(self[name])
            if "player" in self and name == "loss":
                for player in dict.fromkeys(self["player"].tolist()):
                    its = there & (self["player"] == player)
                    ax.plot(self["step"][its], self[name][its], label=f"{player} {name}")
            else:
                ax.plot(self["step"][there], self[name][there], label=name,
                        marker="." if name.startswith("val_") else None)
        ax.legend()

    def __repr__(self) -> str:
        names = ", ".join(self)
        return f"<accrue.History of {len(self['loss'])} windows: {names}>"

    def __reduce__(self) -> typing.Any:
        return History, (dict(self),)


def _history(columns: dict, samples: numpy.ndarray, scores: list, players: list, unit: str,
             pieces: float) -> History:
    import numpy

    history = History(columns)
    # On CUDA up to eight windows are reported at once, so a rate is over so many.
    many = 8
    if len(samples):
        lost = numpy.concatenate([numpy.zeros(1), numpy.cumsum(samples)])
        times = numpy.concatenate([numpy.zeros(1), columns["seconds"]])
        after = numpy.arange(1, len(samples) + 1)
        before = numpy.maximum(after - many, 0)
        passed = times[after] - times[before]
        with numpy.errstate(divide="ignore", invalid="ignore"):
            rates = numpy.where(passed > 0, pieces * (lost[after] - lost[before]) / passed, numpy.nan)
        history[f"{unit}_per_second"] = rates
    if players:
        history["player"] = numpy.array(players)
    for windows, score in scores:
        for name, value in score.items():
            if not isinstance(value, float):  # a count
                continue
            column = history.setdefault(f"val_{name}", numpy.full(len(samples), numpy.nan))
            if windows:
                column[windows - 1] = value
    return history
