"""Layers as pytrees: every field is an array or static, so plain jit, vmap, scan and grad work.

An array that gradients must not change is a FIXED field, and is used behind `stop_gradient`.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax import optimization_barrier, stop_gradient
from jaxtyping import Float, Key

from vgcrl.objective.optim import FIXED


def product(weight: Float[Array, "out in"], x: Float[Array, " in"]) -> Float[Array, " out"]:
    """Returns W x, contracted so that neither the product of a batch nor its gradients need a transposed copy."""
    return jax.lax.dot_general(x, weight, (((0,), (1,)), ((), ())))


def symlog(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Returns sign(x) log(1 + |x|), so that a network sees small numbers as they are and large ones compressed."""
    return jnp.sign(x) * jnp.log1p(jnp.abs(x))


INPUTS: dict[str, Callable[[Array], Array]] = {"raw": lambda x: x, "symlog": symlog}  # how a network sees numbers


class Linear(eqx.Module):
    """The layer W x + b."""

    weight: Float[Array, "out in"]
    bias: Float[Array, " out"]

    def effective(self) -> Float[Array, "out in"]:
        return self.weight

    def __call__(self, x: Float[Array, " in"]) -> Float[Array, " out"]:
        return product(self.weight, x) + self.bias


def _unit(x: Float[Array, " n"]) -> Float[Array, " n"]:
    return x / (jnp.linalg.norm(x) + 1e-12)


def _whiten(gram: Float[Array, "k k"]) -> Float[Array, "k k"]:
    """Returns the lower triangular T with T·gram·Tᵀ = 1, for a few rows: a Cholesky decomposition number by number,
    which compiles to one kernel."""
    n = range(gram.shape[0])
    low: dict[tuple[int, int], Array] = {}
    inverse: dict[tuple[int, int], Array] = {}
    zero = jnp.zeros((), gram.dtype)
    for i in n:
        for j in range(i + 1):
            rest = gram[i, j] - sum((low[i, m] * low[j, m] for m in range(j)), zero)
            low[i, j] = jnp.sqrt(jnp.maximum(rest, 1e-6 * gram[i, i]) + 1e-30) if i == j else rest / low[j, j]
        for j in range(i):
            inverse[i, j] = -sum((low[i, m] * inverse[m, j] for m in range(j, i)), zero) / low[i, i]
        inverse[i, i] = 1 / low[i, i]
    return jnp.stack([jnp.stack([inverse.get((i, j), zero) for j in n]) for i in n])


def _orthonormal(block: Float[Array, "k n"]) -> Float[Array, "k n"]:
    """Returns a few rows made orthonormal; three passes remove rounding errors."""
    block = block / (jnp.linalg.norm(block, axis=1, keepdims=True) + 1e-12)
    for _ in range(3):
        block = _whiten(block @ block.T) @ block
    return block


def _top_eigenvector(gram: Float[Array, "k k"]) -> Float[Array, " k"]:
    """Returns the leading eigenvector of a small positive matrix, which remains when it is squared often.

    If another eigenvalue is so close that six squarings leave some of it, σ̂ is off by less than 0.2 %.
    """
    n = range(gram.shape[0])
    a = {(i, j): gram[i, j] for i in n for j in n}
    for _ in range(6):
        trace = sum((a[i, i] for i in n), jnp.full((), 1e-30, gram.dtype))
        a = {ij: x / trace for ij, x in a.items()}
        square = {(i, j): sum((a[i, m] * a[m, j] for m in n), jnp.zeros_like(trace)) for i in n for j in n if i <= j}
        a = {(i, j): square[min(i, j), max(i, j)] for i in n for j in n}
    power = jnp.stack([jnp.stack([a[i, j] for j in n]) for i in n])
    return _unit(power[jnp.argmax(jnp.diagonal(power))])


