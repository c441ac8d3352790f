"""Policies as functions that act in films and recorded pages, and the goals that they pursue there."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vgcrl.envs.gymnasium_film import desired_goals
from vgcrl.envs.observations import check_unmasked
from vgcrl.errors import UsageError
from vgcrl.measure.rollout import sample_goals
from vgcrl.objective.goals import Box, Discrete, Sphere, current
from vgcrl.objective.methods import METHODS
from vgcrl.show.tables import counted
from vgcrl.training.program import Program, RunState


def acting(program: Program, run: RunState, noise: bool) -> Callable[[Any, Any], np.ndarray]:
    """Returns a function that maps batches of observations and goals to actions in [−1, 1], (batch, action).

    With `noise` it draws from the policy at every call, as in training; without, it takes the policy's mode.
    """
    act, rng, width = jax.jit(jax.vmap(partial(program.act, run))), np.random.default_rng(0), program.spec.action_dim

    def actions(obs: Any, z: Any) -> np.ndarray:
        draws = rng.standard_normal((len(obs), width), np.float32) if noise else None
        return np.asarray(act(obs, z, draws))

    return actions


def around(count: int) -> np.ndarray:
    """Returns `count` evenly spaced unit vectors in the plane, (count, 2)."""
    angle = 2 * np.pi * np.arange(count) / count
    return np.stack([np.cos(angle), np.sin(angle)], axis=1).round(6).astype(np.float32) + 0.0  # no −0


def some_goals(program: Program, run: RunState, count: int, key: jax.Array | None = None) -> jax.Array:
    """Returns up to `count` goals: categories and directions in a plane evenly spaced, others drawn from the prior."""
    size = program.goals.dim
    if isinstance(program.goals, Sphere) and size == 2:
        return jnp.asarray(around(count))
    if isinstance(program.goals, Discrete):
        return jnp.asarray(np.linspace(0, size - 1, min(size, count)).round().astype(np.int32))
    return sample_goals(current(program.goals, run.learner.q), run.key_evaluation if key is None else key, count)


def asks_for_goals(program: Program) -> bool:
    """Returns whether the environment asks for goals that the policy can pursue: a goal environment, and a method whose
    goals are states."""
    return bool(program.spec.goal) and METHODS[program.config.method].bounded


def desired(program: Program, run: RunState, count: int) -> jax.Array:
    """Returns the goals that stand for those that a goal environment asks for in the episodes of the seeds 0, 1, …"""
    config, spec = program.config, program.spec
    asked = jnp.asarray(desired_goals(config.env, config.env_arg or (), count), jnp.float32)
    states = jnp.zeros((count, spec.obs_dim)).at[:, jnp.array(spec.goal)].set(asked)
    return jax.vmap(lambda state: program.goals.point(run.learner.q(state)))(states)


def given_goals(program: Program, given: Sequence[Any]) -> jax.Array:
    """Returns goals that a user wrote as an array for the policy; raises UsageError where one is not valid."""
    goals, each = program.goals, list(given) if np.iterable(given) else []
    discrete = isinstance(goals, Discrete)
    what = "--skills" if discrete else "--goal"
    if not each:
        raise UsageError(f"{what} {given!r} is not valid; valid: a list of goals of this run")
    valid = f"--skills from 0 to {goals.dim - 1}" if discrete else f"--goal with {counted(goals.dim, 'number')}"
    if discrete != (np.ndim(each[0]) == 0):
        asked = "--goal" if discrete else "--skills"
        raise UsageError(f"{asked} {each[0]} is no goal of this {program.config.method} run; valid: {valid}")
    check_unmasked(what, each)
    try:
        found = np.stack([goals.read(z) for z in each])  # jnp.stack would compile a program of as many inputs
    except ValueError as error:
        raise UsageError(f"{what}: {error}; valid: {valid}") from None
    _check_range(goals, found)
    return jnp.asarray(found)


def _check_range(goals: Any, given: np.ndarray) -> None:
    """Raises UsageError where a goal lies outside the box that the policy was trained on."""
    if isinstance(goals, Box):
        low, high = np.array(goals.low, np.float32), np.array(goals.high, np.float32)
        for z in given[((given < low) | (given > high)).any(axis=1)][:1]:
            ranges = ", ".join(f"{a:g} to {b:g}" for a, b in zip(low, high, strict=True))
            raise UsageError(f"--goal {','.join(f'{x:g}' for x in z)} is out of range; valid: {ranges}")
