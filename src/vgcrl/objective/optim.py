"""Adam, by optax, with the learning rate as an argument, so that it can differ between runs.

Arrays in fields that are declared FIXED are not parameters: they have no moments, and a step does not change them.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import optax
from jax import Array
from jaxtyping import Float

ADAM = optax.scale_by_adam()
# `eqx.field(metadata=FIXED)` is a field that gradients do not change: memories, scales, vectors of a power iteration.
FIXED = {"fixed": True}


def _flags(tree: Any, learned: bool = True) -> Iterator[bool]:
    """Yield for every leaf, in order, whether it is a parameter."""
    for node in jax.tree.leaves(tree, is_leaf=lambda x: isinstance(x, eqx.Module)):
        if not isinstance(node, eqx.Module):
            yield learned
            continue
        for field in dataclasses.fields(node):
            if not field.metadata.get("static"):
                yield from _flags(getattr(node, field.name), learned and not field.metadata.get("fixed"))


def learned(params: Any) -> Any:
    """Returns a mask of the tree: True for parameters, False for FIXED arrays."""
    return jax.tree.unflatten(jax.tree.structure(params), list(_flags(params)))


def adam_init(params: Any) -> Any:
    """Returns the initial state of the optimiser: the moments of the parameters."""
    return ADAM.init(eqx.filter(params, learned(params)))


def adam_step(params: Any, grads: Any, state: Any, learning_rate: Float[Array, ""]) -> tuple[Any, Any]:
    """Returns parameters and optimiser state after one step."""
    mask = learned(params)
    with jax.numpy_dtype_promotion("standard"):  # optax counts steps in integers
        updates, state = ADAM.update(eqx.filter(grads, mask), state)
    moved = jax.tree.map(lambda u, p: p - learning_rate * u, updates, eqx.filter(params, mask))
    return eqx.combine(moved, params), state
