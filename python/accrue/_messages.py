"""Notes of the module's functions go to the logger "accrue", warnings to Python's `warnings`."""

from __future__ import annotations

import logging
import os
import sys
import warnings

logger = logging.getLogger("accrue")
logger.addHandler(logging.NullHandler())  # a library leaves it to its caller where notes are shown

_HERE = os.path.dirname(os.path.abspath(__file__))


def logs_notes() -> bool:
    """True if a note of a call would be seen by the caller's handlers."""
    return logger.isEnabledFor(logging.INFO)


def say(text: str, is_error: bool, is_quiet: bool) -> None:
    """Hands on what a call of the module has to say, one line or more."""
    if is_error:
        _say_errors(text)
        return
    if not is_quiet:
        sys.stdout.write(text)
        sys.stdout.flush()
    if text.endswith("\n"):  # others are drawn over
        for line in text.rpartition("\r\033[K")[2].splitlines():
            if line.strip():
                logger.info("%s", line)


def _say_errors(text: str) -> None:
    """Warnings by `warnings`. Whatever else the program says at an error goes where it said it before."""
    drawn, _, line = text.rpartition("\r\033[K")
    if not line.startswith("warning: "):
        sys.stderr.write(text)
        sys.stderr.flush()
        return
    if drawn:
        sys.stderr.write(drawn)
    warnings.warn(line[len("warning: "):].rstrip("\n"), UserWarning, stacklevel=_level_of_caller())


def _level_of_caller() -> int:
    """The stacklevel of the first frame outside of the package, for warn() in the function that calls this one."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and os.path.dirname(os.path.abspath(frame.f_code.co_filename)) == _HERE:
        frame, level = frame.f_back, level + 1
    return level
