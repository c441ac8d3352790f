"""Your own method, posterior and goal space, in a file of your own: nothing in the package is edited.

    vgcrl train disc --import own_method --steps 30_000      in this folder; or python examples/own_method.py
    vgcrl evaluate runs/disc-pointmass --import own_method

Goals are places in a disc, and q is a Laplace density around the place that was reached: far misses weigh less than
under a Gaussian. A run remembers the module's name; a command without --import asks for it.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

import vgcrl
from vgcrl.objective.distributions import Direct
from vgcrl.objective.goals import Vectors
from vgcrl.objective.methods import METHODS
from vgcrl.objective.posteriors import Build
from vgcrl.objective.posteriors.base import Plain


class Laplace(Direct):
    """Independent coordinates around `mean`."""

    mean: Array
    scale: float = eqx.field(static=True)

    def log_prob(self, z: Array) -> Array:
        return -jnp.sum(jnp.abs(z - self.mean) / self.scale + math.log(2 * self.scale))

    def sample(self, key: Array) -> Array:
        return self.mean + self.scale * jax.random.laplace(key, self.mean.shape)

    def mode(self) -> Array:
        return self.mean

    def expect(self, f) -> Array:
        """Exact for linear f, which is what goals in a disc ask for."""
        return f(self.mean)


class Around(Plain):
    """q(·|s): around what is seen of s; nothing of it is learned."""

    scale: float = eqx.field(static=True)

    def __call__(self, s: Array) -> Laplace:
        return Laplace(s, self.scale)


class Disc(Vectors):
    """Places within `radius` of the middle, uniform."""

    radius: float = eqx.field(static=True)

    @property
    def dim(self) -> int:
        return 2

    @property
    def entropy(self) -> float:
        return math.log(math.pi * self.radius**2)

    def sample(self, key: Array) -> Array:
        key_angle, key_radius = jax.random.split(key)
        angle = jax.random.uniform(key_angle, maxval=2 * math.pi)
        return self.radius * jnp.sqrt(jax.random.uniform(key_radius)) * jnp.stack([jnp.cos(angle), jnp.sin(angle)])

    def point(self, q) -> Array:
        return q.expect(lambda z: z)


def around(key: Array, build: Build) -> Around:
    return Around(build.sigma)


vgcrl.register_posterior("laplace", around, sigma=True)
vgcrl.register_method(
    "disc",
    METHODS["gcrl"]._replace(
        goals=lambda spec, features, goal_dim: Disc(min(spec.high[i] for i in features)),
        space="places in a disc",
        prior="uniform",
        posteriors=("laplace",),
        q="Laplace(s, σ)",
        poses=True,
    ),
)

if __name__ == "__main__":
    run = vgcrl.train("disc", steps=30_000, quiet=False)
    print(f"F {run.last['mean']['F']:.2f}; later: vgcrl evaluate {run.dir} --import own_method")
