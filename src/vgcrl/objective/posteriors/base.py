"""What every posterior q(z|s) answers, and the view of the observation it is given."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from vgcrl.objective.networks import refresh


class Distribution(Protocol):
    def log_prob(self, z: Array) -> Array: ...
    def sample(self, key: Array) -> Array: ...
    def mode(self) -> Array: ...
    def expect(self, f: Callable[[Array], Array]) -> Array: ...
    def fit(self, z: Array) -> Array: ...


class Posterior(Protocol):
    """Array leaves are λ, everything else is static."""

    def __call__(self, s: Array) -> Distribution: ...
    def code(self, z: Array) -> Any:
        """A goal as its distributions take it."""
        ...

    def refresh(self, inputs: Array, key: Array) -> "Posterior":
        """Advance whatever of q gradients do not move; called once after each fit."""
        ...

    def learned(self) -> dict[str, Array]:
        """What a reader of results wants to see of λ."""
        ...


class Plain(eqx.Module):
    """What most posteriors are: goals are taken as they are, only bounded layers move without gradients."""

    def code(self, z: Array) -> Any:
        return z

    def refresh(self, inputs: Array, key: Array) -> "Plain":
        return refresh(self)

    def learned(self) -> dict[str, Array]:
        return {}


class Build(NamedTuple):
    """What a posterior is built from."""

    features: int  # numbers that q sees
    goals: int  # dimension of z, or number of categories
    hidden: tuple[int, ...]
    layer: Callable  # (weight, bias) -> layer: Linear or Spectral
    sigma: float  # standard deviation where it is fixed, and at the start where it is learned
    components: int
    kappa: float
    image: tuple[int, ...] = ()  # shape of the features where they are a picture
    log_prior: Callable[[Array], Array] = lambda z: jnp.zeros(())  # of a goal


BATCHES = 200  # in which a standardiser learns what is usual: mostly of random steps


class Standardiser(eqx.Module):
    """Numbers less their mean, in units of their spread, as both were in the first BATCHES batches."""

    mean: Array
    square: Array  # mean of squares
    count: Array  # batches seen

    @staticmethod
    def init(width: int) -> "Standardiser":
        return Standardiser(jnp.zeros(width), jnp.ones(width), jnp.zeros(()))

    def __call__(self, x: Array) -> Array:
        mean, square = stop_gradient((self.mean, self.square))
        return (x - mean) / jnp.sqrt(jnp.maximum(square - mean**2, 1e-6))

    def follow(self, batch: Array) -> "Standardiser":
        share = jnp.where(self.count < BATCHES, 1 / (self.count + 1), 0.0)
        mean = self.mean + share * (jnp.mean(batch, axis=0) - self.mean)
        square = self.square + share * (jnp.mean(batch**2, axis=0) - self.square)
        return Standardiser(mean, square, self.count + 1)


class PosteriorView(eqx.Module):
    """q, and what it is given of a step (s, a, s'): some dimensions of s'; of s, and the action; or of s and s'."""

    q: Any
    features: tuple[int, ...] = eqx.field(static=True)
    posterior_input: str = eqx.field(static=True, default="state")
    actions: int = eqx.field(static=True, default=0)
    standardise: Standardiser | None = None  # the features as q sees them; None: as they are

    def _view(self, s: Array) -> Array:
        first, last = self.features[0], self.features[-1]
        if self.features == tuple(range(first, last + 1)):
            return s[..., first : last + 1]
        return s[..., jnp.array(self.features)]

    def inputs(self, s: Array, action: Array, after: Array) -> Array:
        """What q is given of a step, or of many."""
        if self.posterior_input == "state":
            return self._view(after)
        if self.posterior_input == "action":
            return jnp.concatenate([self._view(s), action], axis=-1)
        return jnp.concatenate([self._view(s), self._view(after)], axis=-1)

    def of(self, inputs: Array) -> Distribution:
        """Of what was given of one step."""
        if self.standardise is None:
            return self.q(inputs)
        width = len(self.features)
        first, rest = self.standardise(inputs[:width]), inputs[width:]
        rest = self.standardise(rest) if self.posterior_input == "transition" else rest
        return self.q(jnp.concatenate([first, rest]))

    def during(self, s: Array, action: Array, after: Array) -> Distribution:
        """Of a step."""
        return self.of(self.inputs(s, action, after))

    def __call__(self, s: Array) -> Distribution:
        """Of a state alone: at rest in it."""
        return self.during(s, jnp.zeros(self.actions), s)

    def towards(self, s: Array, target: Array) -> Distribution:
        """Of a target state, seen from s: as if one step led there. The goal that stands for it is read off this."""
        return self.during(s, jnp.zeros(self.actions), target)

    def code(self, z: Array) -> Any:
        return self.q.code(z)

    def refresh(self, inputs: Array, key: Array) -> "PosteriorView":
        seen = self.standardise and self.standardise.follow(inputs[:, : len(self.features)])
        return PosteriorView(self.q.refresh(inputs, key), self.features, self.posterior_input, self.actions, seen)

    def learned(self) -> dict[str, Array]:
        return self.q.learned()
