"""Variational goal-conditioned RL: one objective, F = E[log q(z|s) − log p(z)], every method a row."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vgcrl.errors import UsageError
    from vgcrl.training.run_folder import Run
    from vgcrl.use.api import Policy, evaluate, lgr, load, make, resume, stop_when, train
    from vgcrl.use.compiled import compile
    from vgcrl.use.register import register_env, register_method, register_posterior

__all__ = [
    "Policy",
    "Run",
    "UsageError",
    "compile",
    "evaluate",
    "lgr",
    "load",
    "make",
    "register_env",
    "register_method",
    "register_posterior",
    "resume",
    "stop_when",
    "train",
]
__version__ = "0.2.0"

_ELSEWHERE = {"UsageError": "errors", "Run": "training.run_folder", "compile": "use.compiled"}
_ELSEWHERE |= dict.fromkeys(("register_env", "register_method", "register_posterior"), "use.register")


def __getattr__(name: str) -> Any:
    """What takes seconds to import is imported when it is asked for."""
    if name not in __all__:
        raise AttributeError(f"module 'vgcrl' has no attribute {name!r}")
    return getattr(import_module(f"vgcrl.{_ELSEWHERE.get(name, 'use.api')}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
