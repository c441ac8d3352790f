"""Layers as pytrees: every field is an array or static, so plain jit, vmap, scan and grad work.

A fixed array is a leaf behind `stop_gradient`: its gradient is zero, so Adam leaves it where it is.
"""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient


def _uniform(key: Array, fan_in: int, shape: tuple[int, ...]) -> Array:
    limit = 1 / fan_in**0.5
    return jax.random.uniform(key, shape, minval=-limit, maxval=limit)


def product(weight: Array, x: Array) -> Array:
    """W x, contracted so that neither the product of a batch nor its gradients need a transposed copy."""
    return jax.lax.dot_general(x, weight, (((0,), (1,)), ((), ())))


class Linear(eqx.Module):
    weight: Array  # (out, in)
    bias: Array

    @staticmethod
    def init(key: Array, fan_in: int, fan_out: int) -> "Linear":
        key_weight, key_bias = jax.random.split(key)
        return Linear(_uniform(key_weight, fan_in, (fan_out, fan_in)), _uniform(key_bias, fan_in, (fan_out,)))

    def effective(self) -> Array:
        return self.weight

    def __call__(self, x: Array) -> Array:
        return product(self.weight, x) + self.bias

    def refresh(self) -> "Linear":
        return self


def _unit(x: Array) -> Array:
    return x / (jnp.linalg.norm(x) + 1e-12)


class Spectral(eqx.Module):
    """Linear layer whose weight is W·min(1, c/σ̂(W)), σ̂ by power iteration on the carried vector."""

    weight: Array
    bias: Array
    left: Array  # estimate of the first left singular vector; moved by `refresh`, not by gradients
    bound: Array  # c; infinity is off

    @staticmethod
    def init(key: Array, fan_in: int, fan_out: int, *, bound: Array) -> "Spectral":
        key_linear, key_left = jax.random.split(key)
        linear = Linear.init(key_linear, fan_in, fan_out)
        left = _unit(jax.random.normal(key_left, (fan_out,)))
        layer = Spectral(linear.weight, linear.bias, left, jnp.asarray(bound, linear.weight.dtype))
        return jax.lax.fori_loop(0, 15, lambda _, x: x.refresh(), layer)

    def effective(self) -> Array:
        left = stop_gradient(self.left)
        right = stop_gradient(_unit(left @ self.weight))
        sigma = left @ self.weight @ right
        return self.weight / jnp.maximum(1.0, sigma / stop_gradient(self.bound))

    def __call__(self, x: Array) -> Array:
        return product(self.effective(), x) + self.bias

    def refresh(self) -> "Spectral":
        left = _unit(self.weight @ _unit(self.left @ self.weight))
        return Spectral(self.weight, self.bias, stop_gradient(left), self.bound)


class MLP(eqx.Module):
    """Layers with ReLU between them."""

    layers: tuple[Any, ...]

    @staticmethod
    def init(key: Array, sizes: Sequence[int], layer: Callable = Linear.init) -> "MLP":
        keys = jax.random.split(key, len(sizes) - 1)
        return MLP(tuple(layer(k, *io) for k, io in zip(keys, zip(sizes, sizes[1:], strict=False), strict=True)))

    def __call__(self, x: Array) -> Array:
        *hidden, head = self.layers
        for layer in hidden:
            x = jax.nn.relu(layer(x))
        return head(x)

    def refresh(self) -> "MLP":
        return MLP(tuple(layer.refresh() for layer in self.layers))
