"""Whether skills that q tells apart move, by LGR_v of standing still."""

import numpy as np

from vgcrl.experiments.entries import Entry, of_bodies
from vgcrl.measure.statistics import interval
from vgcrl.show.tables import Table, counted, least_to_most, with_interval


def lgr_v_of_standing_still(entry: Entry) -> float | None:
    """Returns LGR_v of a policy that stands still on the targets of a row, or None where there are none."""
    return entry.targets["still_lgr_v"] if entry.cell and entry.targets["count"] else None


def stands_still(entry: Entry) -> bool:
    """Returns whether the LGR_v of a row is above 0.9 of that of standing still."""
    level = lgr_v_of_standing_still(entry)
    return level is not None and entry.values("lgr_v").mean() > 0.9 * level


def share_explained(entry: Entry) -> list[str]:
    """Returns LGR_v of standing still, and the share of it that a row explains: 1 where every velocity is reached."""
    level, found = lgr_v_of_standing_still(entry), entry.values("lgr_v")
    if level is None or not len(found):
        return ["–", "–"]
    share = 1 - found / level
    return [f"{level:.3f}", with_interval(share.mean(), interval(share))]


def knows(score: float, higher: bool) -> bool:
    """Returns whether an LGR(z) says that q knows nearly every goal at the state reached."""
    return score >= 0.9 if higher else score <= 0.05


def guesses(score: float, higher: bool) -> bool:
    """Returns whether an LGR(z) says that q knows next to no goal; for goals in [−1, 1] always answering 0 has 1/3."""
    return score <= 0.05 if higher else score >= 1 / 3


def moving_skills(rows: list[Entry], higher: bool) -> Table:
    """Returns a table of whether skills that q tells apart move; poses have the LGR_v of standing still."""
    out = []
    for env, each in of_bodies(rows).items():
        run = [e for e in each if e.targets["count"]]
        if not run:
            continue
        levels, spreads = ([float(e.targets[k]) for e in run] for k in ("still_lgr_v", "spread_v"))  # rows may differ
        sure = [e for e in run if knows(e.values("lgr_z").mean(), higher)]
        idle = [e for e in sure if stands_still(e)]
        spread = np.median([e.values("spread_v").mean() for e in run])
        theirs = papers_lgr_v_by_chance(each, higher)
        reported = f"{least_to_most(theirs, '.3f')} in {counted(len(theirs), 'row')}" if theirs else "–"
        level, wanted = least_to_most(levels, ".3f"), least_to_most(spreads, ".2f")
        numbers = (level, len(sure), len(idle), len(run), f"{spread:.2f}", wanted, reported)
        out.append([env, *map(str, numbers)])
    known, unknown = ("LGR(z) ≥ 0.9", "LGR(z) ≤ 0.05") if higher else ("LGR(z) ≤ 0.05", "LGR(z) ≥ 1/3")
    heads = [
        "",
        "LGR_v of standing still",
        f"rows where q knows the goal, {known}",
        "of them less than a tenth below it",
        "rows in all",
        "median velocity spread, m/s",
        "of the targets",
        f"the paper's LGR_v where {unknown}",
    ]
    return Table(heads, out)


def papers_lgr_v_by_chance(rows: list[Entry], higher: bool) -> list[float]:
    """Returns the paper's LGR_v of rows in which its own q hardly knows the goal."""
    papers = ((e.paper("lgr_z"), e.paper("lgr_v")) for e in rows)
    return [v for z, v in papers if z is not None and v is not None and guesses(z, higher)]


def slower_targets(rows: list[Entry], higher: bool) -> str:
    """Returns a sentence on bodies whose targets were probably slower in the paper; empty where there are none.

    There, rows of the paper whose q hardly knows the goal have less than half our LGR_v of standing still.
    """
    names = []
    for env, each in of_bodies(rows).items():
        levels = [level for e in each if (level := lgr_v_of_standing_still(e)) is not None]
        theirs = papers_lgr_v_by_chance(each, higher)
        if levels and theirs and np.median(theirs) < levels[0] / 2:
            names.append(env)
    if not names:
        return ""
    return (
        f"{', '.join(names)}: where the paper's q hardly knows the goal, its LGR_v is still less than half that of "
        "standing still on our targets; so its targets were probably slower."
    )
