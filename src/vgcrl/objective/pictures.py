"""Networks for pictures: convolutions, and an MLP whose first inputs go through convolutions."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Key

from vgcrl.objective.networks import MLP, Linear, Spectral, dense

WIDTH = 64  # numbers that a picture is encoded in
ENCODERS = ("mlp", "conv")  # how a network sees pictures: as plain numbers, or through convolutions


def _patches(picture: Float[Array, "height width channels"]) -> Float[Array, "rows columns patch"]:
    """Returns the 3×3 neighbourhood of every second pixel, with zeros around the picture. Slices are faster here than
    JAX's own patches, which are a convolution with ones and zeros."""
    height, width, _ = picture.shape
    edge = [(1, 1) if size % 2 else (0, 1) for size in (height, width)]
    padded = jnp.pad(picture, (*edge, (0, 0)))
    places = [(i, j) for i in range(3) for j in range(3)]
    nine = [padded[i : i + height - (1 - height % 2) : 2, j : j + width - (1 - width % 2) : 2] for i, j in places]
    return jnp.stack(nine, axis=-1).reshape(*nine[0].shape[:2], -1)


def _share(layer: Any) -> Float[Array, ""] | float:
    """Returns the factor on a layer's patches: ½ for a bounded layer, else 1."""
    return jnp.where(jnp.isfinite(layer.bound), 0.5, 1.0) if isinstance(layer, Spectral) else 1.0


class Convolutions(eqx.Module):
    """Two strided 3×3 convolutions with ReLU, then a linear head, on a flattened picture (height, width, channels).

    A convolution is a linear layer applied to patches, so every kind of layer works. A pixel is in at most four
    patches, which can double the norm; the patches of a bounded layer are halved, so that its bound holds for the whole
    convolution.
    """

    layers: tuple[Any, ...]
    head: Any
    shape: tuple[int, ...] = eqx.field(static=True)

    @staticmethod
    def init(key: Key[Array, ""], shape: tuple[int, ...], out: int, layer: Callable = Linear) -> "Convolutions":
        """Returns a network with `out` outputs for pictures of a shape (height, width, channels)."""
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
    """A network whose inputs begin with flattened pictures of one shape. These become channels of one picture and go
    through convolutions, then with all other inputs through an MLP."""

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
        """Returns a network with these layer sizes, whose first inputs are `pictures` pictures of a shape."""
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
