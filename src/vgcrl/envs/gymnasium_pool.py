"""Gymnasium environments stepped side by side: in threads of this process, or in worker processes.

Environments are numbered through all runs; every thread, or worker process, has a contiguous `Part` of
them. Each is seeded at its every reset from its run's key alone, whatever is trained beside it.
"""

import contextlib
import functools
import math
import multiprocessing
import os
import signal
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor, wait
from multiprocessing import resource_tracker, util
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from vgcrl.envs import goal_envs, modules, observations, own
from vgcrl.envs.bodies import quiet_mujoco
from vgcrl.envs.contract import Broken, at_fault, broken, check_alike, close, cores, generator
from vgcrl.errors import UsageError

PATIENCE = 5.0  # seconds that a worker may be stopped (SIGSTOP) before it is given up
CLOSING = 2.0  # seconds that a worker has to close its environments
REQUESTS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}  # a terminal or scheduler sends them to workers too


def make_env(name: str, options: dict[str, Any]) -> Any:
    """Returns one environment without Gymnasium's time limit: `Part` has its own, which may be longer."""
    import gymnasium

    quiet_mujoco()
    make = own.factory(name)
    with _in_this_folder():
        if make is not None:
            return make(**options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # an older version may be what is wanted
            return gymnasium.make(name, max_episode_steps=-1, disable_env_checker=True, **options)


@contextlib.contextmanager
def _in_this_folder() -> Generator[None]:
    """Returns to the current folder afterwards, since an environment may change it when it is built."""
    here = os.getcwd()
    try:
        yield
    finally:
        os.chdir(here)


def sizes(env: Any) -> tuple[int, int]:
    """Returns how many numbers an observation has, and an action; for discrete actions, how many of them there are."""
    actions = env.action_space
    return observations.flat(env.observation_space).low.size, int(getattr(actions, "n", math.prod(actions.shape)))


def _truth(name: str, x: Any) -> bool:
    """Returns what `step` gave as `name` as a bool; raises ValueError where it is not true or false."""
    if x is True or x is False:
        return x
    found = np.asarray(x)
    if found.size != 1 or found.dtype.kind not in "biuf":
        raise ValueError(f"step gave {x!r:.60} as {name}; valid: True or False")
    return bool(found.item())


class Part:
    """Steps the environments numbered `rows`; each run has `count` of them, with observations and actions of `size`."""

    def __init__(
        self, name: str, options: dict[str, Any], rows: range, count: int, horizon: int, size: tuple[int, int]
    ):
        import gymnasium

        self.rows, self.count, self.horizon = rows, count, horizon
        self.envs = [make_env(name, options) for _ in rows]
        for env in self.envs:
            check_alike(name, size, sizes(env))
        self.flat = observations.flat(self.envs[0].observation_space)
        self.chooses = isinstance(self.envs[0].action_space, gymnasium.spaces.Discrete)
        self.time = np.zeros(len(rows), np.int32)
        self.desired_goals = np.zeros((len(rows), len(self.flat.goal)), np.float32)
        self.succeeded_now = np.zeros(len(rows), np.float32)

    def _flat(self, obs: Any) -> np.ndarray:
        try:
            found = self.flat.flatten(obs)
            if np.iscomplexobj(found):
                raise TypeError("of two parts each")
            with np.errstate(over="ignore"):  # what is too large is not finite, and told as such
                numbers = np.array(found, np.float32)  # a copy: an environment may reuse its array
            return numbers.reshape(self.flat.low.size)
        except (ValueError, TypeError, KeyError, IndexError):
            seen, space = (textwrap.shorten(x, 80) for x in (repr(obs), str(self.envs[0].observation_space)))
            raise ValueError(f"the observation {seen} is not in its space {space}") from None

    def _start(self, places: list[int], keys: np.ndarray, clock: int) -> np.ndarray:
        where = [divmod(self.rows[i], self.count) for i in places]
        # 31 bits, since an environment may hand its seed on as a signed integer
        seeds = {run: generator(keys[run], clock).integers(2**31, size=self.count) for run, _ in where}
        starts = [self.envs[i].reset(seed=int(seeds[run][env])) for i, (run, env) in zip(places, where, strict=True)]
        self.time[places] = 0
        if self.flat.desired:
            self.desired_goals[places] = [self.flat.desired(obs) for obs, _ in starts]
        return np.stack([self._flat(obs) for obs, _ in starts])

    def reset(self, keys: np.ndarray) -> np.ndarray:
        return self._start(list(range(len(self.envs))), keys, -1)

    def step(self, action: np.ndarray, keys: np.ndarray, clock: int) -> tuple[np.ndarray, ...]:
        """Returns the fields of `Step`, each (env, ...).

        An episode that ends because the environment's own goal was reached counts as cut off, not as terminal: the goal
        that is pursued here does not end there.
        """
        taken = action if self.chooses else [action[i, ...] for i in range(len(action))]
        steps = [env.step(one) for env, one in zip(self.envs, taken, strict=True)]
        self.time += 1
        if self.flat.goal:
            told = ((env, obs, info) for env, (obs, *_, info) in zip(self.envs, steps, strict=True))
            self.succeeded_now[:] = [goal_envs.success(*each) for each in told]
        next_obs = np.stack([self._flat(obs) for obs, *_ in steps])
        terminal = np.array([_truth("terminated", x) for _, _, x, _, _ in steps])
        truncated = np.array([_truth("truncated", x) for _, _, _, x, _ in steps])
        last = terminal | truncated | (self.time >= self.horizon)
        terminal &= self.succeeded_now != 1
        obs, ended = next_obs, np.flatnonzero(last).tolist()
        if ended:
            obs = next_obs.copy()
            obs[ended] = self._start(ended, keys, clock)
        return next_obs, obs, terminal, last

    def desired(self) -> np.ndarray:
        """Returns the goals that the environments ask for in the current episodes, (env, goal)."""
        return self.desired_goals

    def succeeded(self) -> np.ndarray:
        """Returns whether the last step reached the goal asked for in it, (env,); NaN where that is not known."""
        return self.succeeded_now

    def check(self) -> None:
        """Does nothing: a thread of this process is never stopped alone."""

    def close(self) -> None:
        for env in self.envs:
            close(env)


class Remote:
    """A `Part` in a process of its own."""

    def __init__(self, name: str, *arguments: Any):
        context = multiprocessing.get_context("spawn")  # a fork would inherit locks of JAX's threads
        self.name, self.stopped_since, self.answered = name, math.inf, False
        if own.is_given(name) and ":" not in name:
            valid = "--workers 0, or package.module:Name"
            raise UsageError(f"--workers: {name} is not known to other processes; valid: {valid}")
        self.pipe, theirs = context.Pipe()
        inputs = (theirs, modules.search_path(name), name, *arguments)
        self.process = context.Process(target=_serve, args=inputs, daemon=True)
        with _without_gpu(), _without_requests():
            self.process.start()
        theirs.close()  # now the worker alone holds it, and its death is the end of this pipe
        # multiprocessing would end it by SIGTERM, which it does not hear, and wait
        self.close = util.Finalize(self, _end, (self.pipe, self.process), exitpriority=0)

    def _ask(self, method: str, *arguments: Any) -> Any:
        try:
            self.pipe.send((method, arguments))
            answer = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join(10.0)
            how = f"died, exit code {self.process.exitcode}" if self.stopped_since == math.inf else "was stopped"
            unguarded = "; a script that trains with workers does so under `if __name__ == '__main__':`"
            raise Broken(f"{self.name}: a worker process {how}{'' if self.answered else unguarded}") from None
        self.answered = True
        if isinstance(answer, Broken):
            raise answer
        return answer

    def reset(self, keys: np.ndarray) -> np.ndarray:
        return self._ask("reset", keys)

    def step(self, action: np.ndarray, keys: np.ndarray, clock: int) -> tuple[np.ndarray, ...]:
        return self._ask("step", action, keys, clock)

    def desired(self) -> np.ndarray:
        return self._ask("desired")

    def succeeded(self) -> np.ndarray:
        return self._ask("succeeded")

    def check(self) -> None:
        """Kills a worker that has been stopped for longer than PATIENCE: whoever waits for it would wait for ever."""
        if not _is_stopped(self.process.pid):
            self.stopped_since = math.inf
            return
        self.stopped_since = min(self.stopped_since, time.monotonic())
        if time.monotonic() - self.stopped_since > PATIENCE:
            self.process.kill()


def _end(pipe: Connection, process: multiprocessing.process.BaseProcess) -> None:
    """Ends a worker: it closes its environments at the end of its pipe, or is killed."""
    pipe.close()
    process.join(CLOSING)
    process.kill()


def _is_stopped(pid: int | None) -> bool:
    """Returns whether a signal such as SIGSTOP has stopped a process; False on systems without /proc."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] in "Tt"
    except OSError:
        return False


@contextlib.contextmanager
def _without_gpu() -> Generator[None]:
    """Hides the GPU from processes started meanwhile: a worker imports JAX, and the GPU is the learner's."""
    before = os.environ.get("JAX_PLATFORMS")
    os.environ["JAX_PLATFORMS"] = "cpu"
    try:
        yield
    finally:
        del os.environ["JAX_PLATFORMS"]
        if before is not None:
            os.environ["JAX_PLATFORMS"] = before


@contextlib.contextmanager
def _without_requests() -> Generator[None]:
    """Blocks requests to stop meanwhile, and in processes started here; the parent decides what they mean."""
    resource_tracker.ensure_running()  # when it starts it lets them in again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, REQUESTS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _disregard_requests() -> None:
    """Lets requests in again and does nothing about them: processes of an environment would inherit that they are
    blocked or ignored, and could not be ended."""
    for number in REQUESTS:
        signal.signal(number, lambda *_: None)
        signal.siginterrupt(number, False)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, REQUESTS)


