"""Use from Python: train, resume, evaluate, load a policy, score any policy with LGR."""

import itertools
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vgcrl.envs import Env, gymnasium_engine, modules, own
from vgcrl.errors import UsageError
from vgcrl.objective.types import key_of_seed
from vgcrl.training import trainer
from vgcrl.training.config import FIELDS
from vgcrl.training.fields import kind_of
from vgcrl.training.loop import NEVER, Callback
from vgcrl.training.options import Options
from vgcrl.training.resolve import resolve
from vgcrl.training.run_folder import Run
from vgcrl.use.evaluate import evaluate_run
from vgcrl.use.policies import folder_of
from vgcrl.use.policy import Policy, policy_of


def make(env: Any = "pointmass", **options: Any) -> Any:
    """One of the environments of `vgcrl list envs`, with its options: an `Env`, or a Gymnasium environment."""
    config = resolve(to_options({"env": env, **options}))
    if config.native:
        return config.build_env()
    choices = config.horizon, bool(config.terminate), bool(config.positions), config.env_arg or ()
    return gymnasium_engine.single(config.env, *choices)


def to_options(values: dict[str, Any]) -> Options:
    """Numbers of NumPy, whole floats, lists, and single values for options that take several, as options have them.

    An environment may be an object, and its arguments a dict `env_kwargs`. The module of one of the user's own is
    imported, since it is named here.
    """
    modules.import_plugins()
    values = _with_named_env(values)
    env = str(values.get("env", ""))
    if not own.is_given(env):
        modules.import_named(modules.module_of(env), f"--env {env}")

    def number(x: Any, kind: type) -> Any:
        x = x.item() if isinstance(x, np.generic) else x
        return int(x) if kind is int and isinstance(x, float) and x.is_integer() else x

    def value(name: str, x: Any) -> Any:
        kind = kind_of(FIELDS[name])
        x = x.item() if isinstance(x, np.ndarray) and x.ndim == 0 else x
        if kind.several and x is not None:
            return tuple(number(each, kind.each) for each in (x if isinstance(x, (Sequence, np.ndarray)) else (x,)))
        if name == "features" and isinstance(x, (list, tuple, np.ndarray)):
            return ",".join(map(str, x))
        return number(x, kind.each)

    return Options(**{name: value(name, x) if name in FIELDS else x for name, x in values.items()})


def _with_named_env(values: dict[str, Any]) -> dict[str, Any]:
    keywords = values.get("env_kwargs") or {}
    values = {name: x for name, x in values.items() if name != "env_kwargs"}
    if not isinstance(keywords, dict):
        raise UsageError(f"env_kwargs {keywords!r} is not valid; valid: a dict of arguments and their values")
    if values.get("env") is not None:
        found = own.named(values["env"])
        keywords = {**found.env_kwargs, **keywords}
        limit = {} if found.horizon is None else {"horizon": found.horizon}
        values = {**limit, **values, "env": found.env}
    return {**values, "env_arg": own.to_words(keywords)} if keywords else values


def train(
    method: str = "diayn",
    *,
    env: Any = "pointmass",
    env_kwargs: dict[str, Any] | None = None,
    steps: int | None = None,
    seeds: int | None = None,
    out: str | Path | None = None,
    quiet: bool = True,
    callback: Callback | None = None,
    **options: Any,
) -> Run:
    """Train `method`, a row of `vgcrl list methods`, and save it in a folder.

    env: a name of `vgcrl list envs`, any Gymnasium id, a class, a function that makes one, or what gymnasium.make
        returned; `env_kwargs` are its arguments.
    steps: environment steps of each run; seeds: how many runs, trained together. Unless told as the environment has it.
    out: the folder, which must be new or empty; unless told runs/METHOD-ENV.
    callback: called at every evaluation with its record (step, wall, seeds, mean, ci95); what returns True stops
        training there, saved, and `resume` goes on. See `stop_when`.
    options: those of `vgcrl train`, with underscores. Knobs take a number or several, one run each.

    >>> run = vgcrl.train("gcrl", env="pointmass", steps=50_000, seeds=2, relabel="her")
    >>> run.last["mean"]["lgr_z"]
    """
    given = {"method": method, "env": env, "env_kwargs": env_kwargs, "steps": steps, "seeds": seeds, **options}
    folder = None if out is None else Path(out)
    return trainer.start(to_options(given), folder, quiet=quiet, callback=callback or NEVER)


def resume(run: str | Path, steps: int | None = None, *, quiet: bool = True, callback: Callback | None = None) -> Run:
    """Go on with a run where it stopped or was killed, to the steps first asked for or to `steps` in all.

    >>> vgcrl.resume("runs/gcrl-pointmass", steps=100_000)
    """
    modules.import_plugins()
    return trainer.resume(Path(run), steps, quiet=quiet, callback=callback or NEVER)


def evaluate(run: str | Path, *, episodes: int | None = None, targets: str | Path | None = None) -> dict[str, Any]:
    """Measure a run on held-out episodes: what `vgcrl evaluate --json` prints, as a dict.

    episodes: of each run; unless told, as many as its own evaluations had. targets: a file of states for LGR(s).

    >>> vgcrl.evaluate("runs/gcrl-pointmass", episodes=200)["mean"]["lgr_s"]
    """
    modules.import_plugins()
    return evaluate_run(folder_of(run), episodes, None if targets is None else Path(targets), _say)


