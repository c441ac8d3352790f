"""Adam with the learning rate as an argument, so that it can differ per run."""

from typing import Any

import jax
import optax
from jax import Array

_adam = optax.scale_by_adam()


def adam_init(params: Any) -> Any:
    return _adam.init(params)


def adam_step(params: Any, grads: Any, state: Any, learning_rate: Array) -> tuple[Any, Any]:
    direction, state = _adam.update(grads, state)
    return jax.tree.map(lambda p, d: p - learning_rate * d, params, direction), state
