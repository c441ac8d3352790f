"""Soft actor-critic for actions in [−1, 1]^n: the policy is the tanh of a Gaussian."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from vgcrl.objective.agents.base import Actions, lower, soft_actor_critic, weighed
from vgcrl.objective.distributions import Normal
from vgcrl.objective.pictures import Network

LOG_STD_RANGE = (-5.0, 2.0)


def uniform(noise: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Returns uniform numbers in [−1, 1], made from standard normal noise by its distribution function."""
    return jax.scipy.special.erf(noise / 2**0.5)


def policy(actor: Network, x: Float[Array, " seen"]) -> Normal:
    """Returns the distribution of the action before the tanh."""
    mean, log_std = jnp.split(actor(x), 2)
    return Normal(mean, jnp.clip(log_std, *LOG_STD_RANGE))


def sample_action(
    actor: Network, x: Float[Array, " seen"], noise: Float[Array, " action"]
) -> tuple[Float[Array, " action"], Float[Array, ""]]:
    """Returns an action made from standard normal noise, and its log-density.

    It uses log(1 − tanh²u) = 2(log 2 − u − softplus(−2u)).
    """
    pi = policy(actor, x)
    u = pi.mean + jnp.exp(pi.log_std) * noise
    squash = jnp.sum(2 * (jnp.log(2.0) - u - jax.nn.softplus(-2 * u)))
    return jnp.tanh(u), pi.log_prob(u) - squash


def act(actor: Network, x: Float[Array, " seen"], noise: Float[Array, " action"]) -> Float[Array, " action"]:
    return sample_action(actor, x, noise)[0]


def best(actor: Network, x: Float[Array, " seen"]) -> Float[Array, " action"]:
    return jnp.tanh(policy(actor, x).mode())


def values(
    critics: Network, x: Float[Array, "batch seen"], action: Float[Array, "batch action"]
) -> Float[Array, "2 batch cumulant"]:
    """Returns ψ of both critics."""
    inputs = jnp.concatenate([x, action], axis=-1)
    each = jnp.stack([inputs, inputs])  # a copy per critic keeps every product in one layout
    return jax.vmap(lambda critic, inputs: jax.vmap(critic)(inputs))(critics, each)


def future(
    actor: Network,
    critics: Network,
    x: Float[Array, "batch seen"],
    w: Float[Array, "batch cumulant"],
    alpha: Float[Array, ""],
    noise: Float[Array, "batch action"],
) -> Float[Array, "batch cumulant"]:
    """Returns ψ of an action drawn from the policy, by the critic with the smaller Q, plus its entropy bonus."""
    action, log_pi = jax.vmap(sample_action, (None, 0, 0))(actor, x, noise)
    return lower(values(critics, x, action), w).at[:, -1].add(-alpha * log_pi)


def actor_loss(
    actor: Network,
    critics: Network,
    x: Float[Array, "batch seen"],
    w: Float[Array, "batch cumulant"],
    alpha: Float[Array, ""],
    noise: Float[Array, "batch action"],
) -> tuple[Float[Array, ""], tuple[Float[Array, " batch"], Float[Array, " batch"]]]:
    """Returns α log π(ã|s, z) − min Q(s, ã, z): the mean over the batch, that of each example, and the entropies."""
    action, log_pi = jax.vmap(sample_action, (None, 0, 0))(actor, x, noise)
    each = alpha * log_pi - weighed(values(critics, x, action), w).min(axis=0)
    return jnp.mean(each), (each, -log_pi)


def vectors(action_dim: int, cumulant_dim: int) -> Actions:
    """Returns the kind of action that is a vector."""
    return Actions(2 * action_dim, action_dim, cumulant_dim, act, best, uniform, values, future, actor_loss)


sac = partial(soft_actor_critic, vectors)
