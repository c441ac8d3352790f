"""An environment seen through an unknown linear map: o = W s, for positions and velocities alike."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from vgcrl.envs.base import Env


def random_projection(rows: int, columns: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, columns))


def project(env: Env, dim: int, seed: int) -> Env:
    """W ∈ R^{dim×N} with Gaussian entries from `seed`."""
    spec = env.spec
    matrix = random_projection(dim, len(spec.position), seed)
    arena = np.abs(matrix) @ np.array([spec.high[i] for i in spec.position])
    speed = np.abs(matrix) @ np.array([spec.high[i] for i in spec.velocity])
    high = tuple(float(x) for x in (*arena, *speed))
    seen = spec._replace(
        obs_dim=2 * dim,
        low=tuple(-x for x in high),
        high=high,
        position=tuple(range(dim)),
        velocity=tuple(range(dim, 2 * dim)),
        features=tuple(range(dim)),
        facts={**spec.facts, "projection": matrix.tolist()},
    )

    def view(obs: Array) -> Array:
        w = jnp.asarray(matrix, obs.dtype)
        return jnp.concatenate([w @ obs[jnp.array(spec.position)], w @ obs[jnp.array(spec.velocity)]])

    def reset(key: Array) -> tuple[Any, Array]:
        sim, obs = env.reset(key)
        return sim, view(obs)

    def step(sim: Any, action: Array, key: Array) -> tuple[Any, Array, Array]:
        sim, obs, terminal = env.step(sim, action, key)
        return sim, view(obs), terminal

    return Env(seen, reset, step)
