"""The registry of posteriors, by name: builder(key, Build) -> posterior."""

from collections.abc import Callable
from functools import partial
from typing import Any

from vgcrl.objective.posteriors.base import Build, Distribution, Posterior, PosteriorView, Standardiser
from vgcrl.objective.posteriors.categorical import categorical
from vgcrl.objective.posteriors.displacement import displacement
from vgcrl.objective.posteriors.dynamics import dynamics
from vgcrl.objective.posteriors.floored import floored
from vgcrl.objective.posteriors.gaussian import gaussian
from vgcrl.objective.posteriors.mixture import mixture
from vgcrl.objective.posteriors.nonparametric import similarity
from vgcrl.objective.posteriors.vmf import von_mises_fisher

POSTERIORS: dict[str, Callable[..., Any]] = {
    "state-fixed": partial(gaussian, mean="identity", covariance="fixed"),
    "state-huber": partial(gaussian, mean="identity", covariance="fixed", robust=True),
    "state-floored": partial(floored, mean="identity", covariance="fixed"),
    "state-global": partial(gaussian, mean="identity", covariance="global"),
    "state-global-full": partial(gaussian, mean="identity", covariance="global", full=True),
    "linear-fixed": partial(gaussian, mean="linear", covariance="fixed"),
    "linear-global": partial(gaussian, mean="linear", covariance="global"),
    "gaussian": partial(gaussian, mean="mlp", covariance="state"),
    "gaussian-fixed": partial(gaussian, mean="mlp", covariance="fixed"),
    "gaussian-global": partial(gaussian, mean="mlp", covariance="global"),
    "gaussian-full": partial(gaussian, mean="mlp", covariance="state", full=True),
    "gmm": mixture,
    "categorical": categorical,
    "dynamics": dynamics,
    "nonparametric": similarity,
    "nonparametric-conv": partial(similarity, conv=True),
    "vmf": von_mises_fisher,
    "lsd": partial(displacement, bound="layers"),
    "metra": partial(displacement, bound="time"),
    "metra-discrete": partial(displacement, bound="time", categories=True),
    "csf": partial(displacement, bound="contrast"),
}

# Posteriors with log q(z|s) = ⟨φ(s), w(z)⟩ + g(z), and how many features φ has beyond the dimensions of a goal.
LINEAR = {
    "categorical": 0,
    "vmf": 0,
    "lsd": 0,
    "metra": 0,
    "csf": 0,
    "state-fixed": 1,
    "linear-fixed": 1,
    "gaussian-fixed": 1,
}

# Options that apply to some posteriors only: σ to those where it is not the output of a network.
_KINDS = {name: getattr(build, "keywords", {}) for name, build in POSTERIORS.items()}
OPTIONS = {
    "sigma": tuple(name for name, kind in _KINDS.items() if kind.get("covariance") in ("fixed", "global")),
    "components": ("gmm", "dynamics"),
}
# Posteriors in which only the bounds on layers keep φ from growing.
BOUNDED_BY_LAYERS = tuple(name for name, kind in _KINDS.items() if kind.get("bound") == "layers")
# Posteriors without learned parameters.
_NOTHING = {"mean": "identity", "covariance": "fixed"}
UNLEARNED = tuple(name for name, kind in _KINDS.items() if kind.items() >= _NOTHING.items())

__all__ = [
    "LINEAR",
    "OPTIONS",
    "POSTERIORS",
    "UNLEARNED",
    "Build",
    "Distribution",
    "Posterior",
    "PosteriorView",
    "Standardiser",
]
