"""Whether a row of a grid is better than the paper's in a metric, as the sign beside its number."""

from typing import Any

import numpy as np

from vgcrl.experiments.entries import Entry
from vgcrl.experiments.movement import stands_still
from vgcrl.measure.statistics import interval
from vgcrl.show.tables import least_to_most

BETTER, EQUAL, WORSE, UNJUDGED, NOT_RUN = "better", "equal", "worse", "not judged", "not run"
SIGNS = {BETTER: " ▲", EQUAL: " =", WORSE: " ▼", UNJUDGED: "", NOT_RUN: ""}
STANDS_STILL = "whose skills stand still though the paper's value is higher"


def mark(values: Any, paper: float | None, higher: bool, finest: float = 0.0) -> str:
    """Returns how our values, one per seed, compare with the paper's: better, equal or worse, not judged, or not run.

    They are equal where the paper's value is inside our interval, and not judged where one seed has no interval. Seeds
    may agree to the last digit, so means that differ by at most `finest`, the smallest visible difference, are equal
    too. A run that diverged is worse.
    """
    if not np.isfinite(values).all():
        return WORSE
    ci = interval(values)
    if ci is None or paper is None:
        return UNJUDGED if len(values) else NOT_RUN
    if ci[0] <= paper <= ci[1] or abs(np.mean(values) - paper) <= finest * 1.001:
        return EQUAL
    return BETTER if (np.mean(values) > paper) == higher else WORSE


def mark_of_row(entry: Entry, metric: str, higher: bool) -> str:
    """Returns how a row compares with the paper's in a metric.

    LGR(s) is never judged, since its level depends most on the targets. LGR_v is not judged on targets that are none or
    missed their velocity, nor better for skills that stand still.
    """
    if entry.cell and (metric == "lgr_s" or (metric == "lgr_v" and why_untargeted(entry))):
        return UNJUDGED
    up = higher_is_better(metric, higher)
    found = mark(entry.values(metric), entry.paper(metric), up, finest(entry, metric, higher))
    return UNJUDGED if found == BETTER and metric == "lgr_v" and stands_still(entry) else found


def why_untargeted(entry: Entry) -> str:
    """Returns why the targets of a row are not what the paper means by them; empty where they are."""
    if not entry.targets["count"]:
        return "without target states"
    missed = entry.targets["missed"] > 0.5
    return "whose targets are states of experts most of which missed their velocity" if missed else ""


def why_unjudged(entry: Entry) -> str:
    """Returns why the LGR_v of a row is not judged."""
    return why_untargeted(entry) or ("of one seed" if len(entry.seeds) == 1 else STANDS_STILL)


def finest(entry: Entry, metric: str, higher: bool) -> float:
    """Returns how much one episode changes LGR(z) where that is an accuracy, else 0."""
    return 1 / entry.cell["episodes"] if entry.cell and metric == "lgr_z" and higher else 0.0


def higher_is_better(metric: str, higher_lgr_z: bool) -> bool:
    """Returns whether a higher metric is better; `higher_lgr_z`: whether a higher LGR(z) is."""
    return metric == "F" or (metric == "lgr_z" and higher_lgr_z)


def legend(rows: list[Entry], higher: bool) -> str:
    """Returns the legend of the signs beside numbers."""
    near = f" or, of LGR(z), at most one episode of {episodes_per_seed(rows)} from our mean" if higher else ""
    return f"▲ better, = the paper's value is inside our 95 % interval{near}, ▼ worse, no sign: not judged"


def legend_of_changes(rows: list[Entry], higher: bool) -> str:
    near = f" or, of LGR(z), its mean is at most one episode of {episodes_per_seed(rows)}" if higher else ""
    return f"▲ for the better, = the 95 % interval of the difference includes 0{near}, ▼ for the worse"


def episodes_per_seed(rows: list[Entry]) -> str:
    """Returns the number of episodes per seed in the last evaluation, from the least to the most."""
    return least_to_most([e.cell["episodes"] for e in rows if e.cell])
