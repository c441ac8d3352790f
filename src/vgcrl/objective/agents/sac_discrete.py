"""Soft actor-critic where the action is one of n: expectations over actions are sums, critics answer for all.

An action is a vector of n numbers of which the largest is taken; the agent's own are one-hot. Critics answer with a
vector ψ(s, ·, z) for every action, and Q = ⟨ψ, w(z)⟩, as in `sac`; the policy is a softmax.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient
from jaxtyping import Float, Key, Shaped

from vgcrl.objective.agents.inputs import seeing
from vgcrl.objective.agents.sac import Agent, SACState
from vgcrl.objective.networks import INPUTS, MLP
from vgcrl.objective.optim import adam_init, adam_step
from vgcrl.objective.pictures import Network
from vgcrl.objective.types import Transition


def choice(preferences: Float[Array, "*batch action"]) -> Float[Array, "*batch action"]:
    """The action with the largest number, one-hot."""
    return jax.nn.one_hot(jnp.argmax(preferences, axis=-1), preferences.shape[-1])


def gumbel(noise: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Standard normal noise as Gumbel's: argmax(logits + gumbel) is a sample of the softmax."""
    return -jnp.log(-jax.scipy.special.log_ndtr(jnp.clip(noise, -5.0, 5.0)))


def all_values(
    critics: Network, x: Float[Array, "batch seen"], actions: int
) -> Float[Array, "2 batch {actions} cumulant"]:
    """ψ of both critics, of every action."""
    psi = jax.vmap(lambda critic: jax.vmap(critic)(x))(critics)
    return psi.reshape(*psi.shape[:-1], actions, -1)


def weighed(
    psi: Float[Array, "2 batch action cumulant"], w: Float[Array, "batch cumulant"]
) -> Float[Array, "2 batch action"]:
    """Q of both critics, of every action."""
    return jnp.sum(psi * w[None, :, None, :], axis=-1)


def critic_loss(
    critics: Network,
    x: Float[Array, "batch seen"],
    action: Float[Array, "batch action"],
    td_target: Float[Array, "batch cumulant"],
) -> tuple[Float[Array, ""], Float[Array, " batch"]]:
    psi = jnp.sum(all_values(critics, x, action.shape[-1]) * action[None, :, :, None], axis=2)
    each = 0.5 * jnp.sum((psi - td_target[None]) ** 2, axis=(0, 2))
    return jnp.mean(each), each


def actor_loss(
    actor: Network, q: Float[Array, "batch action"], alpha: Float[Array, ""], x: Float[Array, "batch seen"]
) -> tuple[Float[Array, ""], tuple[Float[Array, " batch"], Float[Array, " batch"]]]:
    """`q` is the smaller of both critics."""
    log_pi = jax.nn.log_softmax(jax.vmap(actor)(x))
    pi = jnp.exp(log_pi)
    each = jnp.sum(pi * (alpha * log_pi - q), axis=-1)
    return jnp.mean(each), (each, -jnp.sum(pi * log_pi, axis=-1))


def sac_discrete(
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
    """`action_dim` is the number of actions; the rest is as in `sac`."""
    see = seeing(embed, scale, relative, unseen)

    def init(key: Key[Array, ""]) -> SACState:
        key_actor, key_critic = jax.random.split(key)
        width, outputs = obs_dim + goal_dim, action_dim * cumulant_dim
        actor = network(key_actor, (width, *hidden, action_dim))
        critics = jax.vmap(lambda k: network(k, (width, *hidden, outputs)))(jax.random.split(key_critic))
        log_alpha = jnp.log(jnp.asarray(initial_alpha, jnp.float32))
        return SACState(actor, critics, critics, log_alpha, adam_init((actor, critics, log_alpha)))

    def act(
        state: SACState, obs: Float[Array, " obs"], z: Shaped[Array, "*goal"], noise: Float[Array, " action"]
    ) -> Float[Array, " action"]:
        return choice(state.actor(see(obs, z)) + gumbel(noise))

    def best(state: SACState, obs: Float[Array, " obs"], z: Shaped[Array, "*goal"]) -> Float[Array, " action"]:
        return choice(state.actor(see(obs, z)))

    def successors(
        state: SACState, obs: Float[Array, " obs"], action: Float[Array, " action"], z: Shaped[Array, "*goal"]
    ) -> Float[Array, "2 cumulant"]:
        psi = all_values(state.critics, see(obs, z)[None], action_dim)[:, 0]
        return jnp.sum(psi * choice(action)[None, :, None], axis=1)

    def future(
        state: SACState,
        next_x: Float[Array, "batch seen"],
        w: Float[Array, "batch cumulant"],
        alpha: Float[Array, ""],
    ) -> Float[Array, "batch cumulant"]:
        """E[ψ of the next action], with the entropy of choosing it."""
        log_pi = jax.nn.log_softmax(jax.vmap(state.actor)(next_x))
        psi = all_values(state.target_critics, next_x, action_dim)
        q = weighed(psi, w)
        lower = jnp.where((q[0] <= q[1])[..., None], psi[0], psi[1])
        return jnp.sum(jnp.exp(log_pi)[..., None] * lower.at[..., -1].add(-alpha * log_pi), axis=1)

    def update(
        state: SACState,
        batch: Transition,
        cumulant: Float[Array, "batch cumulant"],
        w: Float[Array, "batch cumulant"],
        learning_rate: Float[Array, ""],
        draws: Float[Array, "2 batch action"],
    ) -> tuple[SACState, dict[str, Float[Array, " batch"]]]:
        """Nothing is drawn: `draws` are there for agents that sample."""
        x, next_x = jax.vmap(see)(batch.obs, batch.z), jax.vmap(see)(batch.next_obs, batch.z)
        alpha = jnp.exp(state.log_alpha)
        ahead = discount * future(state, next_x, w, alpha)
        td_target = cumulant + jnp.where(batch.terminal[:, None], 0.0, ahead)
        q = weighed(all_values(state.critics, x, action_dim), w).min(axis=0)

        grad_q, loss_q = jax.grad(critic_loss, has_aux=True)(
            state.critics, x, choice(batch.action), stop_gradient(td_target)
        )
        grad_pi, (loss_pi, entropy) = jax.grad(actor_loss, has_aux=True)(state.actor, q, alpha, x)
        grad_alpha = jnp.mean(entropy) - target_entropy
        (actor, critics, log_alpha), optimiser = adam_step(
            (state.actor, state.critics, state.log_alpha),
            (grad_pi, grad_q, grad_alpha),
            state.optimiser,
            learning_rate,
        )
        target_critics = jax.tree.map(lambda t, c: t + target_rate * (c - t), state.target_critics, critics)
        alphas = jnp.broadcast_to(alpha, entropy.shape)
        info = {"critic_loss": loss_q, "actor_loss": loss_pi, "alpha": alphas, "entropy": entropy}
        return SACState(actor, critics, target_critics, log_alpha, optimiser), info

    return Agent(init, act, best, successors, update, choice)
