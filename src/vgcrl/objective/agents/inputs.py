"""What policies and critics are given: the state and the goal, side by side."""

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Shaped

See = Callable[[Array, Array], Array]  # (state, goal) -> numbers for a network


def seeing(
    embed: Callable[[Array], Array],
    scale: Callable[[Array], Array],
    relative: tuple[int, ...] = (),
    unseen: tuple[int, ...] = (),
) -> See:
    """The state without its dimensions `unseen`, which are 0, and the goal less the dimensions `relative` of the
    state, all of it as `scale` makes it."""

    def see(obs: Float[Array, " obs"], z: Shaped[Array, "*goal"]) -> Float[Array, " seen"]:
        goal = embed(z) - obs[jnp.array(relative)] if relative else embed(z)
        state = obs.at[jnp.array(unseen)].set(0.0) if unseen else obs
        return scale(jnp.concatenate([state, goal]))

    return see
