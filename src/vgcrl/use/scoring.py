"""LGR(s) of any policy and encoder, wherever they were trained."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vgcrl.envs import Env, gymnasium_engine
from vgcrl.envs.observations import as_numbers
from vgcrl.errors import UsageError
from vgcrl.objective.types import key_of_seed
from vgcrl.training.config import FIELDS
from vgcrl.training.fields import check, is_whole
from vgcrl.use.api import make

ACTION = "the policy's action"


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
    """Returns LGR(s) (Algorithm 1) of any policy and encoder, wherever they were trained.

    For each target one episode is run. The squared distance between target and final state is averaged over targets;
    0 is best.

    Args:
        policy: (observation, z) -> action, of single arrays.
        embed: target state -> z.
        env: a name of `vgcrl list envs`, what `vgcrl.make` returned, or a Gymnasium environment.
        targets: target states, (target, observation).
        seed: of the first episode; the others follow.
        dims: dimensions of the observation that the distance is summed over; by default all.
        max_steps: longest episode; must be given if the environment has no time limit.

    Examples:
        >>> vgcrl.lgr(lambda obs, z: model.predict(obs)[0], encoder, gymnasium.make("Pendulum-v1"), targets)
    """
    for name, given in (("policy", policy), ("embed", embed)):
        if not callable(given):
            raise UsageError(f"{name} is a {type(given).__name__}; valid: a function")
    if isinstance(env, type):
        raise UsageError(f"env is the class {env.__name__}; valid: an environment, such as {env.__name__}()")
    if not isinstance(env, (str, Env)) and not hasattr(env, "observation_space"):
        raise UsageError(f"env is {env!r:.60}; valid: a name, an Env, or a Gymnasium environment")
    if dims is not None and (np.ndim(dims) != 1 or not len(dims) or np.asarray(dims).dtype.kind not in "iu"):
        raise UsageError(f"dims {dims!r:.60} are not valid; valid: whole numbers, at least one, or None for all")
    if max_steps is not None and not (is_whole(max_steps) and max_steps >= 1):
        raise UsageError(f"max_steps {max_steps!r} is not valid; valid: a whole number of at least 1")
    seed = seed.item() if isinstance(seed, np.generic) else seed
    check(FIELDS["seed"], seed)
    goals = as_numbers("targets", targets).astype(np.float32)
    if not goals.size:
        raise UsageError("targets are empty: give at least one state")
    if not np.all(np.isfinite(goals)):
        raise UsageError("targets have a number that is not finite")
    if isinstance(env, str):
        env = make(env)
    shape = (env.spec.obs_dim,) if isinstance(env, Env) else getattr(env.observation_space, "shape", None)
    if shape is None:
        raise UsageError(f"observations are in {env.observation_space}; valid: arrays of one shape")
    shapes = shape, (math.prod(shape),)  # also flat, as in a file
    goals = goals[None] if goals.shape in shapes else goals
    if goals.shape[1:] not in shapes:
        raise UsageError(f"targets have shape {goals.shape[1:]}, observations {shape}")
    goals = goals.reshape(-1, *shape)
    size = math.prod(shape)
    if dims is not None and not all(-size <= i < size for i in dims):
        raise UsageError(f"dims {list(dims)} are not all of an observation's {size} dimensions")
    episode = _native_episode(env, max_steps) if isinstance(env, Env) else _gymnasium_episode(env, max_steps)
    total = 0.0
    for i, target in enumerate(goals):
        z = embed(target)
        final = _finite(episode(lambda obs, z=z: policy(obs, z), seed + i), shape)
        error = np.ravel((final - target) ** 2)
        total += float(np.sum(error if dims is None else error[list(dims)]))
    return total / len(goals)


def _finite(obs: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Returns the last observation of an episode; raises UsageError unless it has this shape and is finite."""
    try:
        found = np.asarray(obs, np.float64)
    except (TypeError, ValueError):
        raise UsageError(f"the environment gave the observation {obs!r:.60}; valid: numbers of shape {shape}") from None
    if found.shape != shape or not np.isfinite(found).all():
        what = f"numbers of shape {found.shape}" if found.shape != shape else "a number that is not finite"
        raise UsageError(f"the environment gave an observation with {what}; valid: finite numbers of shape {shape}")
    return found


def _native_episode(env: Env, max_steps: int | None) -> Callable:
    """Returns the function (act, seed) -> last observation of an episode in a native environment."""
    reset, step = jax.jit(env.reset), jax.jit(env.step)
    length = min(env.spec.horizon, max_steps or env.spec.horizon)

    def checked(action: Any) -> np.ndarray:
        values, shape = as_numbers(ACTION, action).astype(np.float32), (env.spec.action_dim,)
        if values.shape != shape or not np.isfinite(values).all():
            raise UsageError(f"the policy gave the action {action}; valid: {shape[0]} finite numbers")
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


def _action(space: Any, given: Any) -> Any:
    """Returns an action as the space has it: of its shape, and of its integers or as an int where it has these; raises
    UsageError where it is none."""
    values, shape = as_numbers(ACTION, given).astype(np.float64), getattr(space, "shape", None)
    if shape == () and hasattr(space, "n"):  # of discrete actions
        if values.size == 1 and values.item() in range(space.start, space.start + space.n):
            return int(values.item())
        valid = f"a whole number from {space.start} to {space.start + space.n - 1}"
    elif getattr(space, "dtype", None) is not None and np.dtype(space.dtype).kind in "iub":
        with np.errstate(invalid="ignore"):  # what is no whole number is another one then
            whole = values.astype(space.dtype)
        if whole.size == math.prod(space.shape) and (whole == values).all() and space.contains(whole.reshape(shape)):
            return whole.reshape(shape)
        valid = f"whole numbers in {space}"
    else:
        if np.isfinite(values).all() and (shape is None or values.size == math.prod(shape)):
            return given if shape is None else np.reshape(given, shape)
        valid = f"finite numbers of shape {shape}"
    raise UsageError(f"the policy gave the action {given}; valid: {valid}")


def _gymnasium_episode(env: Any, max_steps: int | None) -> Callable:
    """Returns the function (act, seed) -> last observation of an episode in a Gymnasium environment."""
    if max_steps is None and not gymnasium_engine.is_limited(env):
        raise UsageError("this environment has no time limit: give max_steps")

    def episode(act: Callable, seed: int) -> Any:
        obs, _ = env.reset(seed=seed)
        for _ in itertools.count() if max_steps is None else range(max_steps):
            obs, _, terminated, truncated, _ = env.step(_action(env.action_space, act(obs)))
            if terminated or truncated:
                break
        return obs

    return episode
