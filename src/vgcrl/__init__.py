"""Variational goal-conditioned RL: one objective, F = E[log q(z|s) − log p(z)], every method a row."""

from vgcrl.api import Policy, lgr, load, make, train
from vgcrl.errors import UsageError
from vgcrl.training import Run

__all__ = ["Policy", "Run", "UsageError", "lgr", "load", "make", "train"]
__version__ = "0.1.0"