def _end_with_parent() -> None:
    """Ends a worker whose environment does not come back from a step, where it would see the end of its pipe."""
    multiprocessing.parent_process().join()  # ty: ignore
    time.sleep(CLOSING)
    os._exit(1)


def _serve(pipe: Connection, path: list[str], name: str, *arguments: Any) -> None:
    """Answers the calls that come through the pipe, until the parent closes it or dies."""
    sys.path[:] = path
    _disregard_requests()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    part = None
    with contextlib.suppress(EOFError, OSError):
        while True:
            method, inputs = pipe.recv()
            try:
                part = part or Part(name, *arguments)
                answer = getattr(part, method)(*inputs)
            except Broken as error:
                answer = error
            except BaseException as error:  # no signal is heard here, so it is the environment's own
                answer = broken(name, error)
            pipe.send(answer)
    if part:
        part.close()


class Pool:
    """Shares `rows` environments, `count` to a run, out to `workers` processes, or to threads where that is 0."""

    def __init__(
        self,
        name: str,
        options: dict[str, Any],
        rows: int,
        count: int,
        horizon: int,
        workers: int,
        size: tuple[int, int],
    ):
        hands = min(workers or cores(), rows)
        self.name = name
        self.rows = [range(rows * i // hands, rows * (i + 1) // hands) for i in range(hands)]
        kind = Remote if workers else Part
        with at_fault(functools.partial(broken, name)):
            self.parts = [kind(name, options, mine, count, horizon, size) for mine in self.rows]
        self.threads = ThreadPoolExecutor(hands)

    def call(self, method: str, arguments: list[tuple]) -> list[Any]:
        """Calls `method` of every part, each with its own arguments, and returns all answers."""
        calls = [self.threads.submit(getattr(part, method), *a) for part, a in zip(self.parts, arguments, strict=True)]
        while wait(calls, timeout=1.0).not_done:  # for all, even if one fails: none is still busy at the next call
            for part in self.parts:
                part.check()
        for error in filter(None, (call.exception() for call in calls)):  # in a thread, where no Ctrl-C is heard
            raise error if isinstance(error, Broken) else broken(self.name, error) from error
        return [call.result() for call in calls]

    def close(self) -> None:
        self.threads.shutdown()
        for part in self.parts:
            part.close()
