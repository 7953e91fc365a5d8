"""Trainer, for type checkers with the signatures of the stub."""

import typing

if typing.TYPE_CHECKING:
    from ._typing import Trainer as Trainer
else:
    from ._modules import Trainer as Trainer
