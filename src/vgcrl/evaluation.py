"""A saved run measured again: more episodes, or a user's own target states."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vgcrl.errors import UsageError
from vgcrl.training import restore, summarise


def read_targets(path: Path | None, width: int) -> jax.Array | None:
    """Rows of observations from .npy, .json or .csv."""
    if path is None:
        return None
    readers: dict[str, Callable[[Path], Any]] = {
        ".npy": lambda p: np.load(p, allow_pickle=False),
        ".json": lambda p: json.loads(p.read_text()),
        ".csv": lambda p: [[float(x) for x in row] for row in csv.reader(p.read_text().splitlines())],
    }
    valid = f"a .npy, .json or .csv file of rows of {width} finite numbers"
    if path.suffix not in readers:
        raise UsageError(f"--targets {path} has an unknown ending; valid: {valid}")
    try:
        targets = np.atleast_2d(np.asarray(readers[path.suffix](path), np.float32))
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"--targets {path} cannot be read: {error}; valid: {valid}") from None
    if targets.ndim != 2 or targets.shape[1] != width or not len(targets) or not np.all(np.isfinite(targets)):
        raise UsageError(f"--targets {path} holds {targets.shape} values; valid: {valid}")
    return jnp.asarray(targets)


def evaluate_run(
    folder: Path,
    episodes: int | None,
    targets: Callable[[int], jax.Array | None],
    warn: Callable[[str], None],
) -> dict[str, Any]:
    """`targets` is given the width of an observation."""
    program, runs, counters = restore(folder, warn)
    wanted = targets(program.spec.obs_dim)
    out = jax.device_get(program.evaluate(runs, wanted, episodes=episodes or program.config.evaluate_episodes))
    del out["train"]
    head = {"method": program.config.method, "env": program.config.env, "steps": counters["step"]}
    return {**head, **summarise(program, out)}
