"""The registry of environments: how each is built from its options, and the sizes that suit it."""

from collections.abc import Callable
from typing import Any, NamedTuple

from vgcrl.envs import pointmass, projection
from vgcrl.envs.base import Env, VecEnv, Vectorised, vectorise


class EnvRow(NamedTuple):
    build: Callable[..., Env]  # keywords: the options below
    options: dict[str, Any]  # option -> its default, which may depend on the other options
    describe: str
    sizes: dict[str, Any]  # defaults of the training configuration


SMALL: dict[str, Any] = {
    "steps": 60_000,
    "envs": 16,
    "hidden": (64, 64),
    "batch": 128,
    "learning_rate": (1e-3,),
    "replay": 10_000,
    "random_steps": 1_000,
    "updates_per_step": 0.125,
}

ENVS = {
    "pointmass": EnvRow(
        lambda dims: pointmass.pointmass(dims),
        {"dims": 2},
        "N-dimensional point mass, equal to MuJoCo's",
        {**SMALL, "replay": 20_000},
    ),
    "windy-pointmass": EnvRow(
        lambda dims, wind: pointmass.pointmass(dims, wind),
        {"dims": 2, "wind": lambda dims, **_: pointmass.paper_wind(dims)},
        "the same under random force U(-R_i, R_i) on dimension i",
        SMALL,
    ),
    "projected-pointmass": EnvRow(
        lambda dims, projection_dim, projection_seed: projection.project(
            pointmass.pointmass(dims), projection_dim, projection_seed
        ),
        {"dims": 2, "projection_dim": lambda dims, **_: dims, "projection_seed": (0,)},
        "the same observed through a random matrix W, o = W s",
        {**SMALL, "steps": 120_000},  # A takes longer to find than a policy
    ),
}

__all__ = ["ENVS", "Env", "EnvRow", "VecEnv", "Vectorised", "vectorise"]
