"""Distributions over goals and actions, each for one example: `log_prob`, `sample`, `mode`, `expect`, `fit`.

`expect(f)` is E[f(z)] for an elementwise f; with the identity it is the mean. `fit(z)` is what maximum likelihood
maximises: log_prob, except in Implied and Tilted. Some distributions are linear in features, log_prob(z) = ⟨linear(),
weights(z)⟩ + offset(z), so that a critic can learn successor features.
"""

import functools
import math
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, Int, Key, Shaped
from scipy import special

LOG_2PI = math.log(2 * math.pi)
_NODES = np.linspace(-6, 6, 401)
_WEIGHTS = np.exp(-(_NODES**2) / 2)


def _expect_normal(f, mean: Float[Array, " goal"], std: Float[Array, " goal"]) -> Float[Array, " goal"]:
    """Returns E[f] of each normal marginal by the trapezoid rule: exact to 1e-4 even if f is steep and std large."""
    nodes = jnp.asarray(_NODES, mean.dtype)
    weights = jnp.asarray(_WEIGHTS / _WEIGHTS.sum(), mean.dtype)
    return jax.vmap(lambda m, s: weights @ f(m + s * nodes))(mean, std)


class Direct(eqx.Module):
    """The base of distributions that are fitted by their own log-density."""

    def fit(self, z: Any) -> Float[Array, ""]:
        return self.log_prob(z)  # ty: ignore[missing-attribute]


def _pick(values: Float[Array, " k"], z: Int[Array, ""]) -> Float[Array, ""]:
    """Returns values[z], by a mask because the gradient of indexing is a scatter."""
    return jnp.sum(jnp.where(jnp.arange(values.shape[-1]) == z, values, 0.0))


class Categorical(Direct):
    """A distribution over k categories, given by logits."""

    logits: Float[Array, " k"]

    def log_prob(self, z: Int[Array, ""]) -> Float[Array, ""]:
        return _pick(jax.nn.log_softmax(self.logits), z)

    def sample(self, key: Key[Array, ""]) -> Int[Array, ""]:
        return jax.random.categorical(key, self.logits)

    def mode(self) -> Int[Array, ""]:
        return jnp.argmax(self.logits)

    def expect(self, f) -> Float[Array, ""]:
        values = f(jnp.arange(self.logits.shape[-1])).astype(self.logits.dtype)
        return jax.nn.softmax(self.logits) @ values

    def linear(self) -> Float[Array, " n"]:
        return jax.nn.log_softmax(self.logits)

    def weights(self, z: Int[Array, ""]) -> Float[Array, " n"]:
        return jax.nn.one_hot(z, self.logits.shape[-1], dtype=self.logits.dtype)

    def offset(self, z: Int[Array, ""]) -> Float[Array, ""]:
        return jnp.zeros((), self.logits.dtype)


class Implied(eqx.Module):
    """A distribution over k categories by Bayes' rule: a uniform prior, and the likelihood of what was seen."""

    evidence: Float[Array, " k"]  # log p(seen | category)

    def fit(self, z: Int[Array, ""]) -> Float[Array, ""]:
        return _pick(self.evidence, z)

    def log_prob(self, z: Int[Array, ""]) -> Float[Array, ""]:
        return Categorical(self.evidence).log_prob(z)

    def sample(self, key: Key[Array, ""]) -> Int[Array, ""]:
        return jax.random.categorical(key, self.evidence)

    def mode(self) -> Int[Array, ""]:
        return jnp.argmax(self.evidence)

    def expect(self, f) -> Float[Array, ""]:
        return Categorical(self.evidence).expect(f)


