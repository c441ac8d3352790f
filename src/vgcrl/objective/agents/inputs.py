"""The input of policies and critics: state and goal, concatenated."""

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Shaped

See = Callable[[Array, Array], Array]  # (state, goal) -> input of a network


def seeing(
    embed: Callable[[Array], Array],
    scale: Callable[[Array], Array],
    relative: tuple[int, ...] = (),
    unseen: tuple[int, ...] = (),
) -> See:
    """Returns the function (state, goal) -> input: it sets the dimensions `unseen` of the state to 0, subtracts the
    dimensions `relative` of the state from the goal, concatenates both, and applies `scale`."""

    def see(obs: Float[Array, " obs"], z: Shaped[Array, "*goal"]) -> Float[Array, " seen"]:
        goal = embed(z) - obs[jnp.array(relative)] if relative else embed(z)
        state = obs.at[jnp.array(unseen)].set(0.0) if unseen else obs
        return scale(jnp.concatenate([state, goal]))

    return see
