"""What makes METRA's half-cheetah run, one factor at a time; and whether the scale of what q sees makes others move."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vgcrl.experiments import skills
from vgcrl.experiments.experiment import Experiment
from vgcrl.experiments.result_folder import Outcome
from vgcrl.experiments.skills import covered
from vgcrl.experiments.verdicts import Claim, judge
from vgcrl.show.tables import Table
from vgcrl.training import run_folder
from vgcrl.training.options import Options


class Change(NamedTuple):
    """A changed option of METRA, and whether METRA is expected to cover more cells with it, or fewer."""

    options: dict[str, Any]
    more: bool
    words: str


POSES = ("diayn", "vgcrl", "visr", "lingcrl")  # methods whose q sees features as they are
CHANGES = {
    "metra-raw": Change({"posterior_features": "raw"}, False, "with raw features"),
    "metra-alpha-1": Change({"initial_alpha": 1.0}, False, "where α starts at 1, not at 0.01"),
    "metra-rate-3e-4": Change({"learning_rate": (3e-4,)}, True, "at a learning rate of 3e-4, not 1e-4"),
    "metra-discrete": Change({"method": "metra-discrete"}, True, "with 16 categories, not directions in the plane"),
}
COLUMNS = {key: skills.COLUMNS[key] for key in ("coverage", "spread_v", "F", "lgr_z")}


def runs(quick: bool) -> dict[str, Options]:
    """Returns METRA on HalfCheetah as in the comparison of skills, its changes, and other methods on both features.

    Quick: METRA with scaled and with raw features.
    """
    usual = skills.runs(quick)["HalfCheetah-metra"]
    changed = {name: usual | change.options for name, change in CHANGES.items()}
    if quick:
        return {"metra": usual, "metra-raw": changed["metra-raw"]}
    seen = {"": "raw", "-standard": "standard"}
    others = {
        name + end: usual | {"method": name, "posterior_features": features}
        for name in POSES
        for end, features in seen.items()
    }
    return {"metra": usual} | changed | others


def row(name: str, run: Path) -> list[str]:
    measured, each = skills.measured(run, COLUMNS), ", ".join(f"{x:.0f}" for x in covered(run))
    return [name, *measured, each, run_folder.read_config(run).engine]


def claims(found: dict[str, Path]) -> list[Claim]:
    """Returns the claims, judged by the difference in cells covered, seed by seed."""

    def gain(name: str, base: str) -> np.ndarray:
        return covered(found[name]) - covered(found[base])

    out = []
    for name, change in CHANGES.items():
        if name in found:
            verdict = judge(gain(name, "metra"), least=0, full=0, higher=change.more)
            out.append(Claim(f"METRA covers {'more' if change.more else 'fewer'} {change.words}", *verdict))
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
    "METRA runs where φ sees features in units of their spread; other methods pose at any scale of the features.",
    runs,
    compare,
    logs=True,
)
