"""Metrics of evaluation episodes: F, LGR(z), LGR(s), LGR_v and the spread, for any q and any environment.

One batch of episodes serves all metrics: the first episodes pursue goals from the prior, the others the goals that
stand for target states. F and log_q are means over all steps; LGR compares the pursued goal, or the target state, with
the final state. By default the policy acts without noise.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Key, Shaped

from vgcrl.measure.rollout import EpisodeStats, Measure, Pursuit, StepSeen, sample_goals
from vgcrl.objective.goals import Discrete, GoalSpace, current
from vgcrl.objective.learner import empowerment
from vgcrl.objective.posteriors import PosteriorView
from vgcrl.objective.types import EnvSpec

# Metrics of bodies with velocities only: LGR_v, and the spread between episodes, by skill or by chance, of the mean
# velocity and of the distance travelled.
MOVING = ("lgr_v", "spread_v", "spread_x")


def aim(
    goals: GoalSpace, q: PosteriorView, obs: Float[Array, " obs"], target: Float[Array, " obs"]
) -> Shaped[Array, "*goal"]:
    """Returns the goal that stands for a target state. `obs`, the state now, matters only if q sees transitions."""
    return goals.point(q.towards(obs, target))


def plan(
    goals: GoalSpace, q: PosteriorView, key: Key[Array, ""], count: int, targets: Float[Array, "target obs"]
) -> Pursuit:
    """Returns what all episodes pursue: `count` goals of the prior, and the goal of each target state (Algorithm 1)."""
    own = sample_goals(current(goals, q), key, count)
    aimed = jax.vmap(lambda s: aim(goals, q, s, s))(targets)
    nowhere = jnp.zeros((count, *targets.shape[1:]), targets.dtype)
    mask = jnp.arange(count + targets.shape[0]) >= count
    return Pursuit(jnp.concatenate([own, aimed]), jnp.concatenate([nowhere, targets]), mask)


def goal_now(goals: GoalSpace, q: PosteriorView, obs: Float[Array, " obs"], pursued: Pursuit) -> Shaped[Array, "*goal"]:
    """Returns the goal to pursue at this step; it changes only if q sees transitions and a target is pursued."""
    if q.posterior_input != "transition":
        return pursued.z
    return jnp.where(pursued.aimed, aim(goals, q, obs, pursued.target), pursued.z)


def measuring(goals: GoalSpace, q: PosteriorView, spec: EnvSpec) -> Measure:
    """Returns the function that measures one step of an episode: F, LGR(z) and the velocity."""

    def measure(now: StepSeen, pursued: Pursuit) -> dict[str, Float[Array, "..."]]:
        d, z = q.during(*now), pursued.z
        return {
            "F": empowerment(q, goals, d, z),
            "lgr_z_steps": goals.lgr(z, d.mode()),
            "velocity": now.next_obs[jnp.array(spec.velocity, jnp.int32)],
        }

    return measure


def conclude(
    goals: GoalSpace,
    q: PosteriorView,
    spec: EnvSpec,
    stats: EpisodeStats,
    pursued: Pursuit,
    targets: Float[Array, "target obs"],
) -> dict[str, Any]:
    """Returns the metrics of one run from its finished episodes: scalars, and `error` of shape (goal dimension,).

    The first episodes pursued goals from the prior; all metrics but LGR(s) and LGR_v come from them. The others pursued
    one target state each; LGR(s) and LGR_v are the squared distances of their final states to the targets, summed over
    dimensions and averaged over targets. A metric that the environment or q does not have is NaN.
    """
    count = pursued.z.shape[0] - targets.shape[0]
    own = jax.tree.map(lambda x: x[:count], (stats, pursued.z))
    (_, final, _, steps, sums), z = own
    out = {name: jnp.sum(sums[name]) / jnp.sum(steps) for name in ("F", "lgr_z_steps")}
    recovered = jax.vmap(lambda now: q.during(*now).mode())(final)
    out["log_q"] = out["F"] - goals.entropy
    out["lgr_z"] = jnp.mean(jax.vmap(goals.lgr)(z, recovered))
    for name in ("lgr_z", "lgr_z_steps"):  # the argmax of NaN is still a category
        out[name] = jnp.where(jnp.isnan(out["F"]), jnp.nan, out[name])
    out["episode_steps"] = jnp.mean(steps)
    if not isinstance(goals, Discrete):
        embed = jax.vmap(goals.embed)
        out["error"] = jnp.mean((embed(z) - embed(recovered)) ** 2, axis=0)
    square = (stats.final.next_obs[count:] - targets) ** 2
    asked = square[:, jnp.array(spec.goal)] if spec.goal else square  # in goal environments the achieved goal
    out["lgr_s"] = jnp.mean(jnp.sum(asked, axis=-1))
    out |= dict.fromkeys(MOVING, jnp.full((), jnp.nan))
    if spec.velocity:
        out["lgr_v"] = jnp.mean(jnp.sum(square[:, jnp.array(spec.velocity)], axis=-1))
        out["spread_v"] = spread(sums["velocity"] / steps[:, None])
        out["spread_x"] = spread(sums["velocity"] * spec.seconds)
    return out


def spread(x: Float[Array, "episode dim"]) -> Float[Array, ""]:
    """Returns the standard deviation over episodes: the root of the variance averaged over dimensions."""
    return jnp.sqrt(jnp.mean(jnp.var(x, axis=0)))
