"""One step of the joint optimisation: Eq. 4 improves the policy under q, Eq. 3 fits q to the goals pursued."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Key, Shaped

from vgcrl.objective.agents.base import Agent
from vgcrl.objective.goals import GoalSpace
from vgcrl.objective.optim import adam_init, adam_step
from vgcrl.objective.posteriors import Distribution, PosteriorView
from vgcrl.objective.relabel import Relabel, relabel
from vgcrl.objective.types import Knobs, Transition


class Draws(NamedTuple):
    """The random numbers of one update, separate from it so that those of many updates can be drawn at once."""

    policy: Float[Array, "2 batch action"]  # standard normal
    relabel: Key[Array, ""]
    refresh: Key[Array, ""]


def draw(key: Key[Array, ""], batch: int, action_dim: int) -> Draws:
    """Returns the random numbers of one update."""
    key_policy, key_relabel, key_refresh = jax.random.split(key, 3)
    return Draws(jax.random.normal(key_policy, (2, batch, action_dim)), key_relabel, key_refresh)


class LearnerState(NamedTuple):
    """The posterior, the state of its optimiser, and the state of the agent."""

    q: PosteriorView
    optimiser: Any  # of q
    agent: Any


def empowerment(q: PosteriorView, goals: GoalSpace, d: Distribution, z: Shaped[Array, "*goal"]) -> Float[Array, ""]:
    """Returns the reward log q(z|·) − log p(z) of goal z; `d` is the distribution that q gave for what it saw."""
    return d.log_prob(q.code(z)) - goals.log_prob(z)


def scalar(
    q: PosteriorView, goals: GoalSpace, d: Distribution, z: Shaped[Array, "*goal"]
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """Returns cumulant and weights of the usual critic: the reward, and 1."""
    return empowerment(q, goals, d, z)[None], jnp.ones(1)


def successor(
    q: PosteriorView, goals: GoalSpace, d: Any, z: Shaped[Array, "*goal"]
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """Returns cumulant (φ, 1, 0) and weights (w(z), g(z) − log p(z), 1) of successor features. Their inner product is
    exactly the reward."""
    constant = d.offset(z) - goals.log_prob(z)
    return jnp.append(d.linear(), jnp.array([1.0, 0.0])), jnp.append(d.weights(z), jnp.stack([constant, jnp.ones(())]))


CRITICS = {"scalar": scalar, "successor": successor}
UPDATE_METRICS = ("F", "reward", "critic_loss", "actor_loss", "alpha", "entropy")  # reported by every update
REWARDS = ("level", "progress")  # log q(z|s') itself, or its increase in one step


def init(q: PosteriorView, agent: Agent, key: Key[Array, ""]) -> LearnerState:
    """Returns the state of the learner before its first update."""
    return LearnerState(q, adam_init(q), agent.init(key))


def update(
    state: LearnerState,
    batch: Transition,
    later_obs: Float[Array, "batch obs"] | None,
    knobs: Knobs,
    draws: Draws,
    *,
    agent: Agent,
    goals: GoalSpace,
    how: Relabel,
    critic: Callable[..., tuple[Array, Array]],
    bonus: float,
    progress: bool = False,
) -> tuple[LearnerState, dict[str, Float[Array, " batch"]]]:
    """Returns the learner after Eqs. 4 and 3 on one batch, and the numbers named in UPDATE_METRICS for each example.

    One pass of q over s' serves both: the policy improves under the current λ, then λ is updated. With `progress` the
    reward of a step is log q(z|s') − log q(z|s). That is (1 − γ) log q(z|s') plus shaping by the potential log q, so
    the best policies are the same where episodes do not end early, and the critic need not learn what q already gives.
    """

    inputs = state.q.inputs(batch.obs, batch.action, batch.next_obs)

    def misfit(q: PosteriorView) -> tuple[Float[Array, ""], Any]:
        """Returns the loss of Eq. 3, on pursued and never on relabelled goals, and q(·|s') of each example."""
        reached = jax.vmap(q.of)(inputs)
        fitted = jax.vmap(lambda d, z: d.fit(q.code(z)))(reached, batch.z)
        return -jnp.mean(fitted), reached

    grads, reached = jax.grad(misfit, has_aux=True)(state.q)
    z = relabel(how, knobs.relabel_fraction, state.q, batch.z, later_obs, draws.relabel)
    pay = jax.vmap(lambda d, z: critic(state.q, goals, d, z))
    cumulant, w = pay(reached, z)
    if progress:
        cumulant -= pay(jax.vmap(state.q)(batch.obs), z)[0]
    pursued = jax.vmap(lambda d, z: empowerment(state.q, goals, d, z))(reached, batch.z)
    paid = cumulant.at[:, -1].add(bonus) if bonus else cumulant  # in the last place, whose weight is 1
    agent_state, info = agent.update(state.agent, batch._replace(z=z), paid, w, knobs.learning_rate, draws.policy)

    q, optimiser = adam_step(state.q, grads, state.optimiser, knobs.posterior_learning_rate)
    q = q.refresh(inputs, draws.refresh)
    return LearnerState(q, optimiser, agent_state), {"F": pursued, "reward": jnp.sum(cumulant * w, axis=-1), **info}
