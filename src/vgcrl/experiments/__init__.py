"""The registry of experiments, and the one command that runs them."""

from pathlib import Path

from vgcrl.experiments import (
    base,
    continuous,
    discrete,
    factors,
    grid,
    methods,
    projection,
    skills,
    spectral,
    termination,
    windy,
)
from vgcrl.experiments.base import Ending, Experiment, Request
from vgcrl.experiments.grid import Grid
from vgcrl.experiments.scheduling import Executor, Say, here

EXPERIMENTS: dict[str, Experiment | Grid] = {
    "windy": windy.EXPERIMENT,
    "projection": projection.EXPERIMENT,
    "spectral": spectral.EXPERIMENT,
    "methods": methods.EXPERIMENT,
    "termination": termination.EXPERIMENT,
    "skills": skills.EXPERIMENT,
    "factors": factors.EXPERIMENT,
    "discrete": discrete.GRID,
    "continuous": continuous.GRID,
}


def reproduce(name: str, out: Path, ask: Request, command: str, say: Say, execute: Executor = here) -> Ending:
    """Trains the missing programs of an experiment or a grid, compares them with the paper, and writes the report."""
    experiment, folder = EXPERIMENTS[name], out / (f"{name}-quick" if ask.quick else name)
    if isinstance(experiment, Grid):
        return grid.reproduce(name, experiment, folder, ask, command, say, execute)
    return base.reproduce(name, experiment, folder, ask, command, say, execute)


__all__ = ["EXPERIMENTS", "Request", "reproduce"]
