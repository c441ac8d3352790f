"""Combinations that a search tries: the file of them, a line for each in their order, and what a node does for one.

This module is sent to the nodes by value, as worker.py is.
"""

import json
import math
from pathlib import Path
from typing import Any

from vgcrl.errors import UsageError
from vgcrl.experiments.scheduling.worker import Order, run
from vgcrl.files import atomic_write

TRIALS = "trials.jsonl"
Values = dict[str, Any]  # option -> a number, or a value as on the command line


def tried(folder: Path, options: set[str] | None = None) -> list[Values]:
    """Returns the combinations tried, in their order; raises UsageError where one is not of `options`, if given."""
    path, out = folder / TRIALS, []
    for i, line in enumerate(path.read_bytes().splitlines() if path.exists() else []):
        try:
            out.append(values := json.loads(line))
        except ValueError:
            values = None
        if not isinstance(values, dict) or (options is not None and set(values) != options):
            raise UsageError(
                f"{path}: line {i + 1} is no trial; valid: the file as it was written, or without that line"
            )
    return out


def write_down(folder: Path, values: Values) -> None:
    """Adds a combination to the file, unless it is there."""
    before = tried(folder)
    if rounded(values) not in before:
        lines = [json.dumps(each) + "\n" for each in (*before, rounded(values))]
        atomic_write(folder / TRIALS, "".join(lines))


def rounded(values: Values) -> Values:
    """Returns the values with numbers of four digits, as a person would give them."""
    return {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in values.items()}


def trial_name(values: Values) -> str:
    """Returns the name of the program that trains these values."""
    return "-".join(f"{k.replace('_', '-')}={v}" for k, v in rounded(values).items()).replace("/", "_")


def trial(values: Values, order: Order, metric: str, board: Any) -> None:
    """Trains the program of a combination, and reports its evaluations, also earlier ones, to Ray Tune."""
    import ray
    from ray import tune

    reported, found, name = 0, False, trial_name(values)
    if not ray.get(board.claim.remote(name, tune.get_context().get_trial_id())):
        return  # another trial has the same values
    flags = [word for k, v in rounded(values).items() for word in (f"--{k.replace('_', '-')}", str(v))]

    def report(folder: Path) -> None:
        nonlocal reported, found
        path = folder / "runs" / name / "metrics.jsonl"
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        for line in map(json.loads, lines[reported:]):
            reported += 1
            if line["mean"][metric] is not None:  # None: the run has diverged
                found = True
                tune.report({metric: line["mean"][metric], "step": line["step"]})

    state, why = run(order._replace(name=name, words=(*order.words, *flags, "--program", name)), board, report)
    if state == "failed" or not found:
        tune.report({metric: math.nan, "fault": why or f"no evaluation has a number for {metric}"})
