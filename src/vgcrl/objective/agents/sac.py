"""Soft actor-critic over (observation, goal): two critics, automatic temperature.

A critic answers with a vector ψ(s, a, z), and Q = ⟨ψ, w(z)⟩: the discounted sum of a cumulant vector whose product
with w is the reward. With one number and w = 1 it is the usual critic, with the features of log q the successor
features. Entropy is gathered in the last number, whose weight is 1.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient
from jaxtyping import Float, Key, Shaped

from vgcrl.objective.agents.inputs import seeing
from vgcrl.objective.distributions import Normal
from vgcrl.objective.networks import INPUTS, MLP
from vgcrl.objective.optim import adam_init, adam_step
from vgcrl.objective.pictures import Network
from vgcrl.objective.types import Transition

LOG_STD_RANGE = (-5.0, 2.0)


class SACState(NamedTuple):
    actor: Network
    critics: Network  # two, stacked
    target_critics: Network
    log_alpha: Float[Array, ""]
    optimiser: Any  # of (actor, critics, log_alpha)


def acting(state: SACState, critics: bool) -> SACState:
    """Without what only learning needs; with critics where they are asked which action is best."""
    nothing: Any = ()
    return SACState(state.actor, state.critics if critics else nothing, nothing, state.log_alpha, nothing)


class Agent(NamedTuple):
    init: Callable[[Array], Any]
    act: Callable[[Any, Array, Array, Array], Array]  # state, obs, z, standard normal noise -> action
    best: Callable[[Any, Array, Array], Array]  # state, obs, z -> action, without noise
    successors: Callable[[Any, Array, Array, Array], Array]  # state, obs, action, z -> ψ of both critics
    update: Callable[..., tuple[Any, dict[str, Array]]]  # state, batch, cumulant, w, learning rate, noise
    random: Callable[[Array], Array]  # standard normal noise -> a uniformly random action


def uniform(noise: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Standard normal noise through its distribution function: uniform in [−1, 1]."""
    return jax.scipy.special.erf(noise / 2**0.5)


def policy(actor: Network, x: Float[Array, " seen"]) -> Normal:
    """Distribution of the action before its tanh."""
    mean, log_std = jnp.split(actor(x), 2)
    return Normal(mean, jnp.clip(log_std, *LOG_STD_RANGE))


def sample_action(
    actor: Network, x: Float[Array, " seen"], noise: Float[Array, " action"]
) -> tuple[Float[Array, " action"], Float[Array, ""]]:
    """An action from standard normal noise, and its log-density: log(1 − tanh²u) = 2(log 2 − u − softplus(−2u))."""
    pi = policy(actor, x)
    u = pi.mean + jnp.exp(pi.log_std) * noise
    squash = jnp.sum(2 * (jnp.log(2.0) - u - jax.nn.softplus(-2 * u)))
    return jnp.tanh(u), pi.log_prob(u) - squash


def values(
    critics: Network, x: Float[Array, "batch seen"], action: Float[Array, "batch action"]
) -> Float[Array, "2 batch cumulant"]:
    """ψ of both critics."""
    inputs = jnp.concatenate([x, action], axis=-1)
    each = jnp.stack([inputs, inputs])  # a copy per critic keeps every product in one layout
    return jax.vmap(lambda critic, inputs: jax.vmap(critic)(inputs))(critics, each)


def weighed(psi: Float[Array, "2 batch cumulant"], w: Float[Array, "batch cumulant"]) -> Float[Array, "2 batch"]:
    """Q of both critics."""
    return jnp.sum(psi * w[None], axis=-1)


def critic_loss(
    critics: Network,
    x: Float[Array, "batch seen"],
    action: Float[Array, "batch action"],
    td_target: Float[Array, "batch cumulant"],
) -> tuple[Float[Array, ""], Float[Array, " batch"]]:
    each = 0.5 * jnp.sum((values(critics, x, action) - td_target[None]) ** 2, axis=(0, 2))
    return jnp.mean(each), each


def actor_loss(
    actor: Network,
    critics: Network,
    alpha: Float[Array, ""],
    x: Float[Array, "batch seen"],
    w: Float[Array, "batch cumulant"],
    noise: Float[Array, "batch action"],
) -> tuple[Float[Array, ""], tuple[Float[Array, " batch"], Float[Array, " batch"]]]:
    action, log_pi = jax.vmap(sample_action, (None, 0, 0))(actor, x, noise)
    each = alpha * log_pi - weighed(values(critics, x, action), w).min(axis=0)
    return jnp.mean(each), (each, log_pi)


