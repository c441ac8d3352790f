"""Goal spaces Z with their priors p(z).

Every space answers for one goal: `sample`, `log_prob`, `embed` (what networks see), `point` (the
goal that stands for a posterior: its mean, for categories its mode), `lgr` (LGR(z) of a pursued and
a recovered goal: accuracy for categories, else the mean squared distance), `read` and `show` (from
what a user writes to the coordinates used inside, and back).
"""

import math
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, Int, Key, Shaped


@runtime_checkable
class GoalSpace(Protocol):
    """What every goal space answers, for one goal."""

    lgr_best: ClassVar[float]

    @property
    def dim(self) -> int: ...
    @property
    def entropy(self) -> float: ...
    def sample(self, key: Key[Array, ""]) -> Shaped[Array, "*goal"]: ...
    def log_prob(self, z: Any) -> Float[Array, ""]: ...
    def embed(self, z: Any) -> Float[Array, " embedded"]: ...
    def point(self, q: Any) -> Shaped[Array, "*goal"]: ...
    def lgr(self, z: Any, w: Any) -> Float[Array, ""]: ...
    def read(self, z: Any) -> Shaped[Array, "*goal"]: ...
    def show(self, z: Any) -> Shaped[Array, "*goal"]: ...


class Discrete(eqx.Module):
    """k categories, uniform."""

    size: int = eqx.field(static=True)
    lgr_best: ClassVar[float] = 1.0

    @property
    def dim(self) -> int:
        return self.size

    @property
    def entropy(self) -> float:
        return math.log(self.size)

    def sample(self, key: Key[Array, ""]) -> Int[Array, ""]:
        return (jax.random.bits(key) % jnp.uint32(self.size)).astype(jnp.int32)

    def log_prob(self, z: Shaped[Array, "*goal"]) -> Float[Array, ""]:
        """Of a category, whatever q takes for it."""
        return jnp.full((), -self.entropy)

    def embed(self, z: Int[Array, ""]) -> Float[Array, " goal"]:
        return jax.nn.one_hot(z, self.size)

    def point(self, q) -> Int[Array, ""]:
        return q.mode()

    def lgr(self, z: Int[Array, ""], w: Int[Array, ""]) -> Float[Array, ""]:
        return (z == w).astype(jnp.float32)

    def read(self, z) -> Int[Array, ""]:
        value = np.asarray(z)
        if value.shape != () or value.dtype.kind not in "iuf" or not 0 <= value < self.size or value != int(value):
            raise ValueError(f"a goal here is an integer from 0 to {self.size - 1}, not {z!r}")
        return jnp.asarray(int(value), jnp.int32)

    def show(self, z: Int[Array, ""]) -> Int[Array, ""]:
        return z


class Vectors(eqx.Module):
    """What spaces of vectors have in common, unless they say otherwise: a uniform prior, and goals as they are."""

    lgr_best: ClassVar[float] = 0.0

    if TYPE_CHECKING:  # each has its own, a field or not

        @property
        def dim(self) -> int: ...
        @property
        def entropy(self) -> float: ...

    def log_prob(self, z: Float[Array, " goal"]) -> Float[Array, ""]:
        return jnp.full((), -self.entropy)

    def embed(self, z: Float[Array, " goal"]) -> Float[Array, " goal"]:
        return z

    def lgr(self, z: Float[Array, " goal"], w: Float[Array, " goal"]) -> Float[Array, ""]:
        return jnp.mean((self.embed(z) - self.embed(w)) ** 2)

    def read(self, z) -> Float[Array, " goal"]:
        value = np.asarray(z, np.float32)
        if value.shape != (self.dim,) or not np.all(np.isfinite(value)):
            raise ValueError(f"a goal here is {self.dim} finite numbers, not {z!r}")
        return jnp.asarray(value)

    def show(self, z: Float[Array, " goal"]) -> Float[Array, " goal"]:
        return self.embed(z)


class Box(Vectors):
    """An axis-aligned box, uniform. Posteriors on it are densities on all of R^d."""

    low: tuple[float, ...] = eqx.field(static=True)
    high: tuple[float, ...] = eqx.field(static=True)

    @property
    def dim(self) -> int:
        return len(self.low)

    @property
    def entropy(self) -> float:
        return sum(math.log(b - a) for a, b in zip(self.low, self.high, strict=True))

    def sample(self, key: Key[Array, ""]) -> Float[Array, " goal"]:
        return jax.random.uniform(key, (self.dim,), minval=jnp.asarray(self.low), maxval=jnp.asarray(self.high))

    def point(self, q) -> Float[Array, " goal"]:
        return q.expect(lambda z: z)


