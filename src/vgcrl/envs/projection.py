"""An environment seen through an unknown linear map: o = W s, for positions and velocities alike."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from vgcrl.envs.contract import Env
from vgcrl.errors import UsageError
from vgcrl.objective.types import key_of_seed

LARGEST = 2**24  # most numbers in W


def random_projection(rows: int, columns: int, seed: int | Array) -> Array:
    return jax.random.normal(key_of_seed(seed), (rows, columns))


def project(env: Env, dim: int, seed: int | Array) -> Env:
    """Returns the environment seen through W ∈ R^{dim×N}, whose entries are Gaussian, drawn from `seed`.

    Where the seed is traced, the ranges of W s are not known.
    """
    spec = env.spec
    if dim * len(spec.position) > LARGEST:
        sizes = f"--projection-dim {dim} of --dims {len(spec.position)}"
        raise UsageError(f"{sizes} is too large a matrix W; valid: at most {LARGEST:,} numbers")
    matrix = random_projection(dim, len(spec.position), seed)
    seen = spec._replace(
        obs_dim=2 * dim,
        low=(math.nan,) * 2 * dim,
        high=(math.nan,) * 2 * dim,
        position=tuple(range(dim)),
        velocity=tuple(range(dim, 2 * dim)),
        features=tuple(range(dim)),
    )
    if not isinstance(seed, Tracer):
        w, reach = np.asarray(matrix, np.float64), np.array(spec.high)
        ends = (np.abs(w) @ reach[list(group)] for group in (spec.position, spec.velocity))
        high = tuple(float(x) for x in np.concatenate([*ends]))
        seen = seen._replace(low=tuple(-x for x in high), high=high, facts={**spec.facts, "projection": w.tolist()})

    def view(obs: Array) -> Array:
        w = matrix.astype(obs.dtype)
        return jnp.concatenate([w @ obs[jnp.array(spec.position)], w @ obs[jnp.array(spec.velocity)]])

    def reset(key: Array) -> tuple[Any, Array]:
        sim, obs = env.reset(key)
        return sim, view(obs)

    def step(sim: Any, action: Array, key: Array) -> tuple[Any, Array, Array]:
        sim, obs, terminal = env.step(sim, action, key)
        return sim, view(obs), terminal

    return Env(seen, reset, step)
