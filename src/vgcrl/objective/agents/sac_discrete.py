"""Soft actor-critic for n discrete actions: critics return a vector for every action, and expectations are exact sums.

An action is a vector of n numbers, and the largest of them names the action that is taken; the agent's own actions are
one-hot. A critic returns ψ(s, ·, z) for all actions at once; the policy is a softmax.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from vgcrl.objective.agents.base import Actions, lower, soft_actor_critic, weighed
from vgcrl.objective.pictures import Network


def choice(preferences: Float[Array, "*batch action"]) -> Float[Array, "*batch action"]:
    """Returns the action with the largest number, one-hot."""
    return jax.nn.one_hot(jnp.argmax(preferences, axis=-1), preferences.shape[-1])


def gumbel(noise: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Returns Gumbel noise made from standard normal noise: argmax(logits + gumbel) is a sample of the softmax."""
    return -jnp.log(-jax.scipy.special.log_ndtr(jnp.clip(noise, -5.0, 5.0)))


def act(actor: Network, x: Float[Array, " seen"], noise: Float[Array, " action"]) -> Float[Array, " action"]:
    return choice(actor(x) + gumbel(noise))


def best(actor: Network, x: Float[Array, " seen"]) -> Float[Array, " action"]:
    return choice(actor(x))


def all_values(
    critics: Network, x: Float[Array, "batch seen"], actions: int
) -> Float[Array, "2 batch {actions} cumulant"]:
    """Returns ψ of both critics for every action."""
    psi = jax.vmap(lambda critic: jax.vmap(critic)(x))(critics)
    return psi.reshape(*psi.shape[:-1], actions, -1)


def values(
    critics: Network, x: Float[Array, "batch seen"], action: Float[Array, "batch action"]
) -> Float[Array, "2 batch cumulant"]:
    """Returns ψ of both critics for the action that was taken."""
    return jnp.sum(all_values(critics, x, action.shape[-1]) * choice(action)[None, :, :, None], axis=2)


def future(
    actor: Network,
    critics: Network,
    x: Float[Array, "batch seen"],
    w: Float[Array, "batch cumulant"],
    alpha: Float[Array, ""],
    noise: Float[Array, "batch action"],
) -> Float[Array, "batch cumulant"]:
    """Returns the policy's mean of ψ, by the critic with the smaller Q, plus the entropy bonus; nothing is drawn."""
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
    """Returns the policy's mean of α log π − min Q over the batch, that of each example, and the entropies."""
    log_pi = jax.nn.log_softmax(jax.vmap(actor)(x))
    pi, q = jnp.exp(log_pi), weighed(all_values(critics, x, log_pi.shape[-1]), w[:, None]).min(axis=0)
    each = jnp.sum(pi * (alpha * log_pi - q), axis=-1)
    return jnp.mean(each), (each, -jnp.sum(pi * log_pi, axis=-1))


def categories(action_dim: int, cumulant_dim: int) -> Actions:
    """Returns the kind of action that is one of `action_dim` choices."""
    return Actions(action_dim, 0, action_dim * cumulant_dim, act, best, choice, values, future, actor_loss)


sac_discrete = partial(soft_actor_critic, categories)
