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
    """The random numbers of one update, so that those of many updates can be drawn at once."""

    policy: Float[Array, "2 batch action"]  # standard normal
    relabel: Key[Array, ""]
    refresh: Key[Array, ""]


def draw(key: Key[Array, ""], batch: int, action_dim: int) -> Draws:
    key_policy, key_relabel, key_refresh = jax.random.split(key, 3)
    return Draws(jax.random.normal(key_policy, (2, batch, action_dim)), key_relabel, key_refresh)


class LearnerState(NamedTuple):
    q: PosteriorView
    optimiser: Any  # of q
    agent: Any


def empowerment(q: PosteriorView, goals: GoalSpace, d: Distribution, z: Shaped[Array, "*goal"]) -> Float[Array, ""]:
    """The reward of what d = q(·|seen) was seen, under goal z: log q(z|·) − log p(z)."""
    return d.log_prob(q.code(z)) - goals.log_prob(z)


def scalar(
    q: PosteriorView, goals: GoalSpace, d: Distribution, z: Shaped[Array, "*goal"]
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """Cumulant and w of the usual critic."""
    return empowerment(q, goals, d, z)[None], jnp.ones(1)


def successor(
    q: PosteriorView, goals: GoalSpace, d: Any, z: Shaped[Array, "*goal"]
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """Of successor features: (φ, 1, 0) and (w(z), g(z) − log p(z), 1); their product is the reward, exactly."""
    constant = d.offset(z) - goals.log_prob(z)
    return jnp.append(d.linear(), jnp.array([1.0, 0.0])), jnp.append(d.weights(z), jnp.stack([constant, jnp.ones(())]))


CRITICS = {"scalar": scalar, "successor": successor}
TOLD = ("F", "reward", "critic_loss", "actor_loss", "alpha", "entropy")  # of every update
REWARDS = ("level", "progress")  # log q(z|s') itself, or what a step added to it


def init(q: PosteriorView, agent: Agent, key: Key[Array, ""]) -> LearnerState:
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
    """One pass of q over s' serves both: the policy improves under λ as it is now, then λ moves on.

    With `progress` a step is paid what it added, log q(z|s') − log q(z|s). That is (1 − γ) log q(z|s') and a shaping
    by the potential log q, so the best policies are the same where episodes do not end early; the critic need not
    learn what q knows.

    What is told of the update is told of each example, so that whoever wants it averages all of it at once.
    """

    inputs = state.q.inputs(batch.obs, batch.action, batch.next_obs)

    def misfit(q: PosteriorView) -> tuple[Float[Array, ""], Any]:
        """Eq. 3 on the goals pursued, never on relabelled ones."""
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
    paid = cumulant.at[:, -1].add(bonus) if bonus else cumulant  # to the number whose weight is 1
    agent_state, info = agent.update(state.agent, batch._replace(z=z), paid, w, knobs.learning_rate, draws.policy)

    q, optimiser = adam_step(state.q, grads, state.optimiser, knobs.posterior_learning_rate)
    q = q.refresh(inputs, draws.refresh)
    return LearnerState(q, optimiser, agent_state), {"F": pursued, "reward": jnp.sum(cumulant * w, axis=-1), **info}
