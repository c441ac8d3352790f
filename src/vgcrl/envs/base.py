"""The contract of environments, and native environments run side by side.

A native environment is pure and describes one instance. `vectorise` turns it into what the loop
sees: many instances, a time limit, and a fresh random start where an episode ended.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from vgcrl.types import EnvSpec, Step


class Env(NamedTuple):
    spec: EnvSpec
    reset: Callable[[Array], tuple[Any, Array]]  # key -> (sim, obs)
    step: Callable[[Any, Array, Array], tuple[Any, Array, Array]]  # sim, action, key -> (sim, next_obs, terminal)


class VecEnv(Protocol):
    """All the loop sees. `native` environments can be traced into one program with the learner."""

    @property
    def spec(self) -> EnvSpec: ...
    @property
    def native(self) -> bool: ...
    def reset(self, key: Array) -> tuple[Any, Array]: ...
    def step(self, state: Any, action: Array, key: Array) -> tuple[Any, Step]: ...


class VecState(NamedTuple):
    sim: Any
    time: Array  # steps taken in the current episode


class Vectorised(NamedTuple):
    env: Env
    count: int
    native: bool = True

    @property
    def spec(self) -> EnvSpec:
        return self.env.spec

    def reset(self, key: Array) -> tuple[VecState, Array]:
        sim, obs = jax.vmap(self.env.reset)(jax.random.split(key, self.count))
        return VecState(sim, jnp.zeros(self.count, jnp.int32)), obs

    def step(self, state: VecState, action: Array, key: Array) -> tuple[VecState, Step]:
        key_step, key_reset = jax.random.split(key)
        keys = jax.random.split(key_step, self.count)
        sim, next_obs, terminal = jax.vmap(self.env.step)(state.sim, action, keys)
        time = state.time + 1
        last = terminal | (time >= self.spec.horizon)
        fresh, fresh_obs = self.reset(key_reset)

        def where_last(new: Array, old: Array) -> Array:
            return jnp.where(last.reshape(-1, *[1] * (old.ndim - 1)), new, old)

        state, obs = jax.tree.map(where_last, (fresh, fresh_obs), (VecState(sim, time), next_obs))
        return state, Step(next_obs, obs, terminal, last)


def vectorise(env: Env, count: int) -> Vectorised:
    return Vectorised(env, count)
