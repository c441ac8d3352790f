"""Any Gymnasium environment with observations of numbers and Box or Discrete actions, as `HostEnvs`."""

import contextlib
import math
import textwrap
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from vgcrl.envs import bodies, goal_envs, modules, own
from vgcrl.envs.bodies import Task
from vgcrl.envs.contract import at_fault, close, place_of, told
from vgcrl.envs.gymnasium_pool import Pool, make_env
from vgcrl.envs.observations import NotNumbers, flat, in_rows, pictures_in_rows
from vgcrl.errors import UsageError, hint, install
from vgcrl.objective.types import EnvSpec, Step

MOST_CHOICES = 100_000  # most discrete actions; policy and critics have an output for each
# environments often write some large number for a bound that is not there
UNBOUNDED = 1e6  # of observations
UNBOUNDED_ACTION = 1e15  # of actions, which may be forces


def ids(wanted: str = "") -> list[str]:
    """Returns all registered ids; where `wanted` is not one of them, gymnasium-robotics is imported first."""
    try:
        import gymnasium
    except ImportError:
        return []
    if wanted and wanted not in gymnasium.registry:
        modules.import_robotics()
    return list(gymnasium.registry)


def horizon(name: str) -> int | Callable[..., int | None] | None:
    """Returns the time limit that an id is registered with, or a function of `env_arg` that returns it.

    For a class or function an environment has to be built to know the limit. None is no limit.
    """
    registry = _gymnasium(name).registry
    module, colon, identifier = name.rpartition(":")
    if colon and not own.is_given(name):
        modules.import_installed(module, name)
    if own.factory(name):
        return lambda env_arg, **_: _limit_of_one(name, own.to_keywords(env_arg))
    if identifier not in registry:
        near = hint(identifier, registry, 3, 0.5)
        what = f"an id that {module} registers, or a class or function there" if module else "an id of gymnasium's"
        raise UsageError(f"--env {name} is unknown{near}; valid: {what}")
    return _whole_limit(registry[identifier].max_episode_steps)


def _limit_of_one(name: str, options: dict[str, Any]) -> int | None:
    example = _example(name, options)
    try:
        return _limit_of(example)
    finally:
        close(example)


def _whole_limit(limit: Any) -> int | None:
    return int(limit) if isinstance(limit, Real) and limit >= 1 and float(limit).is_integer() else None


def _gymnasium(name: str) -> Any:
    try:
        import gymnasium
    except ImportError:
        raise UsageError(f"--env {name} needs gymnasium; valid: {install('mujoco')}") from None
    return gymnasium


def _example(name: str, options: dict[str, Any]) -> Any:
    """Builds one environment to learn the spaces from; raises UsageError where it cannot be used for training."""
    gymnasium = _gymnasium(name)

    def unbuilt(error: BaseException) -> UsageError:
        if isinstance(error, gymnasium.error.DependencyNotInstalled):
            return UsageError(f"--env {name} needs more than gymnasium: {told(error)}; valid: install that")
        what = f"--env {name} cannot be built: {told(error)}{place_of(error)}"
        return UsageError(f"{what}; valid: one that can, with --env-arg as it takes them")

    with at_fault(unbuilt):
        env = make_env(name, options)
        spaces = {"observations": env.observation_space, "actions": env.action_space}
    actions = spaces["actions"]
    if not isinstance(actions, (gymnasium.spaces.Box, gymnasium.spaces.Discrete)):
        raise UsageError(f"--env {name} has actions in {textwrap.shorten(str(actions), 100)}; valid: Box or Discrete")
    if isinstance(actions, gymnasium.spaces.Discrete) and actions.n > MOST_CHOICES:
        raise UsageError(f"--env {name} has {actions.n:,} actions to choose from; valid: at most {MOST_CHOICES:,}")
    try:
        sizes = {"actions": math.prod(actions.shape), "observations": flat(spaces["observations"]).low.size}
    except NotNumbers as error:
        raise UsageError(f"--env {name} has observations that are {error}") from None
    for kind in (kind for kind, size in sizes.items() if not size):
        raise UsageError(f"--env {name} has {kind} without dimensions; valid: at least one")
    return env


