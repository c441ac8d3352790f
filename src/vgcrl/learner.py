"""One step of the joint optimisation: Eq. 4 improves the policy under q, Eq. 3 fits q to the goals pursued."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vgcrl.agents.sac import Agent
from vgcrl.goals import GoalSpace
from vgcrl.optim import adam_init, adam_step
from vgcrl.posteriors import Posterior
from vgcrl.relabel import Relabel, relabel
from vgcrl.types import Knobs, Transition


class Draws(NamedTuple):
    """The random numbers of one update, so that those of many updates can be drawn at once."""

    policy: Array  # standard normal, (2, batch, action)
    relabel: Array  # keys
    refresh: Array


def draw(key: Array, batch: int, action_dim: int) -> Draws:
    key_policy, key_relabel, key_refresh = jax.random.split(key, 3)
    return Draws(jax.random.normal(key_policy, (2, batch, action_dim)), key_relabel, key_refresh)


class LearnerState(NamedTuple):
    q: Posterior
    optimiser: Any  # of q
    agent: Any


def empowerment(q: Posterior, goals: GoalSpace, s: Array, z: Array) -> Array:
    """The reward of reaching s under goal z: log q(z|s) − log p(z)."""
    return q(s).log_prob(z) - goals.log_prob(z)


def init(q: Posterior, agent: Agent, key: Array) -> LearnerState:
    return LearnerState(q, adam_init(q), agent.init(key))


def update(
    state: LearnerState,
    batch: Transition,
    later_obs: Array | None,
    knobs: Knobs,
    draws: Draws,
    *,
    agent: Agent,
    goals: GoalSpace,
    how: Relabel,
) -> tuple[LearnerState, dict[str, Array]]:
    """One pass of q over s' serves both: the policy improves under λ as it is now, then λ moves on.

    What is told of the update is told of each example, so that whoever wants it averages all of it at once.
    """

    def rewards(reached: Any, z: Array) -> Array:
        return jax.vmap(lambda d, z: d.log_prob(z) - goals.log_prob(z))(reached, z)

    def misfit(q: Posterior) -> tuple[Array, Any]:
        """Eq. 3 on the goals pursued, never on relabelled ones."""
        reached = jax.vmap(q)(batch.next_obs)
        pursued = rewards(reached, batch.z)
        return -jnp.mean(pursued), (reached, pursued)

    grads, (reached, pursued) = jax.grad(misfit, has_aux=True)(state.q)
    z = relabel(how, knobs.relabel_fraction, state.q, batch.z, later_obs, draws.relabel)
    reward = rewards(reached, z)
    agent_state, info = agent.update(state.agent, batch._replace(z=z), reward, knobs.learning_rate, draws.policy)

    q, optimiser = adam_step(state.q, grads, state.optimiser, knobs.posterior_learning_rate)
    q = q.refresh(batch.next_obs, draws.refresh)
    return LearnerState(q, optimiser, agent_state), {"F": pursued, "reward": reward, **info}
