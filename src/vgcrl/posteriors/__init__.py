"""The registry of posteriors: name → builder(key, Build)."""

from functools import partial

from vgcrl.posteriors.base import Build, Posterior, Seen
from vgcrl.posteriors.categorical import categorical
from vgcrl.posteriors.gaussian import gaussian
from vgcrl.posteriors.mixture import mixture
from vgcrl.posteriors.vmf import von_mises_fisher

POSTERIORS = {
    "state-fixed": partial(gaussian, mean="identity", covariance="fixed"),
    "state-huber": partial(gaussian, mean="identity", covariance="fixed", robust=True),
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
    "vmf": von_mises_fisher,
}

__all__ = ["POSTERIORS", "Build", "Posterior", "Seen"]
