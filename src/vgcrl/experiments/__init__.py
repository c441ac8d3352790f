"""The registry of experiments, and the one command that runs them."""

from pathlib import Path

from vgcrl.experiments import (
    continuous,
    discrete,
    factors,
    methods,
    projection,
    skills,
    spectral,
    termination,
    windy,
)
from vgcrl.experiments.experiment import Ending, Experiment, reproduce_experiment
from vgcrl.experiments.grid import Grid, reproduce_grid
from vgcrl.experiments.request import Request
from vgcrl.experiments.scheduling import Executor, Say

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


def reproduce(name: str, out: Path, ask: Request, command: str, say: Say, execute: Executor) -> Ending:
    """Trains the missing programs of an experiment or a grid, compares them with the paper, and writes the report."""
    experiment, folder = EXPERIMENTS[name], out / (f"{name}-quick" if ask.quick else name)
    if isinstance(experiment, Grid):
        return reproduce_grid(name, experiment, folder, ask, command, say, execute)
    return reproduce_experiment(name, experiment, folder, ask, command, say, execute)