def stop_when(metric: str, *, at_least: float | None = None, at_most: float | None = None) -> Callback:
    """A callback of `train` that stops where the mean of a metric over seeds has come so far.

    >>> vgcrl.train("gcrl", env="PointMaze_UMaze-v3", callback=vgcrl.stop_when("env_success", at_least=0.95))
    """
    if (at_least is None) == (at_most is None):
        raise UsageError("stop_when takes one bound; valid: at_least=... or at_most=...")

    def reached(record: dict[str, Any]) -> bool:
        if metric not in record["mean"]:
            raise UsageError(f"stop_when {metric!r} is unknown; valid: {', '.join(record['mean'])}")
        value = record["mean"][metric]
        if value is None:
            return False
        return value >= at_least if at_least is not None else value <= at_most

    return reached


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def load(run: str | Path, seed: int | None = None) -> Policy:
    """The policy of one seed of a run directory (the first unless told).

    `run` may also be the name of a policy that comes with the package: see `vgcrl list policies`. An environment of
    your own that is not installed is not imported because the run names it: import its module first.
    """
    modules.import_plugins()
    program, runs, _ = trainer.restore(folder_of(run), _say)
    return policy_of(program, runs, seed)


def lgr(
    policy: Callable[[np.ndarray, Any], Any],
    embed: Callable[[np.ndarray], Any],
    env: Any,
    targets: Any,
    *,
    seed: int = 0,
    dims: Sequence[int] | None = None,
    max_steps: int | None = None,
) -> float:
    """LGR(s), Algorithm 1, for any policy and encoder, also those trained elsewhere.

    `policy(obs, z)` and `embed(state)` take single arrays. `env` is the name of an environment here, an
    `Env`, or a Gymnasium environment. The squared distance between target and final state is summed over
    `dims` (all unless told) and averaged over `targets`. `max_steps` ends episodes early, or those without a limit.
    """
    if dims is not None and not len(dims):
        raise ValueError("dims are empty: give at least one, or None for all")
    if max_steps is not None and max_steps < 1:
        raise ValueError(f"max_steps {max_steps} is out of range: give at least 1")
    goals = np.asarray(targets, np.float32)
    if not goals.size:
        raise ValueError("targets are empty: give at least one state")
    if not np.all(np.isfinite(goals)):
        raise ValueError("targets have a number that is not finite")
    if isinstance(env, str):
        env = make(env)
    shape = (env.spec.obs_dim,) if isinstance(env, Env) else env.observation_space.shape
    shapes = shape, (math.prod(shape),)  # also flat, as in a file
    goals = goals[None] if goals.shape in shapes else goals
    if goals.shape[1:] not in shapes:
        raise ValueError(f"targets have shape {goals.shape[1:]}, observations {shape}")
    goals = goals.reshape(-1, *shape)
    episode = _native_episode(env, max_steps) if isinstance(env, Env) else _gymnasium_episode(env, max_steps)
    total = 0.0
    for i, target in enumerate(goals):
        z = embed(target)
        final = np.asarray(episode(lambda obs, z=z: policy(obs, z), seed + i), np.float64)
        error = np.ravel((final - target) ** 2)
        total += float(np.sum(error if dims is None else error[list(dims)]))
    return total / len(goals)


def _native_episode(env: Env, max_steps: int | None) -> Callable:
    reset, step = jax.jit(env.reset), jax.jit(env.step)
    length = min(env.spec.horizon, max_steps or env.spec.horizon)

    def checked(action: Any) -> np.ndarray:
        values, shape = np.asarray(action, np.float32), (env.spec.action_dim,)
        if values.shape != shape or not np.isfinite(values).all():
            raise ValueError(f"the policy gave the action {action}; valid: {shape[0]} finite numbers")
        return values

    def episode(act: Callable, seed: int) -> Any:
        key_reset, key_steps = jax.random.split(key_of_seed(seed))
        sim, obs = reset(key_reset)
        for key in jax.random.split(key_steps, env.spec.horizon)[:length]:
            action = env.spec.unscale(jnp.asarray(checked(act(np.asarray(obs)))))
            sim, obs, terminal = step(sim, action, key)
            if terminal:
                break
        return obs

    return episode


def _gymnasium_episode(env: Any, max_steps: int | None) -> Callable:
    if max_steps is None and not gymnasium_engine.is_limited(env):
        raise ValueError("this environment has no time limit: give max_steps")

    def checked(action: Any) -> Any:
        if not np.isfinite(np.asarray(action, np.float64)).all():
            raise ValueError(f"the policy gave the action {action}; valid: finite numbers")
        return action

    def episode(act: Callable, seed: int) -> Any:
        obs, _ = env.reset(seed=seed)
        for _ in itertools.count() if max_steps is None else range(max_steps):
            obs, _, terminated, truncated, _ = env.step(checked(act(obs)))
            if terminated or truncated:
                break
        return obs

    return episode
