"""Acting: the goals pursued in every environment, and whole episodes for evaluation."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vgcrl.envs.contract import Vectorised
from vgcrl.objective.goals import GoalSpace
from vgcrl.objective.types import EnvSpec, Step


class Pursuit(NamedTuple):
    """What an episode is after: a goal z, or where `aimed` the goal that stands for a target state."""

    z: Array
    target: Array
    aimed: Array


Act = Callable[[Array, Any], Array]  # obs, what is pursued -> action


class StepSeen(NamedTuple):
    """One step of an episode."""

    obs: Array
    action: Array
    next_obs: Array


Measure = Callable[[StepSeen, Any], Any]  # and what is pursued -> numbers


class Scene(NamedTuple):
    """Where the environments stand, and the goals pursued in them."""

    env: Any  # nothing where the environments run on the host
    obs: Array
    z: Array


def sample_goals(goals: GoalSpace, key: Array, count: int) -> Array:
    return jax.vmap(goals.sample)(jax.random.split(key, count))


def where_rows(mask: Array, new: Array, old: Array) -> Array:
    return jnp.where(mask.reshape(-1, *[1] * (old.ndim - 1)), new, old)


def pursue(goals: GoalSpace, scene: Scene, env: Any, out: Step, key: Array) -> Scene:
    """After a step: where an episode ended, pursue a new goal."""
    fresh = sample_goals(goals, key, out.last.shape[0])
    return Scene(env, out.obs, where_rows(out.last, fresh, scene.z))


class EpisodeStats(NamedTuple):
    """Episodes under way, one per goal."""

    obs: Array
    final: StepSeen  # the last step taken
    running: Array
    steps: Array  # taken
    sums: Any  # of what is measured, over those steps


def begin(obs: Array, pursued: Any, actions: int, measure: Measure) -> EpisodeStats:
    count = obs.shape[0]
    still = StepSeen(obs, jnp.zeros((count, actions)), obs)
    shapes = jax.eval_shape(jax.vmap(measure), still, pursued)
    sums = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    return EpisodeStats(obs, still, jnp.ones(count, bool), jnp.zeros(count), sums)


def follow(stats: EpisodeStats, action: Array, out: Step, pursued: Any, measure: Measure) -> EpisodeStats:
    """One step of all episodes; one that has ended counts no more."""
    running = stats.running
    now = StepSeen(stats.obs, action, out.next_obs)
    measured = jax.vmap(measure)(now, pursued)
    sums = jax.tree.map(lambda total, x: where_rows(running, total + x, total), stats.sums, measured)
    final = jax.tree.map(lambda new, old: where_rows(running, new, old), now, stats.final)
    return EpisodeStats(out.obs, final, running & ~out.last, stats.steps + running.astype(jnp.float32), sums)


def places(stats: EpisodeStats, spec: EnvSpec) -> Array:
    """Where the bodies are, (episode, place); where they stopped, once an episode has ended."""
    return stats.final.next_obs[..., jnp.array(spec.place, jnp.int32)]


def episodes(env: Vectorised, act: Act, pursued: Any, key: Array, measure: Measure) -> tuple[EpisodeStats, Array]:
    """One whole episode for each thing pursued, in a native environment; and its path, (step, episode, place)."""
    key_reset, key_steps = jax.random.split(key)
    state, obs = env.reset(key_reset)

    def step(carry: tuple[Any, EpisodeStats], key: Array) -> tuple[tuple[Any, EpisodeStats], Array]:
        state, stats = carry
        action = jax.vmap(act)(stats.obs, pursued)
        state, out = env.step(state, action, key)
        stats = follow(stats, action, out, pursued, measure)
        return (state, stats), places(stats, env.spec)

    keys = jax.random.split(key_steps, env.spec.horizon)
    (_, stats), path = jax.lax.scan(step, (state, begin(obs, pursued, env.spec.action_dim, measure)), keys)
    return stats, path


def trajectories(env: Vectorised, act: Act, z: Array, key: Array) -> Array:
    """The observations of one whole episode per goal, (step, goal, ...), for pictures."""
    key_reset, key_steps = jax.random.split(key)
    state, obs = env.reset(key_reset)

    def step(carry, key):
        state, obs = carry
        state, out = env.step(state, jax.vmap(act)(obs, z), key)
        return (state, out.obs), out.next_obs

    _, path = jax.lax.scan(step, (state, obs), jax.random.split(key_steps, env.spec.horizon))
    return jnp.concatenate([obs[None], path])