class Spectral(eqx.Module):
    """A linear layer with weight W·min(1, c/σ̂(W)); a power iteration for σ̂ goes on from update to update.

    It iterates a block of vectors instead of one: a single vector lags behind, by tens of per cent, whenever training
    lets a second singular value overtake the first.
    """

    weight: Float[Array, "out in"]
    bias: Float[Array, " out"]
    block: Float[Array, "k out"] = eqx.field(metadata=FIXED)  # spans the leading left singular vectors
    left: Float[Array, " out"] = eqx.field(metadata=FIXED)  # estimate of the first of them
    bound: Float[Array, ""] = eqx.field(metadata=FIXED)  # c; infinity: no bound

    @staticmethod
    def init(
        weight: Float[Array, "out in"], bias: Float[Array, " out"], *, bound: Float[Array, ""] | float
    ) -> "Spectral":
        """Returns the layer after 15 steps of its power iteration."""
        k = min(4, *weight.shape)
        start = np.random.default_rng(0).standard_normal((k, weight.shape[0]))  # forgotten by the iteration below
        block = jnp.asarray(start, weight.dtype)
        layer = Spectral(weight, bias, block, block[0], jnp.asarray(bound, weight.dtype))
        return jax.lax.fori_loop(0, 15, lambda _, x: x.refresh(), layer)

    def effective(self) -> Float[Array, "out in"]:
        """Returns the bounded weight.

        The barriers let XLA compute σ̂ and its right vector once, not again in every kernel that uses them.
        """
        left = stop_gradient(self.left)
        right = optimization_barrier(stop_gradient(_unit(left @ self.weight)))
        sigma = optimization_barrier(left @ self.weight @ right)
        return self.weight / jnp.maximum(1.0, sigma / stop_gradient(self.bound))

    def __call__(self, x: Float[Array, " in"]) -> Float[Array, " out"]:
        return product(self.effective(), x) + self.bias

    def refresh(self) -> "Spectral":
        (layer,) = carried_on([self])
        return layer


def carried_on(layers: Sequence[Spectral]) -> list[Spectral]:
    """Returns the layers, each after one more step of its power iteration.

    Their small matrices are padded with zeros, which stay zeros, and processed in one batch: fewer operations.
    """
    weights = [stop_gradient(layer.weight) for layer in layers]
    grown = _stack([(layer.block @ w) @ w.T for layer, w in zip(layers, weights, strict=True)])
    blocks = jax.vmap(_orthonormal)(grown)
    images = _stack([block[:, : len(w)] @ w for block, w in zip(blocks, weights, strict=True)])
    lefts = jax.vmap(lambda image, block: _unit(_top_eigenvector(image @ image.T) @ block))(images, blocks)
    return [
        Spectral(x.weight, x.bias, block[: len(x.block), : len(x.left)], left[: len(x.left)], x.bound)
        for x, block, left in zip(layers, blocks, lefts, strict=True)
    ]


def _stack(matrices: Sequence[Float[Array, "_ _"]]) -> Float[Array, "layer k n"]:
    rows, columns = (max(sizes) for sizes in zip(*(x.shape for x in matrices), strict=True))
    return jnp.stack([jnp.pad(x, ((0, rows - x.shape[0]), (0, columns - x.shape[1]))) for x in matrices])


def refresh(model: Any) -> Any:
    """Returns the model with every spectral layer in it after one more step of its power iteration."""

    def bounded(x: Any) -> bool:
        return isinstance(x, Spectral)

    leaves, tree = jax.tree.flatten(model, is_leaf=bounded)
    layers = [x for x in leaves if bounded(x)]
    new = iter(carried_on(layers) if layers else ())
    return jax.tree.unflatten(tree, [next(new) if bounded(x) else x for x in leaves])


def dense(key: Key[Array, ""], sizes: Sequence[int], layer: Callable = Linear) -> tuple[Any, ...]:
    """Returns layers of the given sizes, initialised uniformly within 1/√fan_in.

    One draw serves all of them, since each draw costs compile time.
    """
    pairs = list(itertools.pairwise(sizes))
    flat = jax.random.uniform(key, (sum((i + 1) * o for i, o in pairs),), minval=-1.0, maxval=1.0)
    layers, start = [], 0
    for fan_in, fan_out in pairs:
        block = flat[start : start + (fan_in + 1) * fan_out].reshape(fan_out, fan_in + 1) / fan_in**0.5
        layers.append(layer(block[:, :-1], block[:, -1]))
        start += (fan_in + 1) * fan_out
    return tuple(layers)


class MLP(eqx.Module):
    """A multilayer perceptron: layers with ReLU between them."""

    layers: tuple[Any, ...]

    @staticmethod
    def init(key: Key[Array, ""], sizes: Sequence[int], layer: Callable = Linear) -> "MLP":
        return MLP(dense(key, sizes, layer))

    def __call__(self, x: Float[Array, " in"]) -> Float[Array, " out"]:
        *hidden, head = self.layers
        for layer in hidden:
            x = jax.nn.relu(layer(x))
        return head(x)
