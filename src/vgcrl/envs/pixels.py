"""An environment of two positions seen as a picture, drawn in JAX: a blob where the body is, now and a step ago."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from vgcrl.envs.contract import Env

SIZE = 16  # pixels on a side
WIDTH = 1.2  # of the blob, in pixels


class PictureState(NamedTuple):
    inner: Any
    before: Array  # the picture a step ago, so that the velocity shows


def draw(position: Array, low: Array, high: Array) -> Array:
    """Returns a picture of a blob at `position`, as SIZE · SIZE numbers from 0 to 1."""
    place = (position - low) / (high - low) * (SIZE - 1)
    pixels = jnp.asarray(np.stack(np.meshgrid(np.arange(SIZE), np.arange(SIZE), indexing="xy"), axis=-1), jnp.float32)
    return jnp.exp(-jnp.sum((pixels - place[None, None]) ** 2, axis=-1) / (2 * WIDTH**2)).reshape(-1)


def picture(env: Env) -> Env:
    spec = env.spec
    if len(spec.position) != 2:
        raise ValueError("a picture shows two positions")
    low, high = (jnp.array([x[i] for i in spec.position], jnp.float32) for x in (spec.low, spec.high))
    count = SIZE * SIZE
    seen = spec._replace(
        obs_dim=2 * count,
        low=(0.0,) * 2 * count,
        high=(1.0,) * 2 * count,
        position=(),
        velocity=(),
        features=tuple(range(count)),  # q sees, and goals are, the picture of this step alone
        image=(SIZE, SIZE, 1),
    )

    def show(obs: Array) -> Array:
        return draw(obs[jnp.array(spec.position)], low, high)

    def reset(key: Array) -> tuple[PictureState, Array]:
        inner, obs = env.reset(key)
        now = show(obs)
        return PictureState(inner, now), jnp.concatenate([now, now])

    def step(sim: PictureState, action: Array, key: Array) -> tuple[PictureState, Array, Array]:
        inner, obs, terminal = env.step(sim.inner, action, key)
        now = show(obs)
        return PictureState(inner, now), jnp.concatenate([now, sim.before]), terminal

    return Env(seen, reset, step)
