"""The interface of posteriors q(z|s), and PosteriorView, which selects what q sees of a step."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient
from jaxtyping import Float, Key, Shaped

from vgcrl.objective.networks import MLP, refresh
from vgcrl.objective.optim import FIXED


@runtime_checkable
class Distribution(Protocol):
    """The interface of distributions over goals, as `objective.distributions` describes it."""

    def log_prob(self, z: Any) -> Float[Array, ""]: ...
    def sample(self, key: Key[Array, ""]) -> Shaped[Array, "*goal"]: ...
    def mode(self) -> Shaped[Array, "*goal"]: ...
    def expect(self, f: Callable[[Array], Array]) -> Float[Array, "*goal"]: ...
    def fit(self, z: Any) -> Float[Array, ""]: ...


@runtime_checkable
class Posterior(Protocol):
    """The interface of posteriors. Array leaves are λ unless their field is FIXED; everything else is static."""

    def __call__(self, s: Float[Array, " features"]) -> Distribution: ...
    def code(self, z: Shaped[Array, "*goal"]) -> Any:
        """Returns a goal in the form that `log_prob` and `fit` of its distributions take."""
        ...

    def refresh(self, inputs: Float[Array, "batch features"], key: Key[Array, ""]) -> "Posterior":
        """Returns q with its FIXED arrays updated; called once after each fit."""
        ...

    def learned(self) -> dict[str, Float[Array, "..."]]:
        """Returns what is reported of λ with the results, by name."""
        ...


class Plain(eqx.Module):
    """The base class of most posteriors: goals are taken as they are, and `refresh` updates spectrally normalised
    layers only."""

    def code(self, z: Shaped[Array, "*goal"]) -> Any:
        return z

    def refresh(self, inputs: Float[Array, "batch features"], key: Key[Array, ""]) -> "Plain":
        return refresh(self)

    def learned(self) -> dict[str, Float[Array, "..."]]:
        return {}


class Build(NamedTuple):
    """What a posterior is built from."""

    features: int  # how many numbers q sees
    goals: int  # dimension of z, or number of categories
    hidden: tuple[int, ...]
    layer: Callable  # (weight, bias) -> layer: Linear or Spectral
    sigma: float  # standard deviation: its value if fixed, its start if learned
    components: int
    kappa: float
    image: tuple[int, ...] = ()  # shape of the features if they are a picture
    log_prior: Callable[[Array], Array] = lambda z: jnp.zeros(())  # goal -> log p(z)
    network: Callable = MLP.init  # (key, sizes, layer) -> network: an MLP, or one with convolutions


BATCHES = 200  # number of first batches that a standardiser uses, mostly of random steps


class Standardiser(eqx.Module):
    """Subtracts the mean of the features and divides by their standard deviation, both over the first BATCHES batches.

    Batches are combined by their means and variances (Chan, Golub and LeVeque), since the difference of two large mean
    squares would lose the variance of numbers that are far from 0.
    """

    mean: Float[Array, " features"] = eqx.field(metadata=FIXED)
    variance: Float[Array, " features"] = eqx.field(metadata=FIXED)
    count: Float[Array, ""] = eqx.field(metadata=FIXED)  # batches seen

    @staticmethod
    def init(width: int) -> "Standardiser":
        return Standardiser(jnp.zeros(width), jnp.ones(width), jnp.zeros(()))

    @property
    def spread(self) -> Float[Array, " features"]:
        """The standard deviation, at least 0.001."""
        return jnp.sqrt(jnp.maximum(self.variance, 1e-6))

    def __call__(self, x: Float[Array, " features"]) -> Float[Array, " features"]:
        mean, spread = stop_gradient((self.mean, self.spread))
        return (x - mean) / spread

    def follow(self, batch: Float[Array, "batch features"]) -> "Standardiser":
        """Returns the standardiser after one more batch."""
        share = jnp.where(self.count < BATCHES, 1 / (self.count + 1), 0.0)
        shift = jnp.mean(batch, axis=0) - self.mean
        variance = (1 - share) * self.variance + share * (jnp.var(batch, axis=0) + (1 - share) * shift**2)
        return Standardiser(self.mean + share * shift, variance, self.count + 1)


class PosteriorView(eqx.Module):
    """The posterior q, and which part of a step (s, a, s') it sees.

    `posterior_input` is "state" for features of s', "action" for those of s with the action, "transition" for those of
    s and s'.
    """

    q: Any
    features: tuple[int, ...] = eqx.field(static=True)
    posterior_input: str = eqx.field(static=True, default="state")
    actions: int = eqx.field(static=True, default=0)
    standardise: Standardiser | None = None  # None: q sees the features as they are

    def _view(self, s: Float[Array, "*batch obs"]) -> Float[Array, "*batch features"]:
        first, last = self.features[0], self.features[-1]
        if self.features == tuple(range(first, last + 1)):
            return s[..., first : last + 1]
        return s[..., jnp.array(self.features)]

    def inputs(
        self, s: Float[Array, "*batch obs"], action: Float[Array, "*batch action"], after: Float[Array, "*batch obs"]
    ) -> Float[Array, "*batch seen"]:
        """Returns what q sees of one step or of a batch, before it is standardised."""
        if self.posterior_input == "state":
            return self._view(after)
        if self.posterior_input == "action":
            return jnp.concatenate([self._view(s), action], axis=-1)
        return jnp.concatenate([self._view(s), self._view(after)], axis=-1)

    def scaled(self, inputs: Float[Array, " seen"]) -> Float[Array, " seen"]:
        """Returns the inputs of one step as q takes them: standardised, if `standardise` is set."""
        if self.standardise is None:
            return inputs
        width = len(self.features)
        first, rest = self.standardise(inputs[:width]), inputs[width:]
        rest = self.standardise(rest) if self.posterior_input == "transition" else rest
        return jnp.concatenate([first, rest])

    def of(self, inputs: Float[Array, " seen"]) -> Distribution:
        """Returns the distribution over goals for the inputs of one step, which are not standardised yet."""
        return self.q(self.scaled(inputs))

    def during(
        self, s: Float[Array, " obs"], action: Float[Array, " action"], after: Float[Array, " obs"]
    ) -> Distribution:
        """Returns the distribution over goals for one step (s, a, s')."""
        return self.of(self.inputs(s, action, after))

    def __call__(self, s: Float[Array, " obs"]) -> Distribution:
        """Returns the distribution over goals for a state alone, as if at rest in it: s' = s, and the action is 0."""
        return self.during(s, jnp.zeros(self.actions), s)

    def towards(self, s: Float[Array, " obs"], target: Float[Array, " obs"]) -> Distribution:
        """Returns the distribution from which the goal for a target state is read: as if one step led from s to the
        target, or, if q sees the action, at rest in the target."""
        return self(target) if self.posterior_input == "action" else self.during(s, jnp.zeros(self.actions), target)

    def code(self, z: Shaped[Array, "*goal"]) -> Any:
        return self.q.code(z)

    def refresh(self, inputs: Float[Array, "batch seen"], key: Key[Array, ""]) -> "PosteriorView":
        seen = self.standardise and self.standardise.follow(inputs[:, : len(self.features)])
        q = self.q.refresh(jax.vmap(self.scaled)(inputs), key)
        return PosteriorView(q, self.features, self.posterior_input, self.actions, seen)

    def learned(self) -> dict[str, Float[Array, "..."]]:
        return self.q.learned()
