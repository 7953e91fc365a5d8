"""Trains any effective batch in the memory you have (docs/python.md)."""

from ._accrue import *  # noqa: F403
from ._accrue import __version__  # noqa: F401
from ._results import Info, Memory, Plan, Result, Score, Scores, Weights  # noqa: F401
