"""Variational goal-conditioned RL: one objective, F = E[log q(z|s) − log p(z)], and a table of methods."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from vgcrl.version import VERSION

if TYPE_CHECKING:
    from vgcrl.errors import UsageError
    from vgcrl.experiments.reports import report
    from vgcrl.show.watch import explore, film
    from vgcrl.training.run_folder import Run
    from vgcrl.use.api import evaluate, load, make, resume, train
    from vgcrl.use.callbacks import stop_when
    from vgcrl.use.compiled import compile
    from vgcrl.use.policy import Policy
    from vgcrl.use.register import register_env, register_method, register_posterior
    from vgcrl.use.scoring import lgr

__all__ = [
    "Policy",
    "Run",
    "UsageError",
    "compile",
    "evaluate",
    "explore",
    "film",
    "lgr",
    "load",
    "make",
    "register_env",
    "register_method",
    "register_posterior",
    "report",
    "resume",
    "stop_when",
    "train",
]
__version__ = VERSION

_ELSEWHERE = {
    "Policy": "use.policy",
    "Run": "training.run_folder",
    "UsageError": "errors",
    "compile": "use.compiled",
    "explore": "show.watch",
    "film": "show.watch",
    "lgr": "use.scoring",
    "register_env": "use.register",
    "register_method": "use.register",
    "register_posterior": "use.register",
    "report": "experiments.reports",
    "stop_when": "use.callbacks",
}


def __getattr__(name: str) -> Any:
    """What takes seconds to import is imported when it is asked for."""
    if name not in __all__:
        raise AttributeError(f"module 'vgcrl' has no attribute {name!r}")
    return getattr(import_module(f"vgcrl.{_ELSEWHERE.get(name, 'use.api')}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