class Tilted(eqx.Module):
    """The density p(z) exp⟨change, z⟩ without its normaliser; goals are vectors, or k categories coded as vectors."""

    change: Float[Array, " goal"]
    bound: Float[Array, ""]  # term added to the fit, which keeps `change` bounded
    categories: int = eqx.field(static=True)  # 0: vectors
    log_prior: Any = eqx.field(static=True)

    def fit(self, z: Float[Array, " goal"]) -> Float[Array, ""]:
        return z @ self.change + self.bound

    def log_prob(self, z: Float[Array, " goal"]) -> Float[Array, ""]:
        return z @ self.change + self.log_prior(z)

    def sample(self, key: Key[Array, ""]) -> Shaped[Array, "*goal"]:
        return self.mode()

    def mode(self) -> Shaped[Array, "*goal"]:
        """Returns the most likely category, or the most likely direction."""
        return jnp.argmax(self.change) if self.categories else self.expect(lambda z: z)

    def expect(self, f) -> Float[Array, " goal"]:
        """Returns f of the most likely direction, as if that were certain."""
        return f(self.change / jnp.sqrt(jnp.sum(self.change**2) + 1e-12))

    def linear(self) -> Float[Array, " goal"]:
        return self.change

    def weights(self, z: Float[Array, " goal"]) -> Float[Array, " goal"]:
        return z

    def offset(self, z: Float[Array, " goal"]) -> Float[Array, ""]:
        return self.log_prior(z)


class GoalAmongDecoys(Direct):
    """A distribution over states: a softmax, over the goal and decoys, of scaled similarity to the reached state.

    A goal is given as (state, its embedding), so that embeddings are computed once. The mode is the reached state; a
    sample is the reached state or a decoy.
    """

    state: Float[Array, " features"]  # the reached state
    embedding: Float[Array, " embedding"]  # embedding of the reached state, a unit vector
    candidates: tuple[Float[Array, "decoys features"], Float[Array, "decoys embedding"]]
    scale: float = eqx.field(static=True)

    def log_prob(self, z: tuple[Float[Array, " features"], Float[Array, " embedding"]]) -> Float[Array, ""]:
        own, others = self.scale * (z[1] @ self.embedding), self.scale * (self.candidates[1] @ self.embedding)
        return own - jnp.logaddexp(own, jax.nn.logsumexp(others))

    def sample(self, key: Key[Array, ""]) -> Float[Array, " goal"]:
        scores = jnp.append(self.candidates[1] @ self.embedding, 1.0)
        states = jnp.concatenate([self.candidates[0], self.state[None]])
        return states[jax.random.categorical(key, self.scale * scores)]

    def mode(self) -> Float[Array, " goal"]:
        return self.state

    def expect(self, f) -> Float[Array, " goal"]:
        return f(self.state)


class Normal(Direct):
    """A normal distribution with independent coordinates."""

    mean: Float[Array, " goal"]
    log_std: Float[Array, " goal"]

    def log_prob(self, z: Float[Array, " goal"]) -> Float[Array, ""]:
        error = (z - self.mean) * jnp.exp(-self.log_std)
        return -0.5 * jnp.sum(error**2 + 2 * self.log_std + LOG_2PI)

    def sample(self, key: Key[Array, ""]) -> Float[Array, " goal"]:
        return self.mean + jnp.exp(self.log_std) * jax.random.normal(key, self.mean.shape, self.mean.dtype)

    def mode(self) -> Float[Array, " goal"]:
        return self.mean

    def expect(self, f) -> Float[Array, " goal"]:
        return _expect_normal(f, self.mean, jnp.exp(self.log_std))

    def linear(self) -> Float[Array, " n"]:
        scaled = self.mean * jnp.exp(-2 * self.log_std)
        return jnp.append(scaled, -0.5 * jnp.sum(self.mean * scaled))

    def weights(self, z: Float[Array, " goal"]) -> Float[Array, " n"]:
        return jnp.append(z, jnp.ones((), z.dtype))

    def offset(self, z: Float[Array, " goal"]) -> Float[Array, ""]:
        """A function of z alone where the standard deviations are."""
        return -0.5 * jnp.sum((z * jnp.exp(-self.log_std)) ** 2 + 2 * self.log_std + LOG_2PI)


