"""Environments by any name: an id of Gymnasium's, or a class or function of the user's as `module:Name`.

In Python an environment may also be the object itself; it gets a name, which a run keeps. An object that another
process could not find by name (a lambda, a class of a notebook) is called `local.NAME`, and is known here only.
"""

import functools
import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vgcrl.envs import modules
from vgcrl.envs.contract import told
from vgcrl.errors import UsageError

LOCAL = "local."
PYTHONS = {"True": "true", "False": "false", "None": "null"}  # what Python writes so, and how JSON does
_FACTORIES: dict[str, Callable[..., Any]] = {}  # given as objects in this process
_REVISIONS: dict[str, int] = {}


class NamedEnv(NamedTuple):
    """An environment as options name it."""

    env: str
    env_kwargs: dict[str, Any]
    horizon: int | None  # the time limit of the object, if it has one


def factory(name: str) -> Callable[..., Any] | None:
    """Returns what makes an environment of this name from keywords, or None where `gymnasium.make` does."""
    import gymnasium

    if name in _FACTORIES:
        return _FACTORIES[name]
    module, colon, attribute = name.rpartition(":")
    if not colon:
        if name not in gymnasium.registry:
            modules.import_robotics()
        return None
    found = importlib.import_module(module)  # which may register the id
    if attribute in gymnasium.registry:
        return None
    found = functools.reduce(lambda x, part: getattr(x, part, None), attribute.split("."), found)
    return found if callable(found) else None


def is_given(name: str) -> bool:
    """Returns whether the name is that of an object which was given in this process."""
    return name in _FACTORIES


def revision(name: str) -> int:
    """Returns how many objects have had this name: a notebook cell that is run again gives another."""
    return _REVISIONS.get(name, 0)


def register(name: str, make: Callable[..., Any]) -> None:
    if _FACTORIES.get(name) is not make:
        _FACTORIES[name], _REVISIONS[name] = make, revision(name) + 1


def module_name(module: str) -> str:
    """Returns the name by which another process can import a module; empty where it cannot."""
    if module != "__main__":
        return module
    file = getattr(sys.modules["__main__"], "__file__", None)
    return Path(file).stem if file else ""


def named(env: Any) -> NamedEnv:
    """Names an environment that is given in Python: as an id, a class, a function, or an environment already built."""
    if isinstance(env, str):
        return NamedEnv(env, {}, None)
    if not isinstance(env, type) and hasattr(env, "observation_space"):
        return _of_made(env)
    if not callable(env):
        raise UsageError(f"--env {env!r} is no environment; valid: a name, a class, a function, or what gymnasium made")
    module, name = module_name(getattr(env, "__module__", "")), getattr(env, "__qualname__", "")
    findable = module and name.replace(".", "").isidentifier()
    return NamedEnv(_give(f"{module}:{name}" if findable else LOCAL + (_last(name) or "environment"), env), {}, None)


def _last(name: str) -> str:
    return name.rpartition(".")[2].strip("<>")


def _give(name: str, make: Callable[..., Any]) -> str:
    """Registers what makes an environment and returns its name, with a number where another object has that name."""
    i, free = 1, name
    while name.startswith(LOCAL) and _FACTORIES.get(free, make) is not make:
        i += 1
        free = f"{name}-{i}"
    register(free, make)
    return free


def _of_made(env: Any) -> NamedEnv:
    """Names an environment that is already built; more like it are built from the spec that Gymnasium keeps."""
    spec = getattr(env, "spec", None)
    if spec is None:
        what = f"--env {type(env).__name__}: this one environment cannot be made again, and training takes several"
        raise UsageError(f"{what}; valid: its class, a function that makes one, or what gymnasium.make returned")
    limit = spec.max_episode_steps
    if not spec.additional_wrappers and _is_json(spec.kwargs):
        return NamedEnv(spec.id, dict(spec.kwargs), limit)
    import gymnasium

    return NamedEnv(_give(LOCAL + spec.id, lambda **options: gymnasium.make(spec, **options)), {}, limit)


def _is_json(value: Any) -> bool:
    try:
        return json.loads(json.dumps(value)) == value
    except (TypeError, ValueError):
        return False


def _plain(x: Any) -> Any:
    """Returns a number or an array of NumPy as Python's own; raises TypeError for anything else."""
    if isinstance(x, (np.generic, np.ndarray)):
        return x.tolist()
    raise TypeError(f"{type(x).__name__} is not JSON serializable")


def to_words(keywords: dict[str, Any]) -> tuple[str, ...]:
    """Returns keywords as the words of `--env-arg`."""
    try:
        return tuple(f"{name}={json.dumps(x, default=_plain)}" for name, x in keywords.items())
    except (TypeError, ValueError) as error:
        valid = (
            "numbers, text, true, false, null, and lists and dicts of them; or a function that makes the environment"
        )
        raise UsageError(f"env_kwargs cannot be kept in a file ({told(error)}); valid: {valid}") from None


def to_keywords(words: tuple[str, ...]) -> dict[str, Any]:
    """Returns the keywords in words `key=value`; a value is JSON, or else text."""
    keywords = dict(map(_keyword, words))
    for name in (name for name in keywords if sum(word.startswith(f"{name}=") for word in words) > 1):
        raise UsageError(f"--env-arg {name} is given twice; valid: once")
    return keywords


def _keyword(word: str) -> tuple[str, Any]:
    name, equals, text = word.partition("=")
    if not equals or not name.isidentifier():
        raise UsageError(f"--env-arg {word!r} is not understood; valid: key=value, e.g. --env-arg frame_skip=2")
    if text in PYTHONS:
        raise UsageError(f"--env-arg {word} would be text; valid: {name}={PYTHONS[text]}")
    try:
        return name, json.loads(text)
    except ValueError:
        return name, text
