"""What every posterior q(z|s) answers, and the view of the observation it is given."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax.numpy as jnp
from jax import Array


class Distribution(Protocol):
    def log_prob(self, z: Array) -> Array: ...
    def sample(self, key: Array) -> Array: ...
    def mode(self) -> Array: ...
    def expect(self, f: Callable[[Array], Array]) -> Array: ...


class Posterior(Protocol):
    """Array leaves are λ, everything else is static."""

    def __call__(self, s: Array) -> Distribution: ...
    def refresh(self, states: Array, key: Array) -> "Posterior":
        """Advance whatever of q gradients do not move; called once after each fit."""
        ...

    def learned(self) -> dict[str, Array]:
        """What a reader of results wants to see of λ."""
        ...


class Build(NamedTuple):
    """What a posterior is built from."""

    features: int  # dimensions of s that q sees
    goals: int  # dimension of z, or number of categories
    hidden: tuple[int, ...]
    layer: Callable  # (weight, bias) -> layer: Linear or Spectral
    sigma: float  # standard deviation where it is fixed, and at the start where it is learned
    components: int
    kappa: float


class Seen(eqx.Module):
    """q sees only these dimensions of the observation."""

    q: Any
    features: tuple[int, ...] = eqx.field(static=True)

    def _view(self, s: Array) -> Array:
        first, last = self.features[0], self.features[-1]
        if self.features == tuple(range(first, last + 1)):
            return s[..., first : last + 1]
        return s[..., jnp.array(self.features)]

    def __call__(self, s: Array) -> Distribution:
        return self.q(self._view(s))

    def refresh(self, states: Array, key: Array) -> "Seen":
        return Seen(self.q.refresh(self._view(states), key), self.features)

    def learned(self) -> dict[str, Array]:
        return self.q.learned()
