"""Register your own methods, posteriors and environments, without a change to this package.

A module registers them when it is imported: by `--import my_module`, in Python, or by an entry point in the group
`vgcrl.plugins` of an installed package. A run remembers the modules it needs, and later commands ask for them. Your own
goal space needs no name: the `goals` of a method return it.
"""

import re
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from vgcrl.envs import ENVS, EnvRow, modules, own
from vgcrl.errors import UsageError
from vgcrl.objective.methods import METHODS, Method
from vgcrl.objective.posteriors import LINEAR, OPTIONS, POSTERIORS, Build, Posterior
from vgcrl.objective.posteriors.base import Distribution
from vgcrl.training.config import FIELDS, specification_of
from vgcrl.training.fields import check


def _caller() -> str:
    """Returns the module that calls a function of this one, by the name under which another process can import it."""
    return own.module_name(sys._getframe(2).f_globals.get("__name__", "__main__"))


def _claim(kind: str, name: str, taken: bool, module: str) -> None:
    """Reserve a name for a module; the same module may register it again."""
    if not isinstance(name, str) or not name.isprintable() or not re.fullmatch(r"[^-./\\:,\s][^/\\:,\s]*", name):
        valid = "a name without spaces, commas, colons and slashes, with no dash or dot at its beginning"
        raise UsageError(f"{kind} {name!r} cannot be registered; valid: {valid}")
    if taken and modules.owner(kind, name) != module:
        raise UsageError(f"{kind} {name!r} is already registered; valid: another name")
    modules.claim(kind, name, module)


def _check_row(name: str, method: Method) -> None:
    """Raise UsageError if a field of a method is not valid."""
    if not callable(method.goals):
        valid = "a function of an EnvSpec, features and a goal dimension that returns a goal space"
        raise UsageError(f"method {name!r} has goals {method.goals!r}; valid: {valid}")
    posteriors = method.posteriors
    if not isinstance(posteriors, (tuple, list)) or not posteriors or not all(isinstance(x, str) for x in posteriors):
        raise UsageError(f"method {name!r} has posteriors {posteriors!r}; valid: names of some, the default first")
    rows = method.defaults, method.of_bodies, method.of_places, method.of_goal_envs
    techniques = [("relabel", x) for x in (method.relabel, *method.relabels)]
    for option, value in (*techniques, *(item for row in rows for item in row.items())):
        if option not in FIELDS:
            raise UsageError(f"method {name!r}: unknown option {option!r}; valid: {', '.join(sorted(FIELDS))}")
        if not callable(value):  # a function of EnvSpec cannot be checked yet
            check(FIELDS[option], value)


def register_method(name: str, method: Method) -> None:
    """Registers a method, an entry of `vgcrl list methods`; its posteriors may be registered later.

    Examples:
        >>> entry = METHODS["gcrl"]._replace(posteriors=("state-huber",))
        >>> vgcrl.register_method("robust-gcrl", entry)  # then: vgcrl train robust-gcrl --import my_module
    """
    if not isinstance(method, Method):
        raise UsageError(f"method {name!r} is a {type(method).__name__}; valid: a vgcrl.objective.methods.Method")
    _check_row(name, method)
    _claim("method", name, name in METHODS, _caller())
    METHODS[name] = method


def register_posterior(name: str, build: Callable[..., Any], *, linear: int | None = None, sigma: bool = False) -> None:
    """Registers a posterior that methods may name.

    Args:
        name: its name.
        build: (random key, `vgcrl.objective.posteriors.Build`) -> posterior.
        linear: if log q(z|s) = ⟨φ(s), w(z)⟩ + g(z), how many more dimensions φ has than a goal; then
            `--critic successor` applies.
        sigma: whether `--sigma` applies.

    Examples:
        >>> vgcrl.register_posterior("laplace", lambda key, build: Laplace(build.sigma), sigma=True)
    """
    if not callable(build):
        raise UsageError(f"posterior {name!r} is a {type(build).__name__}; valid: a function of a key and a Build")
    _claim("posterior", name, name in POSTERIORS, _caller())
    POSTERIORS[name] = partial(_built, name, build)
    LINEAR.pop(name, None)
    LINEAR.update({} if linear is None else {name: linear})
    OPTIONS["sigma"] = (*(x for x in OPTIONS["sigma"] if x != name), *((name,) if sigma else ()))


def _built(name: str, build: Callable[..., Any], key: Any, facts: Build) -> Posterior:
    made = build(key, facts)
    if not isinstance(made, Posterior):
        valid = "what has the methods of vgcrl.objective.posteriors.Posterior"
        raise UsageError(f"posterior {name!r} was built as a {type(made).__name__}; valid: {valid}")
    of = []
    jax.eval_shape(lambda s: of.append(made(s)), jax.ShapeDtypeStruct((facts.features,), jnp.float32))
    missing = [x for x in vars(Distribution) if not x.startswith("_") and not hasattr(of[0], x)]
    if missing:
        what = f"posterior {name!r} returns a {type(of[0]).__name__}, which has no {' and no '.join(missing)}"
        raise UsageError(f"{what}; valid: what has the methods of vgcrl.objective.posteriors.base.Distribution")
    return made


def register_env(name: str, make: Callable[..., Any] | EnvRow) -> None:
    """Registers an environment by a short name.

    `make` is a class or function that makes a Gymnasium environment, or an `EnvRow`, an entry of `vgcrl.envs.ENVS`.

    Examples:
        >>> vgcrl.register_env("harbour", lambda wind=0.0: Harbour(wind))  # train --env harbour --env-arg wind=0.1
    """
    if not callable(make) and not isinstance(make, EnvRow):
        raise UsageError(f"environment {name!r} is a {type(make).__name__}; valid: a class, a function or an EnvRow")
    _claim("env", name, name in ENVS or own.is_given(name), _caller())
    if isinstance(make, EnvRow):
        specification_of.cache_clear()  # it may hold that of a row which had the name before
        ENVS[name] = make
    else:
        own.register(name, make)
