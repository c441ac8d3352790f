"""Claims that a technique improves LGR(z), judged by seeds paired with and without it."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from vgcrl.experiments.cells import Row
from vgcrl.experiments.entries import COLUMNS, TECHNIQUES, Entry, technique
from vgcrl.experiments.marks import NOT_RUN, SIGNS, UNJUDGED, finest, higher_is_better, mark
from vgcrl.experiments.verdicts import AGAINST, HOLDS, NOT_TESTED, Claim, judge
from vgcrl.measure.statistics import interval, mean_over_rows
from vgcrl.show.figures import LABELS
from vgcrl.show.tables import Table, with_interval


class PairedClaim(NamedTuple):
    """The claim that switching on a technique, or several at once, improves LGR(z) in the rows chosen by `where`."""

    sentence: str
    knobs: tuple[str, ...]  # among p_her and sn
    where: Callable[[Row], bool]


def paired_rows(contrast: PairedClaim, rows: list[Entry]) -> list[tuple[Entry, Entry]]:
    """Returns pairs of rows, with the techniques and without; both are in one program, so their seeds are paired."""

    def program_and_rest(entry: Entry) -> tuple[str, ...]:
        return entry.job.name, *(entry.row[knob] for knob in TECHNIQUES if knob not in contrast.knobs)

    def switched(to: str) -> list[Entry]:
        return [e for e in rows if all(e.row[knob] == to for knob in contrast.knobs)]

    off = {program_and_rest(e): e for e in switched("0")}
    on = [e for e in switched("1") if contrast.where(e.row)]
    return [(e, off[key]) for e in on if (key := program_and_rest(e)) in off]


def changes(knob: str, rows: list[Entry], higher: bool) -> Table:
    """Returns a table of what a technique changes in LGR(z) and F, with a line for each pair of rows."""

    def change(on: Entry, off: Entry, metric: str) -> list[str]:
        gain, paper = on.values(metric) - off.values(metric), (on.paper(metric), off.paper(metric))
        known = bool(np.isfinite(off.values(metric)).all())  # else the technique is compared with nothing
        up = higher_is_better(metric, higher)
        sign = SIGNS[mark(gain, 0.0, up, finest(on, metric, higher)) if known else UNJUDGED]
        theirs = "–" if paper[0] is None or paper[1] is None else f"{paper[0] - paper[1]:.3f}"
        return [with_interval(gain.mean(), interval(gain)) + sign, theirs]

    run = [(on, off) for on, off in paired_rows(PairedClaim("", (knob,), lambda row: True), rows) if on.cell]
    out = [
        [f"{off.job.name}, {technique(off.row)}", *(x for m in ("lgr_z", "F") for x in change(on, off, m))]
        for on, off in run
    ]
    return Table(["", *(x for m in ("lgr_z", "F") for x in (f"change of {LABELS[m]}", "paper"))], out)


def verdict(contrast: PairedClaim, rows: list[Entry], higher: bool) -> Claim:
    """Judges a claim by the differences of paired seeds: it holds where their mean is at least half the paper's."""
    both, metric = paired_rows(contrast, rows), "lgr_z"
    published = [float(a.row[COLUMNS[metric]]) - float(b.row[COLUMNS[metric]]) for a, b in both if a.published]
    change = float(np.mean(published)) if published else 0.0
    paper = f"{change:+.3f}" if published else "–"
    missing = sum(not len(a.values(metric)) for a, _ in both)
    if missing or not both:
        why = f"{missing} of {len(both)} pairs of rows {NOT_RUN}" if both else "not part of this run"
        return Claim(f"{contrast.sentence} [{why}]", NOT_TESTED, None, None, paper)
    gains = mean_over_rows([dict(zip(a.seeds, a.values(metric) - b.values(metric), strict=True)) for a, b in both])
    if not len(gains):
        return Claim(f"{contrast.sentence} [the rows have no seed in common]", NOT_TESTED, None, None, paper)
    full = max(change, 0.0) / 2 if higher else min(change, 0.0) / 2
    sentence = f"{contrast.sentence} [so far]" if any(a.unfinished for a, _ in both) else contrast.sentence
    found, mean, ci95 = judge(gains, least=0, full=full, higher=higher)
    opposite = change < 0 if higher else change > 0
    return Claim(sentence, AGAINST if found == HOLDS and opposite else found, mean, ci95, paper)
