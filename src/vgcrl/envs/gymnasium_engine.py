"""Any Gymnasium environment with Box observations and actions, as `HostEnvs`."""

import contextlib
import math
import textwrap
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from vgcrl.envs import bodies, modules
from vgcrl.envs.bodies import Task
from vgcrl.envs.contract import place_of, told
from vgcrl.envs.gymnasium_pool import Pool, make_env
from vgcrl.errors import UsageError, hint
from vgcrl.objective.types import EnvSpec, Step

UNBOUNDED = 1e6  # environments often write some large number for a bound that is not there


def ids() -> list[str]:
    try:
        import gymnasium
    except ImportError:
        return []
    return list(gymnasium.registry)


def horizon(name: str) -> int | None:
    """The time limit that an id is registered with; no environment is built."""
    registry = _gymnasium(name).registry
    module, colon, identifier = name.rpartition(":")
    if colon:
        modules.import_installed(module, name)
    if identifier not in registry:
        near = hint(identifier, registry, 3, 0.5)
        raise UsageError(f"--env {name} is unknown{near}; valid: an id that {module or 'gymnasium'} registers")
    limit = registry[identifier].max_episode_steps
    return int(limit) if isinstance(limit, Real) and limit >= 1 and float(limit).is_integer() else None


def _gymnasium(name: str) -> Any:
    try:
        import gymnasium
    except ImportError:
        raise UsageError(f"--env {name} needs gymnasium; valid: pip install 'vgcrl[mujoco]'") from None
    return gymnasium


def _example(name: str, options: dict[str, Any]) -> Any:
    """An environment to learn the spaces from; what is wrong with the choice of it shows here."""
    gymnasium = _gymnasium(name)
    try:
        env = make_env(name, options)
        spaces = {"observations": env.observation_space, "actions": env.action_space}
    except gymnasium.error.DependencyNotInstalled as error:
        raise UsageError(f"--env {name} needs more than gymnasium: {told(error)}; valid: install that") from error
    except (Exception, SystemExit) as error:
        what = f"{told(error)}{place_of(error)}"
        raise UsageError(f"--env {name} cannot be built: {what}; valid: an id that gymnasium.make takes") from error
    for kind, space in spaces.items():
        if not isinstance(space, gymnasium.spaces.Box):
            raise UsageError(f"--env {name} has {kind} in {textwrap.shorten(str(space), 100)}; valid: Box")
        if not math.prod(space.shape):
            raise UsageError(f"--env {name} has {kind} without dimensions; valid: at least one")
    return env


def _bounds(space: Any) -> tuple[np.ndarray, np.ndarray]:
    low, high = (np.ravel(x).astype(np.float64) for x in (space.low, space.high))
    return np.where(low < -UNBOUNDED, -math.inf, low), np.where(high > UNBOUNDED, math.inf, high)


def is_limited(env: Any) -> bool:
    """Whether its episodes end in time: as registered, or by a wrapper."""
    layer = env
    while layer is not env.unwrapped:
        if type(layer).__name__ == "TimeLimit":
            return True
        layer = layer.env
    return env.spec is not None and env.spec.max_episode_steps is not None


def describe(env: Any, horizon: int) -> EnvSpec:
    low, high = _bounds(env.observation_space)
    action_low, action_high = _bounds(env.action_space)
    # an action without bounds is between −1 and 1, one with a single bound within 2 of it
    above = np.where(np.isfinite(action_high), action_high - 2.0, -1.0)
    action_low = np.where(np.isfinite(action_low), action_low, above)
    action_high = np.where(np.isfinite(action_high), action_high, action_low + 2.0)
    seconds = None
    with contextlib.suppress(Exception):  # a property of the user's may fail
        seconds = env.unwrapped.dt
    return EnvSpec(
        obs_dim=low.size,
        action_dim=action_low.size,
        horizon=horizon,
        seconds=float(seconds) if isinstance(seconds, float) else 1.0,
        low=tuple(low.tolist()),
        high=tuple(high.tolist()),
        action_low=tuple(action_low.tolist()),
        action_high=tuple(action_high.tolist()),
        position=(),
        velocity=(),
        features=tuple(range(low.size)),
        facts={},
        obs_shape=env.observation_space.shape,
        action_shape=env.action_space.shape,
        action_dtype=str(env.action_space.dtype),
    )


class Foreign:
    """A `HostEnvs`. Gymnasium cannot save a simulation, so a resumed run starts fresh episodes."""

    def __init__(
        self,
        name: str,
        runs: int,
        count: int,
        *,
        horizon: int | None,
        workers: int,
        make_options: dict[str, Any] | None = None,
        describe: Callable[[Any, int], EnvSpec] = describe,
    ):
        options = make_options or {}
        example = _example(name, options)
        if horizon is None:
            raise UsageError(f"--env {name} has no time limit; valid: --horizon N, the steps of an episode")
        self.name, self.shape = name, (runs, count)
        self.spec = describe(example, horizon)
        with contextlib.suppress(Exception):  # of the user's
            example.close()
        self.pool = Pool(name, options, runs * count, count, horizon, workers)

    def _joined(self, pieces: Any) -> Any:
        whole = np.concatenate(pieces)
        return whole.reshape(*self.shape, *whole.shape[1:])

    def reset(self, keys: np.ndarray) -> np.ndarray:
        return self._joined(self.pool.call("reset", [(keys,) for _ in self.pool.rows]))

    def step(self, action: np.ndarray, keys: np.ndarray, clock: int) -> Step:
        native = self.spec.native(action.reshape(-1, self.spec.action_dim))
        steps = self.pool.call("step", [(native[rows.start : rows.stop], keys, clock) for rows in self.pool.rows])
        return Step(*(self._joined(pieces) for pieces in zip(*steps, strict=True)))

    def save(self) -> dict[str, np.ndarray]:
        return {}

    def load(self, saved: dict[str, np.ndarray]) -> bool:
        return False

    def close(self) -> None:
        self.pool.close()


def _options(task: Task, terminate: bool, positions: bool) -> dict[str, Any]:
    shown = {"exclude_current_positions_from_observation": not positions}
    return task.options | shown | ({"terminate_when_unhealthy": terminate} if task.height else {})


def single(name: str, horizon: int, terminate: bool, positions: bool) -> Any:
    """One environment as Gymnasium has it: a locomotion task by its name here, or any id."""
    task = bodies.TASKS.get(name)
    options = _options(task, terminate, positions) if task else {}
    bodies.quiet_mujoco()
    return _gymnasium(name).make(task.gymnasium if task else name, max_episode_steps=horizon, **options)


def body(
    task: Task, runs: int, count: int, *, terminate: bool = False, horizon: int, workers: int, positions: bool = False
) -> Foreign:
    """A locomotion task on Gymnasium's own environment, with what is known of its observations."""
    return Foreign(
        task.gymnasium,
        runs,
        count,
        horizon=horizon,
        workers=workers,
        make_options=_options(task, terminate, positions),
        describe=lambda env, horizon: bodies.specification(task, env.unwrapped.model, horizon, positions),
    )
