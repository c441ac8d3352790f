"""A mixture of K Gaussians whose weights, means and variances are heads of one network."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Key

from vgcrl.objective.distributions import Mixture, Normal
from vgcrl.objective.networks import dense
from vgcrl.objective.posteriors.base import Build, Plain
from vgcrl.objective.posteriors.gaussian import LOG_STD_RANGE, Trunk


class GaussianMixture(Plain):
    """The posterior with `components` Gaussians, whose covariances are diagonal."""

    trunk: Trunk
    weights: Any
    mean: Any
    log_std: Any
    components: int = eqx.field(static=True)

    def __call__(self, s: Float[Array, " features"]) -> Mixture:
        h = self.trunk(s)
        mean = self.mean(h).reshape(self.components, -1)
        log_std = jnp.clip(self.log_std(h), *LOG_STD_RANGE).reshape(self.components, -1)
        return Mixture(self.weights(h), jax.vmap(Normal)(mean, log_std))


def mixture(key: Key[Array, ""], build: Build) -> GaussianMixture:
    """Returns a new mixture of `build.components` Gaussians."""
    key_trunk, key_weights, key_mean, key_std = jax.random.split(key, 4)
    k, width = build.components, build.hidden[-1]
    return GaussianMixture(
        Trunk(build.network(key_trunk, (build.features, *build.hidden), build.layer)),
        dense(key_weights, (width, k), build.layer)[0],
        dense(key_mean, (width, k * build.goals), build.layer)[0],
        dense(key_std, (width, k * build.goals), build.layer)[0],
        k,
    )