class Huber(Direct):
    """Independent coordinates whose −log density is Huber's loss of (z − mean)/scale: quadratic to 1, then linear."""

    mean: Float[Array, " goal"]
    log_scale: Float[Array, " goal"]

    _centre: ClassVar[float] = math.sqrt(2 * math.pi) * math.erf(1 / math.sqrt(2))  # unnormalised mass within 1
    _tail: ClassVar[float] = math.exp(-0.5)  # unnormalised mass beyond 1, on each side
    _log_mass: ClassVar[float] = math.log(_centre + 2 * _tail)

    def log_prob(self, z: Float[Array, " goal"]) -> Float[Array, ""]:
        error = jnp.abs((z - self.mean) * jnp.exp(-self.log_scale))
        loss = jnp.where(error <= 1, 0.5 * error**2, error - 0.5)
        return -jnp.sum(loss + self.log_scale + self._log_mass)

    def sample(self, key: Key[Array, ""]) -> Float[Array, " goal"]:
        """Returns a sample by the inverse of the distribution function, computed for the left half and mirrored."""
        u = jax.random.uniform(key, self.mean.shape, self.mean.dtype, minval=-1.0, maxval=1.0)
        left = 0.5 * (1 - jnp.abs(u)) * math.exp(self._log_mass)  # mass to the left of −|x|
        tail = jnp.log(jnp.maximum(left, 1e-30)) - 0.5
        inside = (left - self._tail) / math.sqrt(2 * math.pi) + special.ndtr(-1.0)
        x = jnp.where(left < self._tail, tail, jax.scipy.special.ndtri(jnp.clip(inside, 1e-6, 0.5)))
        return self.mean + jnp.exp(self.log_scale) * jnp.sign(u) * jnp.abs(x)

    def mode(self) -> Float[Array, " goal"]:
        return self.mean

    def expect(self, f) -> Float[Array, " goal"]:
        nodes = np.linspace(-16, 16, 1601)
        size = np.abs(nodes)
        weights = np.exp(-np.where(size <= 1, 0.5 * nodes**2, size - 0.5))
        nodes, weights = (jnp.asarray(x, self.mean.dtype) for x in (nodes, weights / weights.sum()))
        return jax.vmap(lambda m, s: weights @ f(m + s * nodes))(self.mean, jnp.exp(self.log_scale))


class FullNormal(Direct):
    """A normal distribution with covariance L Lᵀ, where L is lower triangular with a positive diagonal."""

    mean: Float[Array, " goal"]
    tril: Float[Array, "goal goal"]

    def log_prob(self, z: Float[Array, " goal"]) -> Float[Array, ""]:
        error = jax.scipy.linalg.solve_triangular(self.tril, z - self.mean, lower=True)
        return -0.5 * jnp.sum(error**2 + LOG_2PI) - jnp.sum(jnp.log(jnp.diagonal(self.tril)))

    def sample(self, key: Key[Array, ""]) -> Float[Array, " goal"]:
        return self.mean + self.tril @ jax.random.normal(key, self.mean.shape, self.mean.dtype)

    def mode(self) -> Float[Array, " goal"]:
        return self.mean

    def expect(self, f) -> Float[Array, " goal"]:
        return _expect_normal(f, self.mean, jnp.linalg.norm(self.tril, axis=-1))


