"""Adam with the learning rate as an argument, so that it can differ per run.

optax.scale_by_adam in its place took 0.998 times the CPU time in `advance` and 1.007 times in the learner alone (DIAYN
on the point mass, batch and layers of 256, medians of 41 alternating rounds): speed does not decide between them.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

B1, B2, EPSILON = 0.9, 0.999, 1e-8


class AdamState(NamedTuple):
    count: Float[Array, ""]
    mean: Any
    square: Any


def adam_init(params: Any) -> AdamState:
    return AdamState(jnp.zeros(()), jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params))


def adam_step(params: Any, grads: Any, state: AdamState, learning_rate: Float[Array, ""]) -> tuple[Any, AdamState]:
    count = state.count + 1
    mean = jax.tree.map(lambda m, g: B1 * m + (1 - B1) * g, state.mean, grads)
    square = jax.tree.map(lambda s, g: B2 * s + (1 - B2) * g**2, state.square, grads)
    rate, scale = learning_rate / (1 - B1**count), jax.lax.rsqrt(1 - B2**count)
    step = jax.tree.map(lambda p, m, s: p - rate * m / (jnp.sqrt(s) * scale + EPSILON), params, mean, square)
    return step, AdamState(count, mean, square)