def _bounds(space: Any, most: float = UNBOUNDED) -> tuple[np.ndarray, np.ndarray]:
    """Returns the low and high bounds of a Box or a `Flat`, infinite where they are only some large number."""
    low, high = (np.ravel(x).astype(np.float64) for x in (space.low, space.high))
    return np.where(low < -most, -math.inf, low), np.where(high > most, math.inf, high)


def _limit_of(env: Any) -> int | None:
    """Returns the time limit of an environment that was built, by its outermost wrapper or its spec; None is none."""
    with contextlib.suppress(Exception):  # the user's class may be no gymnasium.Env, or its properties may fail
        layer = env
        while layer is not env.unwrapped:
            if type(layer).__name__ == "TimeLimit":
                return _whole_limit(layer._max_episode_steps)
            layer = layer.env
        return _whole_limit(env.spec.max_episode_steps)
    return None


def is_limited(env: Any) -> bool:
    """Returns whether an environment has a time limit, as registered or by a wrapper."""
    return _limit_of(env) is not None


def _first_action(space: Any) -> int | None:
    """Returns the number of the first discrete action, or None where actions are vectors."""
    import gymnasium

    return int(space.start) if isinstance(space, gymnasium.spaces.Discrete) else None


def _are_numbers(space: Any) -> bool:
    """Returns whether observations are arrays of the numbers that the policy sees."""
    import gymnasium

    return isinstance(space, (gymnasium.spaces.Box, gymnasium.spaces.MultiBinary))


def _learn_range(env: Any, desired: Callable, low: np.ndarray, high: np.ndarray, goal: list[int]) -> None:
    """Sets the bounds of the goal dimensions where they are not known, in place, to the range of desired goals."""
    least, largest = goal_envs.desired_range(env, desired)
    if least.shape != (len(goal),):
        raise NotNumbers(f"desired_goal has {least.size} numbers, achieved_goal {len(goal)}; valid: as many")
    unknown = ~(np.isfinite(low[goal]) & np.isfinite(high[goal])) & (least < largest)
    low[goal], high[goal] = np.where(unknown, least, low[goal]), np.where(unknown, largest, high[goal])