class Mixture(Direct):
    """A mixture of K normal distributions, stacked along their leading axis."""

    logits: Float[Array, " k"]
    components: Normal

    def log_prob(self, z: Float[Array, " goal"]) -> Float[Array, ""]:
        each = jax.vmap(lambda c: c.log_prob(z))(self.components)
        return jax.nn.logsumexp(jax.nn.log_softmax(self.logits) + each)

    def sample(self, key: Key[Array, ""]) -> Float[Array, " goal"]:
        key_component, key_value = jax.random.split(key)
        k = jax.random.categorical(key_component, self.logits)
        return jax.tree.map(lambda x: x[k], self.components).sample(key_value)

    def mode(self) -> Float[Array, " goal"]:
        """Returns the component mean of highest density, which is exact if components are well separated."""
        means = self.components.mean
        return means[jnp.argmax(jax.vmap(self.log_prob)(means))]

    def expect(self, f) -> Float[Array, " goal"]:
        return jax.nn.softmax(self.logits) @ jax.vmap(lambda c: c.expect(f))(self.components)


def _log_bessel(order: float, kappa: float) -> float:
    """Returns log I_order(kappa), by the series of I where I is too small for float64."""
    scaled = special.ive(order, kappa)
    if scaled > 1e-290:
        return math.log(scaled) + kappa
    series = math.log(special.hyp0f1(order + 1, kappa**2 / 4))
    return order * math.log(kappa / 2) - math.lgamma(order + 1) + series


@functools.lru_cache
def _von_mises_fisher_constants(dim: int, kappa: float) -> tuple[float, float, np.ndarray]:
    """Returns the log-normaliser, the mean resultant length, and quantiles of the angle to the mean direction."""
    order = dim / 2 - 1
    log_bessel = _log_bessel(order, kappa)
    log_norm = order * math.log(kappa) - (order + 1) * LOG_2PI - log_bessel
    length = math.exp(_log_bessel(order + 1, kappa) - log_bessel)
    theta = np.linspace(0, np.pi, 20001)
    density = np.exp(kappa * (np.cos(theta) - 1)) * np.sin(theta) ** (dim - 2)
    cdf = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2)])
    quantiles = np.interp(np.linspace(0, 1, 4097), cdf / cdf[-1], theta)
    return log_norm, length, quantiles


class VonMisesFisher(Direct):
    """The density ∝ exp(κ⟨μ, z⟩) on the unit sphere in at least 2 dimensions, with fixed κ."""

    direction: Float[Array, " goal"]
    kappa: float = eqx.field(static=True)

    def _constants(self):
        return _von_mises_fisher_constants(self.direction.shape[-1], self.kappa)

    def log_prob(self, z: Float[Array, " goal"]) -> Float[Array, ""]:
        return self.kappa * (self.direction @ z) + self._constants()[0]

    def sample(self, key: Key[Array, ""]) -> Float[Array, " goal"]:
        """Returns a sample: the mean direction turned by a random angle, in a uniformly random tangent direction."""
        key_angle, key_tangent = jax.random.split(key)
        quantiles = jnp.asarray(self._constants()[2], self.direction.dtype)
        uniform = jax.random.uniform(key_angle, dtype=self.direction.dtype)
        place = uniform * (quantiles.shape[0] - 1)
        i = jnp.floor(place).astype(jnp.int32)
        angle = quantiles[i] + (place - i.astype(place.dtype)) * (quantiles[i + 1] - quantiles[i])
        tangent = jax.random.normal(key_tangent, self.direction.shape, self.direction.dtype)
        for _ in range(2):  # the second pass removes what rounding left of the first
            tangent = tangent - (tangent @ self.direction) * self.direction
            tangent = tangent / jnp.linalg.norm(tangent)
        return jnp.cos(angle) * self.direction + jnp.sin(angle) * tangent

    def mode(self) -> Float[Array, " goal"]:
        return self.direction

    def expect(self, f) -> Float[Array, " goal"]:
        """Returns f of the mean, which is E[f] for the identity, the only f that is used on a sphere."""
        return f(self._constants()[1] * self.direction)

    def linear(self) -> Float[Array, " n"]:
        return self.kappa * self.direction

    def weights(self, z: Float[Array, " goal"]) -> Float[Array, " n"]:
        return z

    def offset(self, z: Float[Array, " goal"]) -> Float[Array, ""]:
        return jnp.full((), self._constants()[0], z.dtype)
