"""Soft actor-critic over (observation, goal), for any kind of action: two critics, automatic temperature.

A critic returns a vector ψ(s, a, z), and Q = ⟨ψ, w(z)⟩. ψ is the discounted sum of a cumulant, a vector whose inner
product with w is the reward. A cumulant of one number with w = 1 gives the usual critic; the features of log q give
successor features. The entropy bonus is added to the last number of ψ, whose weight is 1.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient
from jaxtyping import Float, Key, Shaped

from vgcrl.objective.agents.inputs import seeing
from vgcrl.objective.networks import INPUTS, MLP
from vgcrl.objective.optim import adam_init, adam_step
from vgcrl.objective.pictures import Network
from vgcrl.objective.types import Transition


class SACState(NamedTuple):
    """The networks, temperature and optimiser state of soft actor-critic."""

    actor: Network
    critics: Network  # two, stacked
    target_critics: Network
    log_alpha: Float[Array, ""]
    optimiser: Any  # of (actor, critics, log_alpha)


def acting(state: SACState, critics: bool) -> SACState:
    """Returns what acting needs: actor and α, and with `critics` these too, for generalised policy improvement."""
    nothing: Any = ()
    return SACState(state.actor, state.critics if critics else nothing, nothing, state.log_alpha, nothing)


class Agent(NamedTuple):
    """The functions of soft actor-critic."""

    init: Callable[[Array], Any]
    act: Callable[[Any, Array, Array, Array], Array]  # state, obs, z, standard normal noise -> action
    best: Callable[[Any, Array, Array], Array]  # state, obs, z -> action, without noise
    successors: Callable[[Any, Array, Array, Array], Array]  # state, obs, action, z -> ψ of both critics
    update: Callable[..., tuple[Any, dict[str, Array]]]  # state, batch, cumulant, w, learning rate, noise
    random: Callable[[Array], Array]  # standard normal noise -> a uniformly random action


class Actions(NamedTuple):
    """The sizes and functions that depend on the kind of action. `x` is the input of the networks, made of state and
    goal, for one example or a batch."""

    actor_outputs: int
    critic_inputs: int  # width of a critic's input beside x
    critic_outputs: int
    act: Callable[..., Array]  # actor, x, standard normal noise -> action
    best: Callable[..., Array]  # actor, x -> action, without noise
    random: Callable[[Array], Array]  # standard normal noise -> a uniformly random action
    successors: Callable[..., Array]  # critics, batch of x, actions -> ψ of both critics
    future: Callable[..., Array]  # actor, target critics, batch of next x, w, alpha, noise -> ψ of the policy's action
    actor_loss: Callable[..., Any]  # actor, critics, batch of x, w, alpha, noise -> loss, (each loss, entropies)


def weighed(psi: Float[Array, "2 *each cumulant"], w: Float[Array, "*#each cumulant"]) -> Float[Array, "2 *each"]:  # noqa: F821
    """Returns Q = ⟨ψ, w⟩ of both critics."""
    return jnp.sum(psi * w[None], axis=-1)


def lower(psi: Float[Array, "2 *each cumulant"], w: Float[Array, "*#each cumulant"]) -> Float[Array, "*each cumulant"]:
    """Returns ψ of the critic whose Q is smaller."""
    q = weighed(psi, w)
    return jnp.where((q[0] <= q[1])[..., None], psi[0], psi[1])


def critic_loss(
    critics: Network,
    successors: Callable[..., Array],
    x: Float[Array, "batch seen"],
    action: Float[Array, "batch action"],
    td_target: Float[Array, "batch cumulant"],
) -> tuple[Float[Array, ""], Float[Array, " batch"]]:
    """Returns ½‖ψ − target‖², summed over both critics: the mean over the batch, and that of each example."""
    each = 0.5 * jnp.sum((successors(critics, x, action) - td_target[None]) ** 2, axis=(0, 2))
    return jnp.mean(each), each


def first_state(
    key: Key[Array, ""], network: Callable, actor: tuple[int, ...], critic: tuple[int, ...], alpha: float
) -> SACState:
    """Returns a new state; `actor` and `critic` are the layer sizes of the networks, `alpha` is the temperature."""
    key_actor, key_critic = jax.random.split(key)
    policy = network(key_actor, actor)
    critics = jax.vmap(lambda k: network(k, critic))(jax.random.split(key_critic))
    log_alpha = jnp.log(jnp.asarray(alpha, jnp.float32))
    return SACState(policy, critics, critics, log_alpha, adam_init((policy, critics, log_alpha)))


def next_state(
    state: SACState,
    grads: tuple[Network, Network, Float[Array, ""]],
    learning_rate: Float[Array, ""],
    target_rate: float,
) -> SACState:
    """Returns the state after a step of Adam; target critics follow slowly. `grads`: of actor, critics and log α."""
    params = (state.actor, state.critics, state.log_alpha)
    (actor, critics, log_alpha), optimiser = adam_step(params, grads, state.optimiser, learning_rate)
    target_critics = jax.tree.map(lambda t, c: t + target_rate * (c - t), state.target_critics, critics)
    return SACState(actor, critics, target_critics, log_alpha, optimiser)


def soft_actor_critic(
    actions_of: Callable[[int, int], Actions],
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
    """Returns the agent for one kind of action.

    `actions_of(action_dim, cumulant_dim)` returns that kind, where `cumulant_dim` is the length of ψ. For `scale`,
    `relative` and `unseen` see `seeing`; `network(key, sizes)` makes the actor and a critic.
    """
    see, actions = seeing(embed, scale, relative, unseen), actions_of(action_dim, cumulant_dim)
    width = obs_dim + goal_dim

    def init(key: Key[Array, ""]) -> SACState:
        actor = (width, *hidden, actions.actor_outputs)
        critic = (width + actions.critic_inputs, *hidden, actions.critic_outputs)
        return first_state(key, network, actor, critic, initial_alpha)

    def act(
        state: SACState, obs: Float[Array, " obs"], z: Shaped[Array, "*goal"], noise: Float[Array, " action"]
    ) -> Float[Array, " action"]:
        return actions.act(state.actor, see(obs, z), noise)

    def best(state: SACState, obs: Float[Array, " obs"], z: Shaped[Array, "*goal"]) -> Float[Array, " action"]:
        return actions.best(state.actor, see(obs, z))

    def successors(
        state: SACState, obs: Float[Array, " obs"], action: Float[Array, " action"], z: Shaped[Array, "*goal"]
    ) -> Float[Array, "2 cumulant"]:
        return actions.successors(state.critics, see(obs, z)[None], action[None])[:, 0]

    def update(
        state: SACState,
        batch: Transition,
        cumulant: Float[Array, "batch cumulant"],
        w: Float[Array, "batch cumulant"],
        learning_rate: Float[Array, ""],
        draws: Float[Array, "2 batch action"],
    ) -> tuple[SACState, dict[str, Float[Array, " batch"]]]:
        """Returns the state after an update of critics, policy and temperature, and its report per example."""
        x, next_x = jax.vmap(see)(batch.obs, batch.z), jax.vmap(see)(batch.next_obs, batch.z)
        noise, next_noise = draws
        alpha = jnp.exp(state.log_alpha)
        future = actions.future(state.actor, state.target_critics, next_x, w, alpha, next_noise)
        td_target = stop_gradient(cumulant + jnp.where(batch.terminal[:, None], 0.0, discount * future))
        fit, improve = (jax.grad(loss, has_aux=True) for loss in (critic_loss, actions.actor_loss))
        grad_q, loss_q = fit(state.critics, actions.successors, x, batch.action, td_target)
        grad_pi, (loss_pi, entropy) = improve(state.actor, state.critics, x, w, alpha, noise)
        grad_alpha = jnp.mean(entropy) - target_entropy
        info = {"critic_loss": loss_q, "actor_loss": loss_pi, "alpha": jnp.broadcast_to(alpha, entropy.shape)}
        after = next_state(state, (grad_pi, grad_q, grad_alpha), learning_rate, target_rate)
        return after, info | {"entropy": entropy}

    return Agent(init, act, best, successors, update, actions.random)
