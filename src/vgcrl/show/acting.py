"""Acting for a film or a page that was recorded, and for which goals."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vgcrl.measure.rollout import sample_goals
from vgcrl.objective.goals import Discrete, Sphere, current
from vgcrl.training.program import Program, RunState


def acting(program: Program, run: RunState, noise: bool) -> Callable[[Any, Any], np.ndarray]:
    """Actions in [−1, 1] for a batch of observations and goals; noise is drawn anew at every call."""
    act, rng, width = jax.jit(jax.vmap(partial(program.act, run))), np.random.default_rng(0), program.spec.action_dim

    def actions(obs: Any, z: Any) -> np.ndarray:
        draws = rng.standard_normal((len(obs), width), np.float32) if noise else None
        return np.asarray(act(obs, z, draws))

    return actions


def around(count: int) -> np.ndarray:
    """Directions in the plane, evenly spaced."""
    angle = 2 * np.pi * np.arange(count) / count
    return np.stack([np.cos(angle), np.sin(angle)], axis=1).round(6).astype(np.float32) + 0.0  # no −0


def some_goals(program: Program, run: RunState, count: int, key: jax.Array | None = None) -> jax.Array:
    """So many goals that differ: categories and directions in a plane evenly spaced, others drawn from the prior."""
    size = program.goals.dim
    if isinstance(program.goals, Sphere) and size == 2:
        return jnp.asarray(around(count))
    if isinstance(program.goals, Discrete):
        return jnp.asarray(np.linspace(0, size - 1, min(size, count)).round().astype(np.int32))
    return sample_goals(current(program.goals, run.learner.q), run.key_evaluation if key is None else key, count)
