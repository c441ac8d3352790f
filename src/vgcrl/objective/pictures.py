"""Networks that see pictures: convolutions, and an MLP whose first inputs go through them."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Key

from vgcrl.objective.networks import MLP, Linear, Spectral, dense

WIDTH = 64  # numbers that a picture becomes
ENCODERS = ("mlp", "conv")  # how a network sees pictures: as numbers like others, or through convolutions


def _patches(picture: Float[Array, "height width channels"]) -> Float[Array, "rows columns patch"]:
    """The 3×3 neighbourhood of every second pixel, with zeros around the picture; by slices, which are faster here than
    JAX's own patches, a convolution with ones and zeros."""
    height, width, _ = picture.shape
    edge = [(1, 1) if size % 2 else (0, 1) for size in (height, width)]
    padded = jnp.pad(picture, (*edge, (0, 0)))
    places = [(i, j) for i in range(3) for j in range(3)]
    nine = [padded[i : i + height - (1 - height % 2) : 2, j : j + width - (1 - width % 2) : 2] for i, j in places]
    return jnp.stack(nine, axis=-1).reshape(*nine[0].shape[:2], -1)


def _share(layer: Any) -> Float[Array, ""] | float:
    """Of its patches, that a layer is given."""
    return jnp.where(jnp.isfinite(layer.bound), 0.5, 1.0) if isinstance(layer, Spectral) else 1.0


class Convolutions(eqx.Module):
    """Pictures (height, width, channels), given flat: two strided 3×3 convolutions with ReLU, then a linear head.

    A convolution is a linear layer on patches, so that whatever a layer can do, it can do here. A pixel is in at
    most four patches, which can double the norm; a bounded layer is given half of them, so that its bound holds for
    the whole convolution.
    """

    layers: tuple[Any, ...]
    head: Any
    shape: tuple[int, ...] = eqx.field(static=True)

    @staticmethod
    def init(key: Key[Array, ""], shape: tuple[int, ...], out: int, layer: Callable = Linear) -> "Convolutions":
        height, width, channels = shape
        first, second, last = jax.random.split(key, 3)
        flat = -(-height // 4) * -(-width // 4) * 32
        layers = dense(first, (9 * channels, 16), layer) + dense(second, (9 * 16, 32), layer)
        return Convolutions(layers, dense(last, (flat, out), layer)[0], shape)

    def __call__(self, x: Float[Array, " in"]) -> Float[Array, " out"]:
        picture = x.reshape(self.shape)
        for layer in self.layers:
            picture = jax.nn.relu(jax.vmap(jax.vmap(layer))(_share(layer) * _patches(picture)))
        return self.head(picture.reshape(-1))


class PictureMLP(eqx.Module):
    """Numbers that begin with pictures of one shape, flat, one after the other: these become channels of one picture
    and go through convolutions, then with all other numbers through an MLP."""

    eyes: Convolutions
    mlp: MLP
    pictures: int = eqx.field(static=True)

    @staticmethod
    def init(
        key: Key[Array, ""],
        sizes: Sequence[int],
        layer: Callable = Linear,
        *,
        shape: tuple[int, ...],
        pictures: int = 1,
    ) -> "PictureMLP":
        """As an MLP of these sizes, of whose inputs the first are so many pictures."""
        key_eyes, key_mlp = jax.random.split(key)
        height, width, channels = shape
        eyes = Convolutions.init(key_eyes, (height, width, pictures * channels), WIDTH, layer)
        others = sizes[0] - pictures * math.prod(shape)
        return PictureMLP(eyes, MLP.init(key_mlp, (WIDTH + others, *sizes[1:]), layer), pictures)

    def __call__(self, x: Float[Array, " in"]) -> Float[Array, " out"]:
        height, width, channels = self.eyes.shape
        pixels = x[: height * width * channels].reshape(self.pictures, height, width, -1)
        seen = jax.nn.relu(self.eyes(pixels.transpose(1, 2, 0, 3).reshape(-1)))
        return self.mlp(jnp.concatenate([seen, x[height * width * channels :]]))


Network = MLP | PictureMLP
