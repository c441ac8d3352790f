"""Goal spaces Z with their priors p(z).

All methods are for one goal: `sample` and `log_prob` are those of the prior; `embed` returns what networks see; `point`
returns the goal that stands for a posterior: its mean, or its mode for categories and visited states; `lgr` returns
LGR(z) of a pursued and a recovered goal: accuracy for categories, else the mean squared distance; `read` turns what a
user writes into the coordinates used inside, and `show` turns them back.
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
    """The interface of goal spaces."""

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
    """k categories with a uniform prior."""

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
        """Returns −log k for any z, however q codes the category."""
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
    """The base of vector spaces: by default the prior is uniform and goals are embedded as they are."""

    lgr_best: ClassVar[float] = 0.0

    if TYPE_CHECKING:  # each subclass has them, as fields or as properties

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
            numbers = "finite number" if self.dim == 1 else "finite numbers"
            raise ValueError(f"a goal here is a list of {self.dim} {numbers}, not {z!r}")
        return jnp.asarray(value)

    def show(self, z: Float[Array, " goal"]) -> Float[Array, " goal"]:
        return self.embed(z)


class Box(Vectors):
    """An axis-aligned box with a uniform prior. Posteriors on it are densities on all of R^d."""

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
    """Returns the box [−1, 1]^dim."""
    return Box((-1.0,) * dim, (1.0,) * dim)


class TanhBox(Vectors):
    """[−1, 1]^d with a uniform prior, for posteriors under a tanh.

    Goals are stored as u = atanh(z), where the uniform prior is Logistic(0, ½) and tanh∘N is plain N: log q(u) − log
    p(u) = log q(z) − log p(z), and nothing saturates or needs clipping. LGR(z) and HER use the mode of q in u as well.
    In z a wide tanh∘N has its peaks near ±1, where it says least about s; with those peaks an uninformed q would not
    have the LGR(z) of 1/3 at which the paper's rows end.
    """

    dim: int = eqx.field(static=True)

    @property
    def entropy(self) -> float:
        return self.dim * math.log(2)

    def sample(self, key: Key[Array, ""]) -> Float[Array, " goal"]:
        return 0.5 * jax.random.logistic(key, (self.dim,))

    def log_prob(self, z: Float[Array, " goal"]) -> Float[Array, ""]:
        """Returns Σ log(½ sech² u)."""
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
    """Unit vectors with a uniform prior."""

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
        value = np.asarray(super().read(z), np.float64)  # in which their squares are finite and not 0
        if not np.any(value):
            raise ValueError(f"a goal here is a direction, not {z!r}")
        return jnp.asarray(value / np.linalg.norm(value), jnp.float32)


class Normals(Vectors):
    """R^d with a standard normal prior."""

    dim: int = eqx.field(static=True)

    @property
    def entropy(self) -> float:
        return self.dim / 2 * math.log(2 * math.pi * math.e)

    def sample(self, key: Key[Array, ""]) -> Float[Array, " goal"]:
        return jax.random.normal(key, (self.dim,))

    def log_prob(self, z: Float[Array, " goal"]) -> Float[Array, ""]:
        return -0.5 * jnp.sum(z**2 + math.log(2 * math.pi))

    def point(self, q) -> Float[Array, " goal"]:
        """Returns the direction of q's mean, scaled to the usual length of goals, √d."""
        mean = q.expect(lambda z: z)
        return math.sqrt(self.dim) * mean / jnp.maximum(jnp.linalg.norm(mean), 1e-12)


class Visited(Vectors):
    """Visited states, with a prior uniform over a memory of them; q tells a goal apart from `decoys` others."""

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
    """Returns the goal space with its current prior, which for visited states is uniform over what q remembers."""
    return Visited(goals.dim, goals.decoys, q.q.memory) if isinstance(goals, Visited) else goals
