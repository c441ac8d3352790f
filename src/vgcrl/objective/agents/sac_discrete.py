"""Soft actor-critic where the action is one of n: expectations over actions are sums, critics answer for all.

An action is a vector of n numbers of which the largest is taken; the agent's own are one-hot. Critics answer with a
vector ψ(s, ·, z) for every action; the policy is a softmax.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from vgcrl.objective.agents.base import Actions, lower, soft_actor_critic, weighed
from vgcrl.objective.pictures import Network


def choice(preferences: Float[Array, "*batch action"]) -> Float[Array, "*batch action"]:
    """The action with the largest number, one-hot."""
    return jax.nn.one_hot(jnp.argmax(preferences, axis=-1), preferences.shape[-1])


def gumbel(noise: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Standard normal noise as Gumbel's: argmax(logits + gumbel) is a sample of the softmax."""
    return -jnp.log(-jax.scipy.special.log_ndtr(jnp.clip(noise, -5.0, 5.0)))


def act(actor: Network, x: Float[Array, " seen"], noise: Float[Array, " action"]) -> Float[Array, " action"]:
    return choice(actor(x) + gumbel(noise))


def best(actor: Network, x: Float[Array, " seen"]) -> Float[Array, " action"]:
    return choice(actor(x))


def all_values(
    critics: Network, x: Float[Array, "batch seen"], actions: int
) -> Float[Array, "2 batch {actions} cumulant"]:
    """ψ of both critics, of every action."""
    psi = jax.vmap(lambda critic: jax.vmap(critic)(x))(critics)
    return psi.reshape(*psi.shape[:-1], actions, -1)


def values(
    critics: Network, x: Float[Array, "batch seen"], action: Float[Array, "batch action"]
) -> Float[Array, "2 batch cumulant"]:
    """ψ of both critics, of the action that is taken."""
    return jnp.sum(all_values(critics, x, action.shape[-1]) * choice(action)[None, :, :, None], axis=2)


def future(
    actor: Network,
    critics: Network,
    x: Float[Array, "batch seen"],
    w: Float[Array, "batch cumulant"],
    alpha: Float[Array, ""],
    noise: Float[Array, "batch action"],
) -> Float[Array, "batch cumulant"]:
    """The mean under the policy of ψ, by the smaller of both critics, and of the entropy; nothing is drawn."""
    log_pi = jax.nn.log_softmax(jax.vmap(actor)(x))
    psi = lower(all_values(critics, x, log_pi.shape[-1]), w[:, None])
    return jnp.sum(jnp.exp(log_pi)[..., None] * psi.at[..., -1].add(-alpha * log_pi), axis=1)


def actor_loss(
    actor: Network,
    critics: Network,
    x: Float[Array, "batch seen"],
    w: Float[Array, "batch cumulant"],
    alpha: Float[Array, ""],
    noise: Float[Array, "batch action"],
) -> tuple[Float[Array, ""], tuple[Float[Array, " batch"], Float[Array, " batch"]]]:
    log_pi = jax.nn.log_softmax(jax.vmap(actor)(x))
    pi, q = jnp.exp(log_pi), weighed(all_values(critics, x, log_pi.shape[-1]), w[:, None]).min(axis=0)
    each = jnp.sum(pi * (alpha * log_pi - q), axis=-1)
    return jnp.mean(each), (each, -jnp.sum(pi * log_pi, axis=-1))


def categories(action_dim: int, cumulant_dim: int) -> Actions:
    return Actions(action_dim, 0, action_dim * cumulant_dim, act, best, choice, values, future, actor_loss)


sac_discrete = partial(soft_actor_critic, categories)
