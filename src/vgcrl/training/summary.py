"""The record of one evaluation: a row per run, and mean and interval over the seeds of each setting."""

import platform
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np

from vgcrl.envs import cores
from vgcrl.envs.goal_envs import OWN_SUCCESS
from vgcrl.measure.metrics import MOVING
from vgcrl.measure.places import PLACES, arrivals, coverage
from vgcrl.measure.statistics import interval
from vgcrl.objective.types import EnvSpec
from vgcrl.training.program import Program
from vgcrl.version import VERSION

SUMMARISED = ("F", "log_q", "lgr_z", "lgr_z_steps", "lgr_s", *MOVING, *PLACES, *OWN_SUCCESS)


def measurable(spec: EnvSpec) -> tuple[str, ...]:
    """Returns the metrics in SUMMARISED that an environment has; the others are null."""
    without = (*(() if spec.velocity else MOVING), *(() if spec.place else PLACES), *(() if spec.goal else OWN_SUCCESS))
    return tuple(name for name in SUMMARISED if name not in without)


def hardware() -> str:
    count, kind = jax.device_count(), jax.devices()[0].device_kind
    several = f"{count} × " if count > 1 else ""
    return f"{several}{kind} ({platform.machine()}, {jax.default_backend()}), {cores()} cores"


def versions() -> dict[str, str]:
    return {"vgcrl": VERSION, "jax": jax.__version__, "python": platform.python_version()}


def _places(out: dict[str, Any]) -> list[dict[str, float]]:
    """Remove the paths from `out`, and return coverage and arrivals of every run; nothing if places are not known."""
    if "path" not in out:
        return []
    paths, asked = out.pop("path"), out.pop("asked")
    own = paths.shape[2] - asked.shape[1]
    return [
        {"coverage": coverage(path[:, :own]), **arrivals(path[:, own:], aims)}
        for path, aims in zip(paths, asked, strict=True)
    ]


def _projection_seen(program: Program, projection: list[list[float]]) -> np.ndarray:
    """Returns the matrix from the state to the features that q sees, without the parts of the state that it does not
    see; W projects positions and velocities alike."""
    seen = np.kron(np.eye(2), projection)[list(program.config.feature_indices(program.spec))]
    return seen[:, seen.any(axis=0)]


def summarise(program: Program, out: dict[str, Any]) -> dict[str, Any]:
    """Returns the record of an evaluation from `out`, its metrics (run, ...): a row per run, and mean and 95 % interval
    over the seeds of each setting."""
    config = program.config
    seeds = range(config.seed, config.seed + config.seeds)
    rows, paths = [], _places(out)
    for r, (setting, seed) in enumerate((setting, seed) for setting in config.settings for seed in seeds):
        row = jax.tree.map(lambda x, r=r: np.asarray(x[r], np.float64).tolist(), out)
        row |= {} if program.spec.velocity else dict.fromkeys(MOVING)
        row |= paths[r] if paths else dict.fromkeys(PLACES)
        row = dict.fromkeys(OWN_SUCCESS) | row
        native = row["posterior"] and config.native
        facts = config.build_env(SimpleNamespace(**setting)).spec.facts if native else {}
        row["posterior"] |= facts
        if "A" in row["posterior"] and "projection" in facts:
            product = np.array(row["posterior"]["A"]) @ _projection_seen(program, facts["projection"])
            row["posterior"]["singular_values"] = np.linalg.svd(product, compute_uv=False).tolist()
        rows.append({"seed": seed, **{k: setting[k] for k in config.swept}, **row})

    def over(rows: list[dict[str, Any]]) -> dict[str, Any]:
        columns = {k: [row[k] for row in rows] for k in SUMMARISED}
        known = {k: None not in v for k, v in columns.items()}
        return {
            "mean": {k: float(np.mean(v)) if known[k] else None for k, v in columns.items()},
            "ci95": {k: interval(v) if known[k] else None for k, v in columns.items()},
        }

    record = {"seeds": rows, **over(rows)}
    if config.swept:
        record["ci95"] = dict.fromkeys(SUMMARISED)  # runs of different settings are not one sample
        groups = [rows[i : i + config.seeds] for i in range(0, len(rows), config.seeds)]
        record["settings"] = [{**{k: g[0][k] for k in config.swept}, **over(g)} for g in groups]
    return record
