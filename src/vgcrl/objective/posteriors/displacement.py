"""q(z|s, s') ∝ p(z) exp⟨φ(s') − φ(s), z⟩: LSD, METRA and CSF, which differ in what keeps φ from growing.

The normaliser of q is left out, so the reward log q − log p is the inner product itself.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient
from jaxtyping import Float, Key, Shaped

from vgcrl.objective.distributions import Tilted
from vgcrl.objective.networks import refresh
from vgcrl.objective.optim import FIXED
from vgcrl.objective.pictures import Network
from vgcrl.objective.posteriors.base import Build, Plain

DUAL_START, SLACK = 30.0, 1e-3  # METRA's initial λ, and its ε
WEIGHT, FRESH = 5.0, 256  # CSF's weight of the contrastive term, and number of fresh goals


class ByLayers(eqx.Module):
    """LSD: every layer of φ is bounded (`spectral_norm`), and nothing is added to the fit."""

    def __call__(self, change: Float[Array, " goal"]) -> Float[Array, ""]:
        return jnp.zeros(())

    def refresh(self, key: Key[Array, ""]) -> "ByLayers":
        return self

    def learned(self) -> dict[str, Float[Array, "..."]]:
        return {}


class ByTime(eqx.Module):
    """METRA: ‖φ(s') − φ(s)‖² ≤ 1 for successive states, by a dual variable λ."""

    log_dual: Float[Array, ""]

    def __call__(self, change: Float[Array, " goal"]) -> Float[Array, ""]:
        """Returns a term whose maximisation makes φ ascend λ·slack while λ descends it."""
        dual, slack = jnp.exp(self.log_dual), jnp.minimum(SLACK, 1 - jnp.sum(change**2))
        return stop_gradient(dual) * slack - dual * stop_gradient(slack)

    def refresh(self, key: Key[Array, ""]) -> "ByTime":
        return self

    def learned(self) -> dict[str, Float[Array, "..."]]:
        return {"dual": jnp.exp(self.log_dual)}


class ByContrast(eqx.Module):
    """CSF: a contrastive term tells the pursued goal apart from fresh goals of the prior."""

    fresh: Float[Array, "fresh goal"] = eqx.field(metadata=FIXED)

    def __call__(self, change: Float[Array, " goal"]) -> Float[Array, ""]:
        return -WEIGHT * (jax.nn.logsumexp(stop_gradient(self.fresh) @ change) - jnp.log(float(FRESH)))

    def refresh(self, key: Key[Array, ""]) -> "ByContrast":
        x = jax.random.normal(key, self.fresh.shape)
        return ByContrast(x / jnp.linalg.norm(x, axis=-1, keepdims=True))

    def learned(self) -> dict[str, Float[Array, "..."]]:
        return {}


class Displacement(Plain):
    """The posterior of LSD, METRA and CSF; `bound` is what keeps φ from growing."""

    phi: Network
    bound: Any
    categories: int = eqx.field(static=True)  # 0: goals are vectors
    log_prior: Any = eqx.field(static=True)

    def __call__(self, x: Float[Array, " both"]) -> Tilted:
        s, after = jnp.split(x, 2)
        change = self.phi(after) - self.phi(s)
        return Tilted(change, self.bound(change), self.categories, self.log_prior)

    def code(self, z: Shaped[Array, "*goal"]) -> Float[Array, " goal"]:
        """Returns a category as a corner of a simplex around 0, and a vector as it is."""
        k = self.categories
        return z if not k else (jax.nn.one_hot(z, k) - 1 / k) * k / (k - 1)

    def refresh(self, inputs: Float[Array, "batch both"], key: Key[Array, ""]) -> "Displacement":
        return Displacement(refresh(self.phi), self.bound.refresh(key), self.categories, self.log_prior)

    def learned(self) -> dict[str, Float[Array, "..."]]:
        return self.bound.learned()


def displacement(key: Key[Array, ""], build: Build, *, bound: str, categories: bool = False) -> Displacement:
    """Returns a new posterior; `bound` is "layers" for LSD, "time" for METRA and "contrast" for CSF."""
    bounds = {
        "layers": ByLayers,
        "time": lambda: ByTime(jnp.log(jnp.asarray(DUAL_START, jnp.float32))),
        "contrast": lambda: ByContrast(jnp.zeros((FRESH, build.goals))),
    }
    phi = build.network(key, (build.features // 2, *build.hidden, build.goals), build.layer)
    return Displacement(phi, bounds[bound](), build.goals if categories else 0, build.log_prior)
