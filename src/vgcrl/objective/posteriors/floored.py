"""N(μ(s), Σ) mixed with the prior: goals far from the state all have the same reward, so a detour loses none."""

import math
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Key

from vgcrl.objective.distributions import Direct
from vgcrl.objective.posteriors.base import Build, Plain
from vgcrl.objective.posteriors.gaussian import Gaussian, gaussian


class Floored(Direct):
    """A density mixed with a share ε of the prior, so that log q − log p is never less than log ε.

    The prior says nothing of the state, so samples, mode and expectations are those of the density alone.
    """

    near: Any  # the density around the state
    log_prior: Any = eqx.field(static=True)

    share: ClassVar[float] = 0.1  # ε

    def log_prob(self, z: Float[Array, " goal"]) -> Float[Array, ""]:
        near = math.log(1 - self.share) + self.near.log_prob(z)
        return jnp.logaddexp(near, math.log(self.share) + self.log_prior(z))

    def sample(self, key: Key[Array, ""]) -> Float[Array, " goal"]:
        return self.near.sample(key)

    def mode(self) -> Float[Array, " goal"]:
        return self.near.mode()

    def expect(self, f) -> Float[Array, " goal"]:
        return self.near.expect(f)


class FlooredGaussian(Plain):
    """A Gaussian posterior mixed with the prior."""

    near: Gaussian
    log_prior: Any = eqx.field(static=True)

    def __call__(self, s: Float[Array, " features"]) -> Floored:
        return Floored(self.near(s), self.log_prior)

    def learned(self) -> dict[str, Float[Array, "..."]]:
        return self.near.learned()


def floored(key: Key[Array, ""], build: Build, *, mean: str, covariance: str) -> FlooredGaussian:
    """Returns a new Gaussian posterior mixed with the prior."""
    return FlooredGaussian(gaussian(key, build, mean=mean, covariance=covariance), build.log_prior)
