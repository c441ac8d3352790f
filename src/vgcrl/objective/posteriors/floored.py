"""N(μ(s), Σ) with a share of the prior: goals far from the state are all alike, so nothing is lost on a detour."""

from typing import Any

import equinox as eqx
from jax import Array
from jaxtyping import Float, Key

from vgcrl.objective.distributions import Floored
from vgcrl.objective.posteriors.base import Build, Plain
from vgcrl.objective.posteriors.gaussian import Gaussian, gaussian


class FlooredGaussian(Plain):
    near: Gaussian
    log_prior: Any = eqx.field(static=True)

    def __call__(self, s: Float[Array, " features"]) -> Floored:
        return Floored(self.near(s), self.log_prior)

    def learned(self) -> dict[str, Float[Array, "..."]]:
        return self.near.learned()


def floored(key: Key[Array, ""], build: Build, *, mean: str, covariance: str) -> FlooredGaussian:
    return FlooredGaussian(gaussian(key, build, mean=mean, covariance=covariance), build.log_prior)
