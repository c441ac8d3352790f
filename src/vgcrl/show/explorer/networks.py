"""Networks, goal spaces and posteriors as plain data for a page: float32 in base64, read by js/networks.js.

Each table has a row per kind, and js/goals.js and js/posteriors.js have the same rows. For a posterior without a row
the page still runs the policy, and says that it does not show q.
"""

import base64
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from vgcrl.errors import UsageError
from vgcrl.objective.distributions import VonMisesFisher
from vgcrl.objective.goals import Box, Discrete, GoalSpace, Normals, Sphere, TanhBox, Visited
from vgcrl.objective.networks import MLP
from vgcrl.objective.pictures import Network
from vgcrl.objective.posteriors.base import Standardiser
from vgcrl.objective.posteriors.categorical import Classifier
from vgcrl.objective.posteriors.displacement import Displacement
from vgcrl.objective.posteriors.dynamics import SkillDynamics
from vgcrl.objective.posteriors.floored import Floored, FlooredGaussian
from vgcrl.objective.posteriors.gaussian import LOG_STD_RANGE, Constant, Gaussian, Given, Identity, Matrix
from vgcrl.objective.posteriors.mixture import GaussianMixture
from vgcrl.objective.posteriors.nonparametric import SCALE, Similarity
from vgcrl.objective.posteriors.vmf import Directional

Data = dict[str, Any]


def tensor(x: Any) -> Data:
    """Returns an array of any shape as data: its shape, and its float32 values in base64."""
    values = np.asarray(x, "<f4")
    return {"shape": list(values.shape), "f32": base64.b64encode(values.tobytes()).decode()}


def layer(x: Any) -> Data:
    """Returns a linear layer as data: its bias, and its weight after the bound on its norm, if it has one."""
    return {"weight": tensor(x.effective()), "bias": tensor(x.bias)}


def mlp(x: Network) -> list[Data]:
    if not isinstance(x, MLP):
        raise UsageError("no page can show a policy that sees pictures; valid: --encoder mlp, or `vgcrl film`")
    return [layer(each) for each in x.layers]


def _gaussian(q: Gaussian) -> Data:
    def mean() -> Data:
        if isinstance(q.mean, Identity):
            return {"kind": "identity"}
        if isinstance(q.mean, Matrix):
            return {"kind": "matrix", "weight": tensor(q.mean.matrix())}
        return {"kind": "head", **layer(q.mean)}

    constant = isinstance(q.scale, (Constant, Given))
    scale = {"constant": tensor(q.scale.value)} if constant else {"head": layer(q.scale.layer)}
    trunk = [] if isinstance(q.trunk, Identity) else mlp(q.trunk.mlp)
    return {"trunk": trunk, "mean": mean(), "scale": scale, "full": q.full, "robust": q.robust, "clip": LOG_STD_RANGE}


def _mixture(q: GaussianMixture) -> Data:
    heads = {"weights": layer(q.weights), "mean": layer(q.mean), "log_std": layer(q.log_std)}
    return {"trunk": mlp(q.trunk.mlp), **heads, "components": q.components, "clip": LOG_STD_RANGE}


def _directional(q: Directional) -> Data:
    net = mlp(q.direction)
    (dim,) = net[-1]["bias"]["shape"]
    log_norm, length, _ = VonMisesFisher(jnp.zeros(dim), q.kappa)._constants()
    return {"net": net, "kappa": q.kappa, "log_norm": log_norm, "length": length}


def _dynamics(q: SkillDynamics) -> Data:
    return {"model": _mixture(q.model), "scale": tensor(q.scale), "skills": q.skills}


def _similarity(q: Similarity) -> Data | None:
    """Returns the network and its decoys as data, or None where it sees pictures, which the page does not show."""
    return {"net": mlp(q.net), "decoys": tensor(q.decoys), "scale": SCALE} if isinstance(q.net, MLP) else None


POSTERIORS: dict[type, tuple[str, Callable[[Any], Data | None]]] = {
    Classifier: ("categorical", lambda q: {"net": mlp(q.logits)}),
    Gaussian: ("gaussian", _gaussian),
    FlooredGaussian: ("floored", lambda q: {"near": _gaussian(q.near), "share": Floored.share}),
    GaussianMixture: ("mixture", _mixture),
    Directional: ("vmf", _directional),
    SkillDynamics: ("dynamics", _dynamics),
    Similarity: ("similarity", _similarity),
    Displacement: ("displacement", lambda q: {"net": mlp(q.phi), "categories": q.categories}),
}

GOALS: dict[type, tuple[str, Callable[[Any], Data]]] = {
    Discrete: ("discrete", lambda z: {"size": z.size}),
    Box: ("box", lambda z: {"low": z.low, "high": z.high}),
    TanhBox: ("tanh-box", lambda z: {}),
    Sphere: ("sphere", lambda z: {}),
    Normals: ("normals", lambda z: {}),
    Visited: ("visited", lambda z: {"memory": tensor(z.memory)}),
}


def posterior(q: Any) -> Data | None:
    """Returns q as data, or None where POSTERIORS has no row for its kind."""
    kind, describe = POSTERIORS.get(type(q), ("", lambda q: None))
    data = describe(q)
    return data and {"kind": kind, **data}


def standardiser(x: Standardiser | None) -> list[Data] | None:
    """Returns the mean and the spread by which q standardises its features, or None where it sees them raw."""
    if x is None:
        return None
    return [tensor(x.mean), tensor(x.spread)]


def goal_space(goals: GoalSpace) -> Data:
    if type(goals) not in GOALS:
        names = ", ".join(kind.__name__ for kind in GOALS)
        raise UsageError(f"no page can show goals of {type(goals).__name__}; valid: {names}, or `vgcrl film`")
    kind, describe = GOALS[type(goals)]
    return {"kind": kind, "dim": goals.dim, "entropy": goals.entropy, **describe(goals)}
