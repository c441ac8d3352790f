"""What every posterior q(z|s) answers, and the view of the observation it is given."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax.numpy as jnp
from jax import Array

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


class PosteriorView(eqx.Module):
    """What q is shown of a step (s, a, s'): some dimensions of s'; of s, and the action; or of s and s'."""

    q: Any
    features: tuple[int, ...] = eqx.field(static=True)
    posterior_input: str = eqx.field(static=True, default="state")
    actions: int = eqx.field(static=True, default=0)

    def _view(self, s: Array) -> Array:
        first, last = self.features[0], self.features[-1]
        if self.features == tuple(range(first, last + 1)):
            return s[..., first : last + 1]
        return s[..., jnp.array(self.features)]

    def inputs(self, s: Array, action: Array, after: Array) -> Array:
        if self.posterior_input == "state":
            return self._view(after)
        if self.posterior_input == "action":
            return jnp.concatenate([self._view(s), action], axis=-1)
        return jnp.concatenate([self._view(s), self._view(after)], axis=-1)

    def during(self, s: Array, action: Array, after: Array) -> Distribution:
        """Of a step."""
        return self.q(self.inputs(s, action, after))

    def __call__(self, s: Array) -> Distribution:
        """Of a state alone: at rest in it."""
        return self.during(s, jnp.zeros(self.actions), s)

    def code(self, z: Array) -> Any:
        return self.q.code(z)

    def refresh(self, inputs: Array, key: Array) -> "PosteriorView":
        return PosteriorView(self.q.refresh(inputs, key), self.features, self.posterior_input, self.actions)

    def learned(self) -> dict[str, Array]:
        return self.q.learned()
