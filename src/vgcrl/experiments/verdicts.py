"""Verdicts on claims, computed from numbers of each seed with an interval; nothing is typed in."""

from typing import Any, NamedTuple

import numpy as np

from vgcrl.measure.statistics import interval
from vgcrl.show.tables import counted

HOLDS, WEAKER, FAILS = "holds", "weaker", "does not hold"
AGAINST = "holds, against the paper's table"  # the numbers of that table have the opposite sign
NOT_SHOWN, NOT_TESTED = "not shown", "not tested"
COUNTED = {  # verdict -> what is said of one claim, and of several
    HOLDS: ("holds", "hold"),
    AGAINST: ("holds against the paper's table", "hold against the paper's table"),
    WEAKER: ("is weaker", "are weaker"),
    NOT_SHOWN: ("is not shown", "are not shown"),
    FAILS: ("does not hold", "do not hold"),
    NOT_TESTED: ("is not tested", "are not tested"),
}


class Claim(NamedTuple):
    """A sentence, and what the runs say of it: verdict, mean and interval."""

    sentence: str
    verdict: str
    measured: float | None
    ci95: list[float] | None
    paper: str = "–"


def tally(verdicts: list[str]) -> str:
    """Returns a sentence that says how many claims hold, are weaker, and so on."""
    counts = [(verdicts.count(kind), words) for kind, words in COUNTED.items() if kind in verdicts]
    return f"{counted(len(verdicts), 'claim')}: {', '.join(f'{n} {words[n > 1]}' for n, words in counts)}."


def judge(values: Any, *, least: float, full: float, higher: bool = True) -> tuple[str, float, list[float] | None]:
    """Returns the verdict on a claim, the mean of `values`, one per seed, and its 95 % interval.

    A claim holds where the mean reaches `full` and the interval clears `least`; it is weaker where only the interval
    does. It does not hold where the interval lies on the wrong side of `least`; it is not shown where it is on both.
    """
    sign = 1 if higher else -1
    each = sign * np.asarray(values, float)
    mean, ci = float(each.mean()), interval(each)
    if ci is None or not np.isfinite(each).all():  # a single seed, or one that diverged
        return NOT_TESTED, sign * mean, None
    low, high = ci
    if low > sign * least:
        verdict = HOLDS if mean >= sign * full else WEAKER
    else:
        verdict = FAILS if high < sign * least else NOT_SHOWN
    return verdict, sign * mean, sorted((sign * low, sign * high))
