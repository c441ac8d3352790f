"""Hindsight relabelling: HER takes the mode of q(·|s_T), P-HER a sample of it, where s_T is a state reached later."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Key, Shaped


class Relabel(NamedTuple):
    """A technique of hindsight relabelling."""

    pick: Callable[[Any, Array], Array] | None  # (distribution, key) -> z; None keeps every goal
    label: str


NONE = Relabel(None, "none")
HER = Relabel(lambda q, key: q.mode(), "HER")
PHER = Relabel(lambda q, key: q.sample(key), "P-HER")

RELABELS = {"none": NONE, "her": HER, "p-her": PHER}


def relabel(
    how: Relabel,
    fraction: Float[Array, ""],
    q: Any,
    z: Shaped[Array, " batch *goal"],
    later_obs: Float[Array, "batch obs"] | None,
    key: Key[Array, ""],
) -> Shaped[Array, " batch *goal"]:
    """Returns goals for the policy update: a random `fraction` of them is read off later states by the current q."""
    pick = how.pick
    if pick is None or later_obs is None:
        return z
    key_mask, key_pick = jax.random.split(key)
    keys = jax.random.split(key_pick, z.shape[0])
    reached = jax.vmap(lambda s, k: pick(q(s), k))(later_obs, keys).astype(z.dtype)
    chosen = jax.random.bernoulli(key_mask, fraction, (z.shape[0],))
    return jnp.where(chosen.reshape(-1, *[1] * (z.ndim - 1)), reached, z)
