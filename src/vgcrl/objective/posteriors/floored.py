"""N(μ(s), Σ) with a share of the prior: goals far from the state are all alike, so nothing is lost on a detour."""

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
    """A density with a share ε of the prior in it: where the density has nothing log q − log p is log ε, and not less.

    The share of the prior says nothing of the state: what is drawn or read off is that of the density itself.
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
    near: Gaussian
    log_prior: Any = eqx.field(static=True)

    def __call__(self, s: Float[Array, " features"]) -> Floored:
        return Floored(self.near(s), self.log_prior)

    def learned(self) -> dict[str, Float[Array, "..."]]:
        return self.near.learned()


def floored(key: Key[Array, ""], build: Build, *, mean: str, covariance: str) -> FlooredGaussian:
    return FlooredGaussian(gaussian(key, build, mean=mean, covariance=covariance), build.log_prior)
