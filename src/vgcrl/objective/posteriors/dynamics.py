"""DADS: skill dynamics p(s'|s, z), a mixture of Gaussians, and the posterior over z that follows from it."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient
from jaxtyping import Float, Int, Key

from vgcrl.objective.distributions import Implied
from vgcrl.objective.networks import refresh
from vgcrl.objective.optim import FIXED
from vgcrl.objective.posteriors.base import Build, Plain
from vgcrl.objective.posteriors.mixture import GaussianMixture, mixture


class SkillDynamics(Plain):
    """log q(z|s, s') − log p(z) = log p(s'|s, z) − log E_z p(s'|s, z): the reward of DADS, exact over k skills."""

    model: GaussianMixture  # density of the change of s, in units of `scale`
    scale: Float[Array, " features"] = eqx.field(metadata=FIXED)  # typical change of each feature, updated by `refresh`
    skills: int = eqx.field(static=True)

    def evidence(
        self, s: Float[Array, " features"], after: Float[Array, " features"], z: Int[Array, ""]
    ) -> Float[Array, ""]:
        """Returns the log-density of the change from s to `after` under skill z."""
        change = (after - s) / stop_gradient(self.scale)
        return self.model(jnp.concatenate([s, jax.nn.one_hot(z, self.skills)])).log_prob(change)

    def __call__(self, x: Float[Array, " both"]) -> Implied:
        s, after = jnp.split(x, 2)
        return Implied(jax.vmap(lambda z: self.evidence(s, after, z))(jnp.arange(self.skills)))

    def refresh(self, inputs: Float[Array, "batch both"], key: Key[Array, ""]) -> "SkillDynamics":
        s, after = jnp.split(inputs, 2, axis=-1)
        now = jnp.sqrt(jnp.mean((after - s) ** 2, axis=0)) + 1e-3
        return SkillDynamics(refresh(self.model), 0.99 * self.scale + 0.01 * now, self.skills)


def dynamics(key: Key[Array, ""], build: Build) -> SkillDynamics:
    """Returns new skill dynamics of `build.goals` skills."""
    features = build.features // 2
    inner = build._replace(features=features + build.goals, goals=features)
    return SkillDynamics(mixture(key, inner), jnp.ones(features), build.goals)
