"""Act in environments: draw the goals that are pursued, and run whole episodes for evaluation."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Key, Shaped

from vgcrl.envs.contract import Vectorised
from vgcrl.objective.goals import GoalSpace
from vgcrl.objective.types import EnvSpec, Step


class Pursuit(NamedTuple):
    """What one episode, or each of several, pursues: the goal z, or where `aimed` the goal that stands for `target`."""

    z: Shaped[Array, "..."]
    target: Float[Array, "... obs"]
    aimed: Bool[Array, "..."]


Act = Callable[[Array, Any, Array | None], Array]  # (obs, goal or Pursuit, standard normal noise or None) -> action
Draws = Float[Array, "horizon episode action"]  # standard normal noise for whole episodes


class StepSeen(NamedTuple):
    """One step of one episode, or of each of several."""

    obs: Float[Array, "... obs"]
    action: Float[Array, "... action"]
    next_obs: Float[Array, "... obs"]


Measure = Callable[[StepSeen, Any], Any]  # (step, Pursuit) -> numbers by name


class Scene(NamedTuple):
    """The state of a run's training environments, and the goal pursued in each."""

    env: Any  # state of native environments; empty where environments run on the host
    obs: Float[Array, "env obs"]
    z: Shaped[Array, " env *goal"]


def sample_goals(goals: GoalSpace, key: Key[Array, ""], count: int) -> Shaped[Array, " count *goal"]:
    return jax.vmap(goals.sample)(jax.random.split(key, count))


def where_rows(
    mask: Bool[Array, " n"], new: Shaped[Array, " n *rest"], old: Shaped[Array, " n *rest"]
) -> Shaped[Array, " n *rest"]:
    """Returns the rows of `new` where `mask` is true, else those of `old`."""
    return jnp.where(mask.reshape(-1, *[1] * (old.ndim - 1)), new, old)


def pursue(goals: GoalSpace, scene: Scene, env: Any, out: Step, key: Key[Array, ""], goal_steps: int = 0) -> Scene:
    """Returns the scene after a step: a new goal is drawn where an episode ended, and elsewhere with probability
    1/`goal_steps`, unless that is 0."""
    count = out.last.shape[0]
    fresh, due = sample_goals(goals, key, count), out.last
    if goal_steps:
        due |= jax.random.bernoulli(jax.random.fold_in(key, count), 1 / goal_steps, (count,))
    return Scene(env, out.obs, where_rows(due, fresh, scene.z))


class EpisodeStats(NamedTuple):
    """What has been measured on episodes in progress, one episode per goal."""

    obs: Float[Array, "episode obs"]
    final: StepSeen  # the last step taken
    running: Bool[Array, " episode"]
    steps: Float[Array, " episode"]  # number of steps taken
    sums: Any  # sums over those steps, by name


def begin(obs: Float[Array, "episode obs"], pursued: Any, actions: int, measure: Measure) -> EpisodeStats:
    """Returns the statistics of episodes before their first step."""
    count = obs.shape[0]
    still = StepSeen(obs, jnp.zeros((count, actions)), obs)
    shapes = jax.eval_shape(jax.vmap(measure), still, pursued)
    sums = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    return EpisodeStats(obs, still, jnp.ones(count, bool), jnp.zeros(count), sums)


def follow(
    stats: EpisodeStats, action: Float[Array, "episode action"], out: Step, pursued: Any, measure: Measure
) -> EpisodeStats:
    """Returns the statistics after one step of all episodes; those of an episode that has ended stay as they are."""
    running = stats.running
    now = StepSeen(stats.obs, action, out.next_obs)
    measured = jax.vmap(measure)(now, pursued)
    sums = jax.tree.map(lambda total, x: where_rows(running, total + x, total), stats.sums, measured)
    final = jax.tree.map(lambda new, old: where_rows(running, new, old), now, stats.final)
    return EpisodeStats(out.obs, final, running & ~out.last, stats.steps + running.astype(jnp.float32), sums)


def places(stats: EpisodeStats, spec: EnvSpec) -> Float[Array, "episode place"]:
    """Returns the position of each body on the ground, in m; after the end of an episode, its position at the end."""
    return stats.final.next_obs[..., jnp.array(spec.place, jnp.int32)]


def draw_noise(env: Vectorised, key: Key[Array, ""]) -> Draws:
    """Returns standard normal noise for every action of whole episodes."""
    return jax.random.normal(key, (env.spec.horizon, env.count, env.spec.action_dim))


def episodes(
    env: Vectorised, act: Act, pursued: Any, key: Key[Array, ""], measure: Measure, draws: Draws | None = None
) -> tuple[EpisodeStats, Float[Array, "step episode place"]]:
    """Run one whole episode for each pursued goal in a native environment. Returns their statistics and paths."""
    key_reset, key_steps = jax.random.split(key)
    state, obs = env.reset(key_reset)

    def step(
        carry: tuple[Any, EpisodeStats], x: tuple[Key[Array, ""], Float[Array, "episode action"] | None]
    ) -> tuple[tuple[Any, EpisodeStats], Float[Array, "episode place"]]:
        (state, stats), (key, noise) = carry, x
        action = jax.vmap(act)(stats.obs, pursued, noise)
        state, out = env.step(state, action, key)
        stats = follow(stats, action, out, pursued, measure)
        return (state, stats), places(stats, env.spec)

    keys = jax.random.split(key_steps, env.spec.horizon)
    first = begin(obs, pursued, env.spec.action_dim, measure)
    (_, stats), path = jax.lax.scan(step, (state, first), (keys, draws))
    return stats, path


def trajectories(
    env: Vectorised, act: Act, z: Shaped[Array, " episode *goal"], key: Key[Array, ""], draws: Draws | None = None
) -> Float[Array, "step episode obs"]:
    """Returns the observations of one whole episode per goal, for pictures; one that ends early repeats its last."""
    key_reset, key_steps = jax.random.split(key)
    state, obs = env.reset(key_reset)

    def step(carry, x):
        (state, obs, seen, ended), (key, noise) = carry, x
        state, out = env.step(state, jax.vmap(act)(obs, z, noise), key)
        seen = jnp.where(ended[:, None], seen, out.next_obs)
        return (state, out.obs, seen, ended | out.last), seen

    first = (state, obs, obs, jnp.zeros(obs.shape[0], bool))
    _, path = jax.lax.scan(step, first, (jax.random.split(key_steps, env.spec.horizon), draws))
    return jnp.concatenate([obs[None], path])
