"""What a grid will take: memory from the shapes of its programs, time from speeds measured before."""

from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from vgcrl.envs import cores
from vgcrl.experiments.base import started
from vgcrl.experiments.cells import FULL_EVALUATION, Cell, Job, run_path
from vgcrl.show.tables import Table, counted
from vgcrl.training import run_folder, summary
from vgcrl.training.config import Config
from vgcrl.training.host_program import compile_config
from vgcrl.training.resolve import resolve

# Measured by `vgcrl bench` with batch 256 and networks of 256×256, all runs together.
GPU_UPDATES = {1: 11_000, 4: 31_000, 16: 50_000, 64: 57_000}  # per second, by runs; H200
CPU_UPDATES = 70  # per second; two Neoverse-N1 cores
CPU_CALL = 1.5e-3  # seconds an update of one run takes however small it is
SIMULATION = {"HalfCheetah": 22_000, "Ant": 1_600, "Humanoid": 1_600}  # steps per second and core
ITERATION = 2.5e-3  # seconds of a round of actions, updates and steps, however small; as seen on an H200
START = 40.0  # seconds that compiling takes; likewise
ALIKE = ("env", "envs", "updates_per_step", "hidden", "batch", "horizon")  # programs whose speeds compare


class Estimate(NamedTuple):
    job: Job
    state: str  # done, to do, or how far it is
    memory: float | None  # bytes, where it is to be trained
    seconds: float  # left
    measured: bool  # from a finished program, else assumed


def run_count(config: Config) -> int:
    return config.seeds * len(config.settings)


def assumed(config: Config) -> float:
    """Seconds that a program takes: the slower of learner and simulator, and what comes on top."""
    runs = run_count(config)
    steps = runs * config.steps
    if jax.default_backend() == "cpu":
        work = config.batch * np.prod(config.hidden) / 256**3
        learning = steps * config.updates_per_step * max(work / CPU_UPDATES, CPU_CALL)
    else:
        learning = steps * config.updates_per_step / np.interp(runs, list(GPU_UPDATES), list(GPU_UPDATES.values()))
    pace = SIMULATION.get(config.env, 1e6) * cores()
    iterations = config.steps / (config.envs * config.schedule[0])
    looks = (
        config.steps / config.evaluate_every * 2 * config.evaluate_episodes
        + FULL_EVALUATION.episodes
        + FULL_EVALUATION.targets
    )
    watching = runs * looks * config.horizon / pace
    return float(max(learning, steps / pace) + watching + iterations * ITERATION + START)


def alike(config: Config, cell: Cell) -> bool:
    ours = [getattr(config, name) for name in ALIKE]
    theirs = [tuple(x) if isinstance(x, list) else x for x in (cell["config"][name] for name in ALIKE)]
    return ours == theirs and cell["hardware"] == summary.hardware()


def seconds(config: Config, cells: list[Cell]) -> tuple[float, bool]:
    """At the speed of the finished program most like it in the number of runs, else at the one assumed."""
    runs = run_count(config)
    same = [cell for cell in cells if alike(config, cell)]
    if not same:
        return assumed(config), False
    nearest = min(same, key=lambda cell: abs(cell["runs"] - runs))
    return nearest["wall_seconds"] * runs * config.steps / (nearest["runs"] * nearest["steps"]), True


def memory(config: Config) -> float:
    """Of the state of all runs; a checkpoint is about as large."""
    return float(sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(compile_config(config).shapes())))


def estimate(job: Job, folder: Path, cells: dict[str, Cell], sizes: bool = True) -> Estimate:
    if job.name in cells:
        return Estimate(job, "done", None, 0.0, True)
    run = run_path(folder, job)
    config = run_folder.read_config(run) if started(run) else resolve(job.options)
    done = min(1.0, run_folder.steps_done(run) / config.steps)
    whole, measured = seconds(config, list(cells.values()))
    state = f"{100 * done:.0f} %" if started(run) else "to do"
    return Estimate(job, state, memory(config) if sizes else None, (1 - done) * whole, measured)


def duration(seconds: float) -> str:
    minutes = seconds / 60
    return (
        f"{minutes:.1f} min"
        if minutes < 100
        else f"{minutes / 60:.1f} h"
        if minutes < 6000
        else f"{minutes / 1440:.0f} days"
    )


def row(e: Estimate, cells: dict[str, Cell]) -> list[str]:
    cell: dict[str, Any] = cells.get(e.job.name, {})
    options = e.job.options
    steps, seeds = cell.get("steps", options["steps"]), len(cell.get("seeds", ())) or options["seeds"]
    size = "–" if e.memory is None else f"{e.memory / 2**30:.2f} GiB"
    left = "–" if e.state == "done" else duration(e.seconds) + ("" if e.measured else " *")
    return [e.job.name, str(len(e.job.rows)), str(len(e.job.rows) * seeds), f"{steps:,}", size, left, e.state]


def table(estimates: list[Estimate], cells: dict[str, Cell]) -> Table:
    return Table(
        ["program", "rows", "runs", "steps", "memory", "time left", "state"], [row(e, cells) for e in estimates]
    )


def total(estimates: list[Estimate]) -> str:
    rows, done = sum(len(e.job.rows) for e in estimates), sum(e.state == "done" for e in estimates)
    guess = " (* at speeds measured elsewhere)" if not all(e.measured for e in estimates) else ""
    largest = max((e.memory or 0.0 for e in estimates), default=0.0) / 2**30
    size = f"{counted(len(estimates), 'program')}, {counted(rows, 'row')}, {counted(done, 'program')} done"
    left = f"about {duration(sum(e.seconds for e in estimates))} left on {summary.hardware()}{guess}"
    return f"{size}; largest {largest:.2f} GiB; {left}"