def sac(
    obs_dim: int,
    action_dim: int,
    embed: Callable[[Array], Array],
    goal_dim: int,
    *,
    hidden: tuple[int, ...],
    discount: float,
    target_rate: float,
    target_entropy: float,
    initial_alpha: float = 1.0,
    cumulant_dim: int = 1,
    scale: Callable[[Array], Array] = INPUTS["raw"],
    relative: tuple[int, ...] = (),
    unseen: tuple[int, ...] = (),
    network: Callable = MLP.init,
) -> Agent:
    """`cumulant_dim` is the length of ψ; for `scale`, `relative` and `unseen` see `seeing`;
    `network` makes actor and critics of a key and sizes."""
    see = seeing(embed, scale, relative, unseen)

    def init(key: Key[Array, ""]) -> SACState:
        key_actor, key_critic = jax.random.split(key)
        width = obs_dim + goal_dim
        actor = network(key_actor, (width, *hidden, 2 * action_dim))
        critics = jax.vmap(lambda k: network(k, (width + action_dim, *hidden, cumulant_dim)))(
            jax.random.split(key_critic)
        )
        log_alpha = jnp.log(jnp.asarray(initial_alpha, jnp.float32))
        return SACState(actor, critics, critics, log_alpha, adam_init((actor, critics, log_alpha)))

    def act(
        state: SACState, obs: Float[Array, " obs"], z: Shaped[Array, "*goal"], noise: Float[Array, " action"]
    ) -> Float[Array, " action"]:
        return sample_action(state.actor, see(obs, z), noise)[0]

    def best(state: SACState, obs: Float[Array, " obs"], z: Shaped[Array, "*goal"]) -> Float[Array, " action"]:
        return jnp.tanh(policy(state.actor, see(obs, z)).mode())

    def successors(
        state: SACState, obs: Float[Array, " obs"], action: Float[Array, " action"], z: Shaped[Array, "*goal"]
    ) -> Float[Array, "2 cumulant"]:
        return values(state.critics, see(obs, z)[None], action[None])[:, 0]

    def update(
        state: SACState,
        batch: Transition,
        cumulant: Float[Array, "batch cumulant"],
        w: Float[Array, "batch cumulant"],
        learning_rate: Float[Array, ""],
        draws: Float[Array, "2 batch action"],
    ) -> tuple[SACState, dict[str, Float[Array, " batch"]]]:
        noise, next_noise = draws
        x, next_x = jax.vmap(see)(batch.obs, batch.z), jax.vmap(see)(batch.next_obs, batch.z)
        alpha = jnp.exp(state.log_alpha)

        next_action, next_log_pi = jax.vmap(sample_action, (None, 0, 0))(state.actor, next_x, next_noise)
        psi = values(state.target_critics, next_x, next_action)
        q = weighed(psi, w)
        lower = jnp.where((q[0] <= q[1])[:, None], psi[0], psi[1])
        future = lower.at[:, -1].add(-alpha * next_log_pi)
        td_target = cumulant + jnp.where(batch.terminal[:, None], 0.0, discount * future)

        grad_q, loss_q = jax.grad(critic_loss, has_aux=True)(state.critics, x, batch.action, stop_gradient(td_target))
        grad_pi, (loss_pi, log_pi) = jax.grad(actor_loss, has_aux=True)(state.actor, state.critics, alpha, x, w, noise)
        grad_alpha = -(jnp.mean(log_pi) + target_entropy)
        (actor, critics, log_alpha), optimiser = adam_step(
            (state.actor, state.critics, state.log_alpha),
            (grad_pi, grad_q, grad_alpha),
            state.optimiser,
            learning_rate,
        )
        target_critics = jax.tree.map(lambda t, c: t + target_rate * (c - t), state.target_critics, critics)
        alphas = jnp.broadcast_to(alpha, log_pi.shape)
        info = {"critic_loss": loss_q, "actor_loss": loss_pi, "alpha": alphas, "entropy": -log_pi}
        return SACState(actor, critics, target_critics, log_alpha, optimiser), info

    return Agent(init, act, best, successors, update, uniform)
