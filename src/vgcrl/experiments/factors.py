"""What makes METRA's half-cheetah run, one factor at a time; and whether the scale of what q sees makes others move."""

from pathlib import Path
from typing import Any

import numpy as np

from vgcrl.experiments.base import Claim, Experiment, Outcome, judge, last_rows
from vgcrl.show.tables import Table, with_interval
from vgcrl.training import logs, run_folder
from vgcrl.training.options import Options

POSES = ("diayn", "vgcrl", "visr", "discern", "lingcrl")  # methods whose q sees features as they are
# Changes of METRA as it is, and what each is expected to do to the cells covered.
CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "metra-raw": ({"posterior_features": "raw"}, "fewer with raw features"),
    "metra-alpha-1": ({"initial_alpha": 1.0}, "fewer where α starts at 1, not at 0.01"),
    "metra-rate-3e-4": ({"learning_rate": (3e-4,)}, "more at a learning rate of 3e-4, not 1e-4"),
    "metra-discrete": ({"method": "metra-discrete"}, "more with 16 categories, not directions in the plane"),
}
COLUMNS = {"coverage": "cells covered", "spread_v": "spread of velocity, m/s", "F": "F", "lgr_z": "LGR(z)"}


def runs(quick: bool) -> dict[str, Options]:
    """As HalfCheetah in the comparison of skills. Quick: METRA with scaled and with raw features, and sooner."""
    usual = Options("metra", "HalfCheetah", positions=True, horizon=200, learning_rate=(1e-4,), updates_per_step=1 / 32)
    usual |= {"envs": 128, "evaluate_episodes": 48}
    if quick:
        small = usual | {"seeds": 1, "steps": 1_000_000, "evaluate_every": 250_000, "learning_rate": (3e-4,)}
        return {"metra": small, "metra-raw": small | CHANGES["metra-raw"][0]}
    whole = usual | {"seeds": 3, "steps": 3_000_000, "evaluate_every": 750_000}
    changed = {name: whole | change for name, (change, _) in CHANGES.items()}
    seen = {"": "raw", "-standard": "standard"}
    others = {
        name + end: whole | {"method": name, "posterior_features": features}
        for name in POSES
        for end, features in seen.items()
    }
    return {"metra": whole} | changed | others


def covered(run: Path) -> np.ndarray:
    return np.array([row["coverage"] for row in last_rows(run)])


def row(name: str, run: Path) -> list[str]:
    last, config = logs.read_lines(run / "metrics.jsonl")[-1], run_folder.read_config(run)
    each = ", ".join(f"{x:.0f}" for x in covered(run))
    return [name, *(with_interval(last["mean"][k], last["ci95"][k]) for k in COLUMNS), each, config.engine]


def claims(found: dict[str, Path]) -> list[Claim]:
    """By the difference in cells covered, seed by seed."""

    def gain(name: str, base: str) -> np.ndarray:
        return covered(found[name]) - covered(found[base])

    out = []
    for name, (_, expected) in CHANGES.items():
        if name in found:
            verdict = judge(gain(name, "metra"), least=0, full=0, higher=expected.startswith("more"))
            out.append(Claim(f"METRA covers {expected}", *verdict))
    for name in POSES:
        if name in found:
            verdict = judge(gain(f"{name}-standard", name), least=0, full=0)
            out.append(Claim(f"{name} covers more where q sees scaled features", *verdict))
    return out


def compare(found: dict[str, Path]) -> Outcome:
    steps = run_folder.read_config(found["metra"]).steps
    table = Table(
        ["program", *COLUMNS.values(), "each seed covers", "simulator"], [row(*item) for item in found.items()]
    )
    return Outcome(claims(found), {f"HalfCheetah, {steps:,} steps": table}, {})


EXPERIMENT = Experiment(
    "What makes skills move",
    "METRA runs where φ sees features in units of their spread; other methods pose, whatever the scale of what q sees.",
    runs,
    compare,
    logs=True,
)
