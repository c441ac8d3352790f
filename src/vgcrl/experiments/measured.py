"""What runs of experiments measured, read from their folders."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from vgcrl.show.figures import over_time
from vgcrl.training import logs, run_folder, trainer
from vgcrl.training.program import Program, RunState

ProgramFacts = dict[str, Any]  # what a result tells of a program: config, runs, steps, wall_seconds, hardware and more


def last_rows(run: Path) -> list[dict[str, Any]]:
    """Returns the last evaluation of each run."""
    return logs.read_lines(run / "metrics.jsonl")[-1]["seeds"]


def curve(run: Path, value: Callable[[dict[str, Any]], float]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the steps of all evaluations, and value(row) of every run at each, (evaluation, run)."""
    lines = logs.read_lines(run / "metrics.jsonl")
    return np.array([x["step"] for x in lines]), over_time(lines, value)


def restored(run: Path) -> tuple[Program, RunState]:
    """Returns the program of a run folder, and the states of all its runs."""
    program, runs, _ = trainer.restore(run, lambda text: None)
    return program, runs


def program_facts(run: Path) -> ProgramFacts:
    """Returns what a result tells of a run folder: configuration, sizes, time, hardware and last evaluation."""
    config, lines = run_folder.read_config(run), logs.read_lines(run / "metrics.jsonl")
    for row in lines[-1]["seeds"]:
        row.pop("train", None)
    return {
        "config": json.loads(config.to_json()),
        "runs": len(lines[-1]["seeds"]),
        "steps": lines[-1]["step"],
        "updates_per_step": config.updates_per_step,
        "wall_seconds": round(lines[-1]["wall"], 1),
        "hardware": lines[-1].get("hardware", "not recorded"),
        "last": lines[-1],
    }
