"""N(μ(s), Σ(s)): GCRL, aGCRL, linGCRL and continuous DIAYN are members of this one family.

mean ∈ {identity, linear, mlp} × covariance ∈ {fixed, global, state} × {diagonal, full}.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient
from jaxtyping import Float, Key

from vgcrl.objective.distributions import FullNormal, Huber, Normal
from vgcrl.objective.networks import dense, product
from vgcrl.objective.optim import FIXED
from vgcrl.objective.pictures import Network
from vgcrl.objective.posteriors.base import Build, Plain

LOG_STD_RANGE = (math.log(0.3), math.log(10.0))  # of a state-dependent Σ, so that rewards stay moderate


class Identity(eqx.Module):
    """A function that returns its input, in place of a network that is not needed."""

    def __call__(self, x: Float[Array, " in"]) -> Float[Array, " out"]:
        return x


class Matrix(eqx.Module):
    """The mean μ = A s: a linear layer whose bias is not used."""

    layer: Any

    def __call__(self, x: Float[Array, " in"]) -> Float[Array, " out"]:
        return product(self.layer.effective(), x)

    def matrix(self) -> Float[Array, "goal features"]:
        return self.layer.effective()


class Constant(eqx.Module):
    """A learned Σ, the same for all states."""

    value: Float[Array, " scale"]

    def __call__(self, x: Float[Array, " in"]) -> Float[Array, " out"]:
        return self.value


class Given(eqx.Module):
    """A fixed Σ, the same for all states."""

    value: Float[Array, " scale"] = eqx.field(metadata=FIXED)

    def __call__(self, x: Float[Array, " in"]) -> Float[Array, " out"]:
        return stop_gradient(self.value)


class Clipped(eqx.Module):
    """A linear layer whose first `dim` outputs, log standard deviations, are clipped."""

    layer: Any
    dim: int = eqx.field(static=True)

    def __call__(self, x: Float[Array, " in"]) -> Float[Array, " out"]:
        raw = self.layer(x)
        return jnp.concatenate([jnp.clip(raw[: self.dim], *LOG_STD_RANGE), raw[self.dim :]])


def _tril(raw: Float[Array, " scale"], dim: int) -> Float[Array, "goal goal"]:
    """Returns the triangular factor L of Σ from its log-diagonal, followed by its strict lower triangle."""
    lower = jnp.zeros((dim, dim), raw.dtype).at[jnp.tril_indices(dim, -1)].set(raw[dim:])
    return lower + jnp.diag(jnp.exp(raw[:dim]))


class Gaussian(Plain):
    """The posterior N(μ(s), Σ(s)), with μ and Σ by any of the modules above."""

    trunk: Any  # hidden features h(s); Identity where no head needs them
    mean: Any
    scale: Any
    mean_of_hidden: bool = eqx.field(static=True)  # μ is a head on h(s), else a function of s
    full: bool = eqx.field(static=True)
    robust: bool = eqx.field(static=True)  # Huber's density in place of the normal one

    def __call__(self, s: Float[Array, " features"]) -> Normal | FullNormal | Huber:
        h = self.trunk(s)
        mean, raw = self.mean(h if self.mean_of_hidden else s), self.scale(h)
        if self.robust:
            return Huber(mean, raw)
        return FullNormal(mean, _tril(raw, mean.shape[-1])) if self.full else Normal(mean, raw)

    def learned(self) -> dict[str, Float[Array, "..."]]:
        """Returns A if the mean is linear, and `sigma` and a full `covariance` if these are the same for all states."""
        out = {"A": self.mean.matrix()} if isinstance(self.mean, Matrix) else {}
        if isinstance(self.scale, (Constant, Given)) and self.full:
            dim = (math.isqrt(8 * self.scale.value.shape[-1] + 1) - 1) // 2
            tril = _tril(self.scale.value, dim)
            out |= {"sigma": jnp.linalg.norm(tril, axis=-1), "covariance": tril @ tril.T}
        elif isinstance(self.scale, (Constant, Given)):
            out |= {"sigma": jnp.exp(self.scale.value)}
        return out


class Trunk(eqx.Module):
    """The hidden layers: an MLP whose last layer is followed by a ReLU too."""

    mlp: Network

    def __call__(self, x: Float[Array, " in"]) -> Float[Array, " out"]:
        return jax.nn.relu(self.mlp(x))


def gaussian(
    key: Key[Array, ""],
    build: Build,
    *,
    mean: str = "mlp",
    covariance: str = "state",
    full: bool = False,
    robust: bool = False,
) -> Gaussian:
    """Returns a new posterior; `full`: with a full covariance, `robust`: with Huber's density, not the normal one."""
    key_trunk, key_mean, key_scale = jax.random.split(key, 3)
    d, scale_dim = build.goals, build.goals * (build.goals + 1) // 2 if full else build.goals
    if mean == "identity" and build.features != d:
        raise ValueError(f"an identity mean needs as many goals as features, not {d} and {build.features}")
    deep = mean == "mlp" or covariance == "state"
    trunk = Trunk(build.network(key_trunk, (build.features, *build.hidden), build.layer)) if deep else Identity()
    means = {
        "identity": lambda: Identity(),
        "linear": lambda: Matrix(dense(key_mean, (build.features, d), build.layer)[0]),
        "mlp": lambda: dense(key_mean, (build.hidden[-1], d), build.layer)[0],
    }
    start = jnp.concatenate([jnp.full(d, math.log(build.sigma)), jnp.zeros(scale_dim - d)])
    scales = {
        "fixed": lambda: Given(start),
        "global": lambda: Constant(start),
        "state": lambda: Clipped(dense(key_scale, (build.hidden[-1], scale_dim), build.layer)[0], d),
    }
    return Gaussian(trunk, means[mean](), scales[covariance](), mean == "mlp", full, robust)
