"""What a grid will take: memory from the shapes of its programs, time from speeds that programs like them had."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import jax

from vgcrl.experiments.cells import Cell, Job, run_path
from vgcrl.show.tables import Table, counted
from vgcrl.training import logs, run_folder, summary
from vgcrl.training.config import Config
from vgcrl.training.host_program import compile_config
from vgcrl.training.resolve import resolve

ALIKE = ("env", "envs", "updates_per_step", "hidden", "batch", "horizon")  # where these agree, speeds compare

COLUMNS = ["program", "rows", "runs", "steps", "memory", "time left", "state"]


class Estimate(NamedTuple):
    job: Job
    state: str  # done, to do, or how far it is
    size: int  # environment steps of all its runs
    memory: float | None  # bytes, where it is still to be trained
    seconds: float | None  # that are left; None where no program like it has been timed


def alike(config: Config, cell: Cell) -> bool:
    ours = [getattr(config, name) for name in ALIKE]
    theirs = [tuple(x) if isinstance(x, list) else x for x in (cell["config"][name] for name in ALIKE)]
    return ours == theirs and cell["hardware"] == summary.hardware()


def seconds(config: Config, cells: list[Cell], run: Path) -> float | None:
    """Returns the seconds that a whole program takes, or None where no program like it has been timed.

    Its speed is its own so far, else that of the finished program like it with the nearest number of runs.
    """
    lines = logs.read_lines(run / "metrics.jsonl")
    if lines and lines[-1]["step"]:
        return lines[-1]["wall"] * config.steps / lines[-1]["step"]
    runs, same = config.runs, [cell for cell in cells if alike(config, cell)]
    if not same:
        return None
    nearest = min(same, key=lambda cell: abs(cell["runs"] - runs))
    return nearest["wall_seconds"] * runs * config.steps / (nearest["runs"] * nearest["steps"])


def memory(config: Config) -> float:
    """Returns the bytes that the state of all runs takes; a checkpoint is about as large."""
    return float(sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(compile_config(config).shapes())))


def estimate(job: Job, folder: Path, cells: dict[str, Cell], sizes: bool = True) -> Estimate:
    if job.name in cells:
        return Estimate(job, "done", cells[job.name]["runs"] * cells[job.name]["steps"], None, 0.0)
    run = run_path(folder, job)
    config = run_folder.read_config(run) if run_folder.is_started(run) else resolve(job.options)
    done = min(1.0, run_folder.steps_done(run) / config.steps)
    whole = seconds(config, list(cells.values()), run)
    state = f"{100 * done:.0f} %" if run_folder.is_started(run) else "to do"
    left = whole if whole is None else (1 - done) * whole
    return Estimate(job, state, config.runs * config.steps, memory(config) if sizes and done < 1 else None, left)


def work(estimates: list[Estimate]) -> list[float]:
    """Returns the work of each program, by which to start the longest first: seconds if all are known, else steps."""
    if all(e.seconds is not None for e in estimates):
        return [e.seconds or 0.0 for e in estimates]
    return [float(e.size) for e in estimates]


def left(estimates: Iterable[Estimate]) -> str:
    every = [e.seconds for e in estimates]
    known = [seconds for seconds in every if seconds is not None]
    more = f", and {counted(len(every) - len(known), 'program')} of unknown speed" if len(known) < len(every) else ""
    return f"about {duration(sum(known))} left{more}" if sum(known) or not more else "time left not known yet"


def duration(seconds: float) -> str:
    units = (("min", 60, 100), ("h", 3600, 100))  # name, seconds, and up to how many it is used
    found = (f"{seconds / size:.1f} {unit}" for unit, size, most in units if seconds < size * most)
    return next(found, f"{seconds / 86400:.0f} days")


def row(e: Estimate, cells: dict[str, Cell]) -> list[str]:
    cell: dict[str, Any] = cells.get(e.job.name, {})
    options = e.job.options
    steps, seeds = cell.get("steps", options["steps"]), len(cell.get("seeds", ())) or options["seeds"]
    size = "–" if e.memory is None else f"{e.memory / 2**30:.2f} GiB"
    left = "–" if e.state == "done" else "?" if e.seconds is None else duration(e.seconds)
    return [e.job.name, str(len(e.job.rows)), str(len(e.job.rows) * seeds), f"{steps:,}", size, left, e.state]


def table(estimates: list[Estimate], cells: dict[str, Cell]) -> Table:
    return Table(COLUMNS, [row(e, cells) for e in estimates])


def total(estimates: list[Estimate]) -> str:
    rows, done = sum(len(e.job.rows) for e in estimates), sum(e.state == "done" for e in estimates)
    largest = max((e.memory or 0.0 for e in estimates), default=0.0) / 2**30
    size = f"{counted(len(estimates), 'program')}, {counted(rows, 'row')}, {counted(done, 'program')} done"
    return f"{size}; largest {largest:.2f} GiB; {left(estimates)} on {summary.hardware()}"
