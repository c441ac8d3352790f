"""Run folders with a policy of random weights: nothing is trained or compiled, so that tests of pages are quick."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from vgcrl.objective.networks import Spectral
from vgcrl.objective.types import key_of_seed
from vgcrl.training import policy_file
from vgcrl.training.host_program import compile_config
from vgcrl.training.options import Options
from vgcrl.training.program import policy
from vgcrl.training.resolve import resolve
from vgcrl.training.run_folder import write_config

SIZES: dict[str, Any] = {"steps": 640, "envs": 2, "hidden": (16, 16), "batch": 16, "replay": 5000, "seeds": 2}


def random_policies(method: str, **options: Any) -> tuple[Any, Any]:
    """A program, and what acting and q need of its runs."""
    config = resolve(Options(method, **{**SIZES, **options}))
    random = np.random.default_rng(0)

    def fill(x: Any) -> Any:
        if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
            return jax.vmap(key_of_seed)(np.arange(x.shape[0]))
        return (random.standard_normal(x.shape) / max(1, *x.shape[-1:]) ** 0.5).astype(x.dtype)

    program = compile_config(config)
    runs = jax.tree.map(fill, policy(config, program.shapes()))
    off = jax.tree.map(bounds_off, runs.learner.q, is_leaf=lambda x: isinstance(x, Spectral))
    return program, runs._replace(learner=runs.learner._replace(q=off))


def bounds_off(x: Any) -> Any:
    """Of a layer in a program whose settings are not all bounded."""
    off = np.full_like(x.bound, np.inf) if isinstance(x, Spectral) else None
    return x if off is None else eqx.tree_at(lambda layer: layer.bound, x, off)


def untrained(folder: Path, method: str, **options: Any) -> Path:
    """As `vgcrl train METHOD ...` leaves a folder that was copied without its checkpoints."""
    program, runs = random_policies(method, **options)
    config = program.config
    folder.mkdir(parents=True, exist_ok=True)
    write_config(folder, config)
    counters = {"step": config.steps, "iteration": 1, "wall": 0.0}
    policy_file.save(folder, config.steps, runs, counters, config=config.to_json())
    return folder
