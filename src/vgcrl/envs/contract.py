"""The contracts of environments: native ones in JAX, and those that run on the host.

A native environment is pure and describes one instance. `Vectorised` runs many of it side by side, with a time limit
and a fresh random start where an episode ended, to be traced into one program with the learner. `HostEnvs` are all
environments of all runs in one object outside that program, and hold their own state.
"""

import os
import sysconfig
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vgcrl.errors import Broken, UsageError
from vgcrl.objective.types import EnvSpec, Step

# Code in a traceback that is not the user's: installed packages, Python's, ours, and code without a file.
INSTALLED = tuple(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
OURS = str(Path(__file__).parents[1])
OTHERS = (*INSTALLED, sysconfig.get_path("stdlib"), OURS, "<")
MAKERS = (OURS, *(f"{path}/gymnasium/" for path in INSTALLED))  # these only call the code that is at fault


def cores() -> int:
    """Returns how many cores this process may use; `taskset` gives several programs on one machine their own."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Env(NamedTuple):
    spec: EnvSpec
    reset: Callable[[Array], tuple[Any, Array]]  # key -> (sim, obs)
    step: Callable[[Any, Array, Array], tuple[Any, Array, Array]]  # sim, action, key -> (sim, next_obs, terminal)
    overflow: Callable[[Any], Array] = lambda sim: jnp.zeros((), bool)  # sim -> whether contacts of its step were lost


class HostEnvs(Protocol):
    """Environments on the host; arrays are numpy's, (run, env, ...), observations float32, actions in [−1, 1].

    `keys` has the key of each run as two words. What happens at a step is a function of state, action, key and `clock`,
    the number of steps so far, so that runs trained together are the same as runs trained alone.
    """

    spec: EnvSpec

    def reset(self, keys: np.ndarray) -> np.ndarray: ...
    def step(self, action: np.ndarray, keys: np.ndarray, clock: int) -> Step: ...
    def save(self) -> dict[str, np.ndarray]: ...
    def load(self, saved: dict[str, np.ndarray]) -> bool:
        """Restores what `save` returned, to continue in mid-episode; returns False where that is not possible."""
        ...

    def close(self) -> None: ...


class GoalEnvs(HostEnvs, Protocol):
    """Environments that ask for goals of their own: those whose `spec.goal` is not empty."""

    def desired(self) -> np.ndarray: ...
    def succeeded(self) -> np.ndarray: ...


def told(error: BaseException) -> str:
    """Returns an exception in one line, `NAME: TEXT`, or only its name where it has no text."""
    try:
        what = str(error).strip()
    except Exception:
        what = ""
    return f"{type(error).__name__}: {what}".partition("\n")[0].removesuffix(": ")


def place_of(error: BaseException) -> str:
    """Returns where an error was raised, as ` at FILE:LINE`; empty where that is not known.

    It is the innermost frame of the user's own code, else of an installed package.
    """
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(OTHERS)]
    theirs = [x for x in frames if x.filename.startswith(INSTALLED) and not x.filename.startswith(MAKERS)]
    found = own or theirs
    return f" at {found[-1].filename}:{found[-1].lineno}" if found else ""


def broken(name: str, error: BaseException) -> Broken:
    """Returns the error to report for what an environment raised, with its whole traceback."""
    out = Broken(f"{name}: {told(error)}{place_of(error)}")
    out.traceback = "".join(traceback.format_exception(error))
    return out


@contextmanager
def at_fault(tell: Callable[[BaseException], UsageError]) -> Generator[None]:
    """Turns what the user's code raises into the error that `tell` returns, except UsageError and Ctrl-C."""
    try:
        yield
    except (UsageError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise tell(error) from error


def close(env: Any) -> None:
    """Closes an environment, and ignores what that raises, since nothing depends on it any more."""
    with suppress(Broken), at_fault(partial(broken, "")):
        env.close()


def check_alike(name: str, first: tuple[int, int], found: tuple[int, int]) -> None:
    """Raises Broken where two instances differ in size, (numbers in an observation, numbers in an action)."""
    for what, one, other in zip(("an observation", "an action"), first, found, strict=True):
        if one != other:
            raise Broken(f"{name}: {what} of one instance has {one} numbers, of another {other}; valid: as many in all")


def generator(key: np.ndarray, clock: int) -> np.random.Generator:
    """Returns a generator of random numbers for one run at one step, from its key and `clock` alone."""
    word = (int(key[0]) << 32) | int(key[1])
    return np.random.Generator(np.random.Philox(key=np.array([word, clock + 1], np.uint64)))


class VecState(NamedTuple):
    sim: Any
    time: Array  # steps taken in the current episode
    overflows: Array  # steps of all episodes in which contacts were lost


class Vectorised(NamedTuple):
    env: Env
    count: int

    @property
    def spec(self) -> EnvSpec:
        return self.env.spec

    def reset(self, key: Array) -> tuple[VecState, Array]:
        sim, obs = jax.vmap(self.env.reset)(jax.random.split(key, self.count))
        zeros = jnp.zeros(self.count, jnp.int32)
        return VecState(sim, zeros, zeros), obs

    def step(self, state: VecState, action: Array, key: Array) -> tuple[VecState, Step]:
        """Steps all environments, `action` (env, action); an action that is not a number becomes 0."""
        action = jnp.nan_to_num(action)
        key_step, key_reset = jax.random.split(key)
        keys = jax.random.split(key_step, self.count)
        sim, next_obs, terminal = jax.vmap(self.env.step)(state.sim, action, keys)
        time = state.time + 1
        last = terminal | (time >= self.spec.horizon)
        fresh, fresh_obs = self.reset(key_reset)

        def where_last(new: Array, old: Array) -> Array:
            return jnp.where(last.reshape(-1, *[1] * (old.ndim - 1)), new, old)

        overflows = state.overflows + jax.vmap(self.env.overflow)(sim).astype(jnp.int32)
        state, obs = jax.tree.map(where_last, (fresh, fresh_obs), (VecState(sim, time, overflows), next_obs))
        return state._replace(overflows=overflows), Step(next_obs, obs, terminal, last)
