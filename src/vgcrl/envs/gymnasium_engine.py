"""Any Gymnasium environment with Box observations and actions, as `HostEnvs`.

Environments are numbered through all runs; every thread, or worker process, has a contiguous `Part` of
them. Each is seeded at its every reset from its run's key alone, whatever is trained beside it.
"""

import contextlib
import importlib
import math
import multiprocessing
import os
import signal
import sys
import textwrap
import warnings
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor, wait
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from numbers import Real
from typing import Any

import numpy as np

from vgcrl.envs import bodies
from vgcrl.envs.bodies import Task
from vgcrl.envs.contract import Broken, cores, generator
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
        sys.path += [] if os.getcwd() in sys.path else [os.getcwd()]  # a command has its own folder there instead
        try:
            importlib.import_module(module)
        except (Exception, SystemExit) as error:
            raise UsageError(
                f"--env {name}: {module!r} cannot be imported ({_line(error)}); valid: a module on PYTHONPATH"
            ) from None
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


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip()}".partition("\n")[0]


def _make(name: str, options: dict[str, Any]) -> Any:
    """One environment without Gymnasium's time limit: `Part` has its own, which may be longer."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # an older version may be what is wanted
        return _gymnasium(name).make(name, max_episode_steps=-1, disable_env_checker=True, **options)


def _example(name: str, options: dict[str, Any]) -> Any:
    """An environment to learn the spaces from; what is wrong with the choice of it shows here."""
    gymnasium = _gymnasium(name)
    try:
        env = _make(name, options)
        spaces = {"observations": env.observation_space, "actions": env.action_space}
    except gymnasium.error.DependencyNotInstalled as error:
        raise UsageError(f"--env {name} needs more than gymnasium: {_line(error)}; valid: install that") from None
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"--env {name} cannot be built: {_line(error)}; valid: an id that gymnasium.make takes"
        ) from None
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


class Part:
    """Environments `rows` of all, `count` of which are a run's."""

    def __init__(self, name: str, options: dict[str, Any], rows: range, count: int, horizon: int):
        self.rows, self.count, self.horizon = rows, count, horizon
        self.envs = [_make(name, options) for _ in rows]
        self.width = math.prod(self.envs[0].observation_space.shape)
        self.time = np.zeros(len(rows), np.int32)

    def _flat(self, obs: Any) -> np.ndarray:
        with np.errstate(over="ignore"):  # what is too large is not finite, and told as such
            return np.array(obs, np.float32).reshape(self.width)  # a copy: an environment may reuse its array

    def _start(self, places: list[int], keys: np.ndarray, clock: int) -> np.ndarray:
        where = [divmod(self.rows[i], self.count) for i in places]
        # 31 bits, since an environment may hand its seed on as a signed integer
        seeds = {run: generator(keys[run], clock).integers(2**31, size=self.count) for run, _ in where}
        starts = [self.envs[i].reset(seed=int(seeds[run][env])) for i, (run, env) in zip(places, where, strict=True)]
        self.time[places] = 0
        return np.stack([self._flat(obs) for obs, _ in starts])

    def reset(self, keys: np.ndarray) -> np.ndarray:
        return self._start(list(range(len(self.envs))), keys, -1)

    def step(self, action: np.ndarray, keys: np.ndarray, clock: int) -> tuple[np.ndarray, ...]:
        """The fields of `Step`."""
        steps = [env.step(action[i, ...]) for i, env in enumerate(self.envs)]
        self.time += 1
        next_obs = np.stack([self._flat(obs) for obs, *_ in steps])
        terminal = np.array([bool(terminated) for _, _, terminated, _, _ in steps])
        truncated = np.array([bool(truncated) for _, _, _, truncated, _ in steps])
        last = terminal | truncated | (self.time >= self.horizon)
        obs, ended = next_obs, np.flatnonzero(last).tolist()
        if ended:
            obs = next_obs.copy()
            obs[ended] = self._start(ended, keys, clock)
        return next_obs, obs, terminal, last

    def close(self) -> None:
        for env in self.envs:
            with contextlib.suppress(Exception):  # nothing depends on it any more
                env.close()