def cube(dim: int) -> Box:
    """[−1, 1]^dim."""
    return Box((-1.0,) * dim, (1.0,) * dim)


class TanhBox(Vectors):
    """[−1, 1]^d, uniform, for posteriors under a tanh.

    Goals are carried as u = atanh(z), where the uniform prior is Logistic(0, ½) and tanh∘N is plain
    N: log q(u) − log p(u) = log q(z) − log p(z), and nothing saturates or needs clipping. The mode of q, for LGR(z)
    and HER, is that of u as well. In z a wide tanh∘N has its peaks near ±1, where it says least of s: by them an
    uninformed q would not have the LGR(z) of 1/3 at which the paper's rows end.
    """

    dim: int = eqx.field(static=True)

    @property
    def entropy(self) -> float:
        return self.dim * math.log(2)

    def sample(self, key: Key[Array, ""]) -> Float[Array, " goal"]:
        return 0.5 * jax.random.logistic(key, (self.dim,))

    def log_prob(self, z: Float[Array, " goal"]) -> Float[Array, ""]:
        """Σ log(½ sech² u)."""
        return jnp.sum(math.log(2) - 2 * jnp.logaddexp(z, -z))

    def embed(self, z: Float[Array, " goal"]) -> Float[Array, " goal"]:
        return jnp.tanh(z)

    def point(self, q) -> Float[Array, " goal"]:
        return jnp.arctanh(jnp.clip(q.expect(jnp.tanh), -1 + 1e-6, 1 - 1e-6))

    def read(self, z) -> Float[Array, " goal"]:
        value = super().read(z)
        if bool(jnp.any(jnp.abs(value) > 1)):
            raise ValueError(f"a goal here lies in [-1, 1]^{self.dim}, not {z!r}")
        return jnp.arctanh(jnp.clip(value, -1 + 1e-6, 1 - 1e-6))


class Sphere(Vectors):
    """Unit vectors, uniform."""

    dim: int = eqx.field(static=True)

    @property
    def entropy(self) -> float:
        return math.log(2) + self.dim / 2 * math.log(math.pi) - math.lgamma(self.dim / 2)

    def sample(self, key: Key[Array, ""]) -> Float[Array, " goal"]:
        x = jax.random.normal(key, (self.dim,))
        return x / jnp.linalg.norm(x)

    def point(self, q) -> Float[Array, " goal"]:
        mean = q.expect(lambda z: z)
        return mean / jnp.maximum(jnp.linalg.norm(mean), 1e-12)

    def read(self, z) -> Float[Array, " goal"]:
        value = np.asarray(super().read(z), np.float64)  # whose squares are neither 0 nor infinite
        if not np.any(value):
            raise ValueError(f"a goal here is a direction, not {z!r}")
        return jnp.asarray(value / np.linalg.norm(value), jnp.float32)


class Normals(Vectors):
    """R^d, standard normal."""

    dim: int = eqx.field(static=True)

    @property
    def entropy(self) -> float:
        return self.dim / 2 * math.log(2 * math.pi * math.e)

    def sample(self, key: Key[Array, ""]) -> Float[Array, " goal"]:
        return jax.random.normal(key, (self.dim,))

    def log_prob(self, z: Float[Array, " goal"]) -> Float[Array, ""]:
        return -0.5 * jnp.sum(z**2 + math.log(2 * math.pi))

    def point(self, q) -> Float[Array, " goal"]:
        """In the direction of the mean, as long as goals usually are."""
        mean = q.expect(lambda z: z)
        return math.sqrt(self.dim) * mean / jnp.maximum(jnp.linalg.norm(mean), 1e-12)


class Visited(Vectors):
    """States that were visited: drawn from a memory, told apart from `decoys` others drawn from it."""

    dim: int = eqx.field(static=True)
    decoys: int = eqx.field(static=True)
    memory: Float[Array, "memory goal"] | None = None

    @property
    def entropy(self) -> float:
        return math.log(self.decoys + 1)

    def sample(self, key: Key[Array, ""]) -> Float[Array, " goal"]:
        if self.memory is None:
            raise ValueError("goals that were visited need a memory: current(goals, q)")
        return self.memory[jax.random.randint(key, (), 0, self.memory.shape[0])]

    def point(self, q) -> Float[Array, " goal"]:
        return q.mode()


def current(goals: GoalSpace, q) -> GoalSpace:
    """The goal space as it is now: where goals are visited states, with those that q remembers."""
    return Visited(goals.dim, goals.decoys, q.q.memory) if isinstance(goals, Visited) else goals
