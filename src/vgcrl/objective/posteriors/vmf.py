"""VISR's posterior: a von Mises–Fisher distribution on the unit sphere, with fixed κ."""

import equinox as eqx
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Key

from vgcrl.objective.distributions import VonMisesFisher
from vgcrl.objective.pictures import Network
from vgcrl.objective.posteriors.base import Build, Plain


class Directional(Plain):
    """A network whose normalised output is the mean direction of q(z|s)."""

    direction: Network
    kappa: float = eqx.field(static=True)

    def __call__(self, s: Float[Array, " features"]) -> VonMisesFisher:
        x = self.direction(s)
        return VonMisesFisher(x / jnp.sqrt(jnp.sum(x**2) + 1e-12), self.kappa)


def von_mises_fisher(key: Key[Array, ""], build: Build) -> Directional:
    """Returns a new posterior with concentration `build.kappa`."""
    return Directional(build.network(key, (build.features, *build.hidden, build.goals), build.layer), build.kappa)
