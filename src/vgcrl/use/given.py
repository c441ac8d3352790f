"""Options as Python takes them: their declaration for editors, and their conversion to those of the command line."""

import inspect
from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any, TypedDict, TypeVar, get_type_hints

import numpy as np

from vgcrl.envs import modules, own
from vgcrl.errors import UsageError
from vgcrl.training.config import DEFAULTS, FIELDS
from vgcrl.training.fields import HUGE, kind_of
from vgcrl.training.options import Options

Words = str | Sequence[str]
Integers = int | Sequence[int]
Numbers = float | Sequence[float]
Function = TypeVar("Function", bound=Callable[..., Any])


class TrainOptions(TypedDict, total=False):
    """Options of `vgcrl train` beside method, env, steps and seeds; a test holds them to `training.config.Config`.

    An option that takes several values, separated by commas on the command line, takes a number or a sequence here.
    """

    seed: int
    envs: int
    engine: str
    dims: int
    wind: Numbers
    projection_dim: int
    projection_seed: Integers
    terminate: bool
    alive_bonus: float
    horizon: int
    positions: bool
    physics: str
    workers: int
    env_arg: Words
    goal_range: Numbers
    goal_dim: int
    features: str | Integers
    posterior: str
    sigma: float
    components: int
    relabel: str
    relabel_fraction: Numbers
    relabel_state: str
    goal_steps: int
    spectral_norm: Numbers
    reward: str
    critic: str
    gpi: int
    hidden: Integers
    posterior_features: str
    relative_goals: bool
    encoder: str
    inputs: str
    batch: int
    learning_rate: Numbers
    posterior_learning_rate: Numbers
    discount: float
    target_rate: float
    initial_alpha: float
    target_entropy: float
    updates_per_step: float
    random_steps: int
    replay: int
    evaluate_every: int
    evaluate_episodes: int
    checkpoint_every: int
    log_every: int


def spelled_out(function: Function) -> Function:
    """Returns the function with all options in its signature, as `help` and editors show it, not `**options`.

    An option whose default is None there depends on method and environment.
    """
    signature = inspect.signature(function)
    own_parameters = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    kinds = get_type_hints(TrainOptions)
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=DEFAULTS.get(name), annotation=kind | None)
        for name, kind in kinds.items()
    ]
    function.__signature__ = signature.replace(parameters=[*own_parameters, *options])  # ty: ignore
    return function


def to_options(values: dict[str, Any]) -> Options:
    """Returns the options that Python values stand for.

    Numbers of NumPy, whole numbers given as floats, lists, and single values for options that take several are
    converted. An environment may be an object, and its arguments a dict `env_kwargs` beside `env_arg`. If `env` names a
    module of the user's own, that is imported.
    """
    modules.import_plugins()
    if values.get("method", "") is None:
        raise UsageError("method None is not valid; valid: the name of a method, such as diayn")
    values = _with_named_env(values)
    env = str(values.get("env", ""))
    if not own.is_given(env):
        modules.import_named(modules.module_of(env), f"--env {env}")
    return Options(**{name: _value(name, x) if name in FIELDS else x for name, x in values.items()})


def _value(name: str, x: Any) -> Any:
    kind = kind_of(FIELDS[name])
    x = x.item() if isinstance(x, np.ndarray) and x.ndim == 0 else x
    each = x if isinstance(x, (Sequence, np.ndarray)) and not isinstance(x, str) else (x,)
    if kind.several and x is not None:
        return tuple(plain_number(one, kind.each) for one in each)
    if name == "features" and not isinstance(x, (str, NoneType)):
        return ",".join(str(plain_number(one, int)) for one in each)
    return plain_number(x, kind.each)


def plain_number(x: Any, kind: type) -> Any:
    """Returns a number as Python's own, of the kind asked for where it is one; else the value as it is."""
    x = x.item() if isinstance(x, np.generic) else x
    if kind is float and isinstance(x, int) and not isinstance(x, bool) and abs(x) <= HUGE:  # a larger one is refused
        return float(x)
    return int(x) if kind is int and isinstance(x, float) and x.is_integer() else x


def _with_named_env(values: dict[str, Any]) -> dict[str, Any]:
    """Returns the values with an environment's name for an object, and with `env_arg` for `env_kwargs`."""
    keywords = values.get("env_kwargs") or {}
    values = {name: x for name, x in values.items() if name != "env_kwargs"}
    if not isinstance(keywords, dict):
        raise UsageError(f"env_kwargs {keywords!r} is not valid; valid: a dict of arguments and their values")
    words = _value("env_arg", values.get("env_arg")) or ()
    named = {str(word).partition("=")[0] for word in words}
    twice = [name for name in keywords if name in named]
    if twice:
        raise UsageError(f"env_kwargs and --env-arg both have {twice[0]!r}; valid: each argument once")
    if values.get("env") is not None:
        found = own.named(values["env"])
        keywords = {**{name: x for name, x in found.env_kwargs.items() if name not in named}, **keywords}
        limit = {} if found.horizon is None else {"horizon": found.horizon}
        values = {**limit, **values, "env": found.env}
    return {**values, "env_arg": (*own.to_words(keywords), *words)} if keywords else values
