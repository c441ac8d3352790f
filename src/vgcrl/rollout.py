"""Acting: one step of all environments for replay, and whole episodes for evaluation."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vgcrl.envs.base import VecEnv
from vgcrl.goals import GoalSpace
from vgcrl.types import Transition


class Scene(NamedTuple):
    """Where the environments stand, and the goals pursued in them."""

    env: Any
    obs: Array
    z: Array


def sample_goals(goals: GoalSpace, key: Array, count: int) -> Array:
    return jax.vmap(goals.sample)(jax.random.split(key, count))


def begin(env: VecEnv, goals: GoalSpace, key: Array, count: int) -> Scene:
    key_env, key_goals = jax.random.split(key)
    state, obs = env.reset(key_env)
    return Scene(state, obs, sample_goals(goals, key_goals, count))


def collect(env: VecEnv, goals: GoalSpace, scene: Scene, action: Array, key: Array) -> tuple[Scene, Transition, Array]:
    """Take `action`; where an episode ends, pursue a new goal."""
    key_step, key_goals = jax.random.split(key)
    state, step = env.step(scene.env, action, key_step)
    fresh = sample_goals(goals, key_goals, step.last.shape[0])
    z = jnp.where(step.last.reshape(-1, *[1] * (scene.z.ndim - 1)), fresh, scene.z)
    transition = Transition(scene.obs, action, step.next_obs, scene.z, step.terminal)
    return Scene(state, step.obs, z), transition, step.last


def episodes(
    env: VecEnv,
    act: Callable[[Array, Array], Array],
    z: Array,
    key: Array,
    measure: Callable[[Array, Array], Any],
) -> tuple[Array, Any]:
    """One episode per goal. The final observations, and the mean of measure(s', z) over all steps taken."""
    key_reset, key_steps = jax.random.split(key)
    state, obs = env.reset(key_reset)

    def step(carry, key):
        state, obs, final, running = carry
        state, out = env.step(state, jax.vmap(act)(obs, z), key)
        final = jnp.where(running[:, None], out.next_obs, final)
        measured = jax.tree.map(lambda m: jnp.sum(jnp.where(running, m, 0)), jax.vmap(measure)(out.next_obs, z))
        return (state, out.obs, final, running & ~out.last), (measured, jnp.sum(running.astype(jnp.float32)))

    carry = state, obs, obs, jnp.ones(z.shape[0], bool)
    (_, _, final, _), (sums, counts) = jax.lax.scan(step, carry, jax.random.split(key_steps, env.spec.horizon))
    return final, jax.tree.map(lambda m: jnp.sum(m) / jnp.sum(counts), sums)


def trajectories(env: VecEnv, act: Callable[[Array, Array], Array], z: Array, key: Array) -> Array:
    """The observations of one whole episode per goal, (step, goal, ...), for pictures."""
    key_reset, key_steps = jax.random.split(key)
    state, obs = env.reset(key_reset)

    def step(carry, key):
        state, obs = carry
        state, out = env.step(state, jax.vmap(act)(obs, z), key)
        return (state, out.obs), out.next_obs

    _, path = jax.lax.scan(step, (state, obs), jax.random.split(key_steps, env.spec.horizon))
    return jnp.concatenate([obs[None], path])
