"""Combinations that a search tries: the file of them, a line for each in their order, and what a node does for one.

Sent to the nodes by value, as worker.py.
"""

import json
import math
from pathlib import Path
from typing import Any

from vgcrl.experiments.scheduling.worker import Order, run

TRIALS = "trials.jsonl"
Values = dict[str, Any]  # option -> a number, or a value as on the command line


def tried(folder: Path) -> list[Values]:
    path = folder / TRIALS
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def write_down(folder: Path, values: Values) -> None:
    """Once."""
    if rounded(values) not in tried(folder):
        with (folder / TRIALS).open("a") as file:
            file.write(json.dumps(rounded(values)) + "\n")


def rounded(values: Values) -> Values:
    """Numbers as a person would give them."""
    return {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in values.items()}


def trial_name(values: Values) -> str:
    """Of its program."""
    return "-".join(f"{k.replace('_', '-')}={v}" for k, v in rounded(values).items()).replace("/", "_")


def trial(values: Values, order: Order, metric: str, board: Any) -> None:
    """A program whose evaluations are reported to Ray Tune, also those from before it was stopped."""
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
            if line["mean"][metric] is not None:  # as of one that has diverged
                found = True
                tune.report({metric: line["mean"][metric], "step": line["step"]})

    state, why = run(order._replace(name=name, words=(*order.words, *flags, "--program", name)), board, report)
    if state == "failed" or not found:
        tune.report({metric: math.nan, "fault": why or f"no evaluation has a number for {metric}"})