class Remote:
    """A `Part` in a process of its own."""

    def __init__(self, name: str, *arguments: Any):
        context = multiprocessing.get_context("spawn")  # a fork would inherit locks of JAX's threads
        self.name = name
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, name, *arguments), daemon=True)
        with _without_gpu(), _without_interruptions():
            self.process.start()
        theirs.close()  # now the worker alone holds it, and its death is the end of this pipe

    def _ask(self, method: str, *arguments: Any) -> Any:
        try:
            self.pipe.send((method, arguments))
            answer = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join(1.0)
            raise Broken(f"{self.name}: a worker process died, exit code {self.process.exitcode}") from None
        if isinstance(answer, Broken):
            raise answer
        return answer

    def reset(self, keys: np.ndarray) -> np.ndarray:
        return self._ask("reset", keys)

    def step(self, action: np.ndarray, keys: np.ndarray, clock: int) -> tuple[np.ndarray, ...]:
        return self._ask("step", action, keys, clock)

    def close(self) -> None:
        self.pipe.close()
        self.process.join(2.0)
        self.process.terminate()


@contextlib.contextmanager
def _without_gpu() -> Generator[None]:
    """A worker imports JAX with this package, and the GPU is the learner's."""
    before = os.environ.get("JAX_PLATFORMS")
    os.environ["JAX_PLATFORMS"] = "cpu"
    try:
        yield
    finally:
        del os.environ["JAX_PLATFORMS"]
        if before is not None:
            os.environ["JAX_PLATFORMS"] = before


@contextlib.contextmanager
def _without_interruptions() -> Generator[None]:
    """What starts here never hears of Ctrl-C: the parent decides what that means, and hears of it afterwards."""
    resource_tracker.ensure_running()  # when it starts it lets them in again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(pipe: Connection, name: str, *arguments: Any) -> None:
    """The life of a worker; it ends when the parent closes the pipe, or dies."""
    part = None
    with contextlib.suppress(EOFError, OSError):
        while True:
            method, inputs = pipe.recv()
            try:
                part = part or Part(name, *arguments)
                answer = getattr(part, method)(*inputs)
            except (Exception, SystemExit) as error:
                answer = Broken(f"{name}: {_line(error)}")
            pipe.send(answer)
    if part:
        part.close()


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
        rows = runs * count
        hands = min(workers or cores(), rows)
        self.rows = [range(rows * i // hands, rows * (i + 1) // hands) for i in range(hands)]
        kind = Remote if workers else Part
        try:
            self.parts = [kind(name, options, rows, count, horizon) for rows in self.rows]
        except (Exception, SystemExit) as error:
            raise Broken(f"{name}: {_line(error)}") from error
        self.pool = ThreadPoolExecutor(hands)

    def _all(self, method: str, arguments: list[tuple]) -> list[Any]:
        calls = [self.pool.submit(getattr(part, method), *a) for part, a in zip(self.parts, arguments, strict=True)]
        wait(calls)  # for all, even if one fails, so that none is still busy at the next call
        try:
            return [call.result() for call in calls]
        except Broken:
            raise
        except (Exception, SystemExit) as error:
            raise Broken(f"{self.name}: {_line(error)}") from error

    def _joined(self, pieces: Any) -> Any:
        whole = np.concatenate(pieces)
        return whole.reshape(*self.shape, *whole.shape[1:])

    def reset(self, keys: np.ndarray) -> np.ndarray:
        return self._joined(self._all("reset", [(keys,) for _ in self.rows]))

    def step(self, action: np.ndarray, keys: np.ndarray, clock: int) -> Step:
        native = self.spec.native(action.reshape(-1, self.spec.action_dim))
        steps = self._all("step", [(native[rows.start : rows.stop], keys, clock) for rows in self.rows])
        return Step(*(self._joined(pieces) for pieces in zip(*steps, strict=True)))

    def save(self) -> dict[str, np.ndarray]:
        return {}

    def load(self, saved: dict[str, np.ndarray]) -> bool:
        return False

    def close(self) -> None:
        self.pool.shutdown()
        for part in self.parts:
            part.close()


def _options(task: Task, terminate: bool, positions: bool) -> dict[str, Any]:
    shown = {"exclude_current_positions_from_observation": not positions}
    return task.options | shown | ({"terminate_when_unhealthy": terminate} if task.height else {})


def single(name: str, horizon: int, terminate: bool, positions: bool) -> Any:
    """One environment as Gymnasium has it: a locomotion task by its name here, or any id."""
    task = bodies.TASKS.get(name)
    options = _options(task, terminate, positions) if task else {}
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
