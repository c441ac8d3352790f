"""F, LGR(z), LGR(s), LGR_v: how well a policy reaches the goals it is given, whatever q is.

F and log_q are means over all steps of held-out episodes; LGR compares the goal with the final state.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import stats

from vgcrl.envs.base import VecEnv
from vgcrl.goals import Discrete, GoalSpace
from vgcrl.learner import empowerment
from vgcrl.posteriors import Posterior
from vgcrl.rollout import episodes, sample_goals


def evaluate(
    env: VecEnv,
    goals: GoalSpace,
    q: Posterior,
    act: Callable[[Array, Array], Array],
    key: Array,
    count: int,
) -> dict[str, Array]:
    """`count` episodes of goals from the prior; `env` holds that many environments."""
    key_goals, key_episodes = jax.random.split(key)
    z = sample_goals(goals, key_goals, count)

    def measure(s: Array, z: Array) -> dict[str, Array]:
        return {"F": empowerment(q, goals, s, z), "lgr_z_steps": goals.lgr(z, q(s).mode())}

    final, out = episodes(env, act, z, key_episodes, measure)
    recovered = jax.vmap(lambda s: q(s).mode())(final)
    out["log_q"] = out["F"] - goals.entropy
    out["lgr_z"] = jnp.mean(jax.vmap(goals.lgr)(z, recovered))
    if not isinstance(goals, Discrete):
        embed = jax.vmap(goals.embed)
        out["error"] = jnp.mean((embed(z) - embed(recovered)) ** 2, axis=0)
    return out


def latent_goal_reaching(
    env: VecEnv,
    act: Callable[[Array, Array], Array],
    embed: Callable[[Array], Array],
    targets: Array,
    key: Array,
) -> tuple[Array, Array]:
    """Algorithm 1: squared distance to the target states, over all and over velocity dimensions."""
    z = jax.vmap(embed)(targets)
    final, _ = episodes(env, act, z, key, lambda s, z: jnp.zeros(()))
    square = (final - targets) ** 2
    return jnp.mean(jnp.sum(square, axis=-1)), jnp.mean(jnp.sum(square[:, jnp.array(env.spec.velocity)], axis=-1))


def interval(values: Any) -> list[float] | None:
    """95 % Student interval of the mean over runs; undefined for one run."""
    x = np.asarray(values, np.float64)
    if len(x) < 2:
        return None
    half = stats.t.ppf(0.975, len(x) - 1) * x.std(ddof=1) / np.sqrt(len(x))
    return [float(x.mean() - half), float(x.mean() + half)]