def describe(env: Any, horizon: int) -> EnvSpec:
    seen = flat(env.observation_space)
    low, high = _bounds(seen)
    if seen.desired:
        _learn_range(env, seen.desired, low, high, list(seen.goal))
    first = _first_action(env.action_space)
    ends = np.ones(1 if first is None else int(env.action_space.n))
    action_low, action_high = _bounds(env.action_space, UNBOUNDED_ACTION) if first is None else (-ends, ends)
    open_ended = not (np.isfinite(action_low) & np.isfinite(action_high)).all()
    above = np.where(np.isfinite(action_high), action_high - 2.0, -1.0)
    action_low = np.where(np.isfinite(action_low), action_low, above)
    action_high = np.where(np.isfinite(action_high), action_high, action_low + 2.0)
    remarks = [seen.remark, "actions without bounds are from −1 to 1, those with one bound within 2 of it" * open_ended]
    space, numbers = env.observation_space, seen.goal or _are_numbers(env.observation_space)
    seconds = 1.0
    with contextlib.suppress(Exception):  # of the user's, either may fail
        seconds = 1.0 / float(env.metadata["render_fps"])
    with contextlib.suppress(Exception):
        seconds = float(env.unwrapped.dt)
    return EnvSpec(
        obs_dim=low.size,
        action_dim=action_low.size,
        horizon=horizon,
        seconds=seconds if 0 < seconds < math.inf else 1.0,
        low=tuple(low.tolist()),
        high=tuple(high.tolist()),
        action_low=tuple(action_low.tolist()),
        action_high=tuple(action_high.tolist()),
        position=(),
        velocity=(),
        features=seen.goal or tuple(range(low.size)),
        facts={},
        obs_shape=space.shape if numbers else None,
        action_shape=env.action_space.shape,
        action_dtype=str(env.action_space.dtype),
        goal=seen.goal,
        first_action=first,
        remark="; ".join(filter(None, remarks)),
        flatten=pictures_in_rows(space.shape) if seen.image else None if numbers else in_rows(space, low.size),
        image=seen.image,
        pixels=bool(seen.image),
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
        env_arg: tuple[str, ...] = (),
        make_options: dict[str, Any] | None = None,
        describe: Callable[[Any, int], EnvSpec] = describe,
    ):
        options = make_options or own.to_keywords(env_arg)
        example = _example(name, options)
        if horizon is None:
            close(example)
            raise UsageError(f"--env {name} has no time limit; valid: --horizon N, the steps of an episode")
        self.name, self.shape = name, (runs, count)

        def undescribed(error: BaseException) -> UsageError:
            if isinstance(error, NotNumbers):
                return UsageError(f"--env {name}: {error}")
            what = f"--env {name} cannot be described: {told(error)}{place_of(error)}"
            return UsageError(f"{what}; valid: one that can be reset")

        try:
            with at_fault(undescribed):
                self.spec = describe(example, horizon)
        finally:
            close(example)
        size = self.spec.obs_dim, self.spec.action_dim
        self.pool = Pool(name, options, runs * count, count, horizon, workers, size)

    def _joined(self, pieces: Any) -> Any:
        whole = np.concatenate(pieces)
        return whole.reshape(*self.shape, *whole.shape[1:])

    def reset(self, keys: np.ndarray) -> np.ndarray:
        return self._joined(self.pool.call("reset", [(keys,) for _ in self.pool.rows]))

    def step(self, action: np.ndarray, keys: np.ndarray, clock: int) -> Step:
        native = self.spec.native(action.reshape(-1, self.spec.action_dim))
        steps = self.pool.call("step", [(native[rows.start : rows.stop], keys, clock) for rows in self.pool.rows])
        return Step(*(self._joined(pieces) for pieces in zip(*steps, strict=True)))

    def desired(self) -> np.ndarray:
        """Returns the goals that the environments ask for in the current episodes, (run, env, goal)."""
        return self._joined(self.pool.call("desired", [() for _ in self.pool.rows]))

    def succeeded(self) -> np.ndarray:
        """Returns whether the last step reached the goal asked for in it, (run, env); NaN where that is not known."""
        return self._joined(self.pool.call("succeeded", [() for _ in self.pool.rows]))

    def save(self) -> dict[str, np.ndarray]:
        return {}

    def load(self, saved: dict[str, np.ndarray]) -> bool:
        return False

    def close(self) -> None:
        self.pool.close()


def _options(task: Task, terminate: bool, positions: bool) -> dict[str, Any]:
    shown = {"exclude_current_positions_from_observation": not positions}
    return task.options | shown | ({"terminate_when_unhealthy": terminate} if task.height else {})


def single(name: str, horizon: int, terminate: bool, positions: bool, env_arg: tuple[str, ...] = ()) -> Any:
    """Returns one Gymnasium environment, by the name of a locomotion task here, or by any other name."""
    task = bodies.TASKS.get(name)
    options = _options(task, terminate, positions) if task else own.to_keywords(env_arg)
    bodies.quiet_mujoco()
    make = None if task else own.factory(name)
    if make is not None:
        return _gymnasium(name).wrappers.TimeLimit(make(**options), horizon)
    return _gymnasium(name).make(task.gymnasium if task else name, max_episode_steps=horizon, **options)


def body(
    task: Task, runs: int, count: int, *, terminate: bool = False, horizon: int, workers: int, positions: bool = False
) -> Foreign:
    """Returns a locomotion task on Gymnasium's own environment, with the EnvSpec that is known of it."""
    return Foreign(
        task.gymnasium,
        runs,
        count,
        horizon=horizon,
        workers=workers,
        make_options=_options(task, terminate, positions),
        describe=lambda env, horizon: bodies.specification(task, env.unwrapped.model, horizon, positions),
    )
