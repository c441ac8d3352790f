"""Compares programs with the paper: every published row, and the claims by paired seeds."""

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from vgcrl.experiments.cells import STEPS, Cell, Job, Row
from vgcrl.experiments.drawings import curves, scatter
from vgcrl.experiments.entries import COLUMNS, TECHNIQUES, Entry, entries, is_finished, of_bodies, technique
from vgcrl.experiments.program_tables import BEHIND
from vgcrl.experiments.result_folder import Outcome
from vgcrl.experiments.verdicts import AGAINST, HOLDS, NOT_TESTED, Claim, judge
from vgcrl.measure.statistics import interval, mean_over_rows
from vgcrl.show.figures import LABELS
from vgcrl.show.tables import Table, counted, least_to_most, with_interval

BETTER, EQUAL, WORSE, UNJUDGED, NOT_RUN = "better", "equal", "worse", "not judged", "not run"
SIGNS = {BETTER: " ▲", EQUAL: " =", WORSE: " ▼", UNJUDGED: "", NOT_RUN: ""}
OURS = ("F_replay", "spread_v", "spread_x")  # what the paper does not have
LEVELS = (
    "The paper's target states are not published, so levels of LGR_v and LGR(s) do not compare with its own: LGR(s) is "
    "not judged in any row; LGR_v is, but never in favour of skills that stand still."
)
STILL = "whose skills stand still though the paper's value is higher"
NOISE = (
    "Intervals of verdicts are over seeds: the rows named share them, so their mean is taken for each seed first, and "
    "Student's interval is that of these means."
)


class PairedClaim(NamedTuple):
    """The claim that switching on a technique, or several at once, improves a metric in the rows chosen by `where`."""

    sentence: str
    knobs: tuple[str, ...]  # among p_her and sn
    where: Callable[[Row], bool]
    metric: str = "lgr_z"


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


def marked(entry: Entry, metric: str, higher: bool) -> str:
    """Returns how a row compares with the paper's in a metric.

    LGR(s) is never judged, since its level depends most on the targets. LGR_v is not judged on targets that are none or
    missed their velocity, nor better for skills that stand still.
    """
    if entry.cell and (metric == "lgr_s" or (metric == "lgr_v" and untargeted(entry))):
        return UNJUDGED
    up = higher_is_better(metric, higher)
    found = mark(entry.values(metric), entry.paper(metric), up, finest(entry, metric, higher))
    return UNJUDGED if found == BETTER and metric == "lgr_v" and stands_still(entry) else found


def untargeted(entry: Entry) -> str:
    """Returns why the targets of a row are not what the paper means by them; empty where they are."""
    if not entry.targets["count"]:
        return "without target states"
    missed = entry.targets["missed"] > 0.5
    return "whose targets are states of experts most of which missed their velocity" if missed else ""


def unjudged(entry: Entry) -> str:
    """Returns why the LGR_v of a row is not judged."""
    return untargeted(entry) or ("of one seed" if len(entry.seeds) == 1 else STILL)


def signs(rows: list[Entry], higher: bool) -> str:
    """Returns the legend of the signs beside numbers."""
    near = f" or, of LGR(z), at most one episode of {looked_at(rows)} from our mean" if higher else ""
    return f"▲ better, = the paper's value is inside our 95 % interval{near}, ▼ worse, no sign: not judged"


def signs_of_change(rows: list[Entry], higher: bool) -> str:
    near = f" or, of LGR(z), its mean is at most one episode of {looked_at(rows)}" if higher else ""
    return f"▲ for the better, = the 95 % interval of the difference includes 0{near}, ▼ for the worse"


def looked_at(rows: list[Entry]) -> str:
    """Returns the number of episodes per seed in the last evaluation, from the least to the most."""
    return least_to_most([e.cell["episodes"] for e in rows if e.cell])


def still(entry: Entry) -> float | None:
    """Returns LGR_v of a policy that stands still on the targets of a row, or None where there are none."""
    return entry.targets["still_lgr_v"] if entry.cell and entry.targets["count"] else None


def stands_still(entry: Entry) -> bool:
    """Returns whether the LGR_v of a row is above 0.9 of that of standing still."""
    level = still(entry)
    return level is not None and entry.values("lgr_v").mean() > 0.9 * level


def explained(entry: Entry) -> list[str]:
    """Returns LGR_v of standing still, and the share of it that a row explains: 1 where every velocity is reached."""
    level, found = still(entry), entry.values("lgr_v")
    if level is None or not len(found):
        return ["–", "–"]
    share = 1 - found / level
    return [f"{level:.3f}", with_interval(share.mean(), interval(share))]


def finest(entry: Entry, metric: str, higher: bool) -> float:
    """Returns how much one episode changes LGR(z) where that is an accuracy, else 0."""
    return 1 / entry.cell["episodes"] if entry.cell and metric == "lgr_z" and higher else 0.0


def higher_is_better(metric: str, higher_lgr_z: bool) -> bool:
    """Returns whether a higher metric is better; `higher_lgr_z`: whether a higher LGR(z) is."""
    return metric == "F" or (metric == "lgr_z" and higher_lgr_z)


def summary(rows: list[Entry], higher: bool) -> Table:
    """Returns a table of how many rows are better, equal, worse, not judged and not run in each metric."""
    kinds = (BETTER, EQUAL, WORSE, UNJUDGED, NOT_RUN)
    counts = {metric: Counter(marked(entry, metric, higher) for entry in rows) for metric in COLUMNS}
    return Table(["metric", *kinds], [[LABELS[m], *(str(c[kind]) for kind in kinds)] for m, c in counts.items()])


def beside(rows: list[Entry], higher: bool) -> Table:
    """Returns a table of all rows: our value with its sign beside the paper's, then what the paper does not have."""

    def ours(entry: Entry, metric: str) -> str:
        x = entry.values(metric)
        return with_interval(x.mean(), interval(x)) + SIGNS[marked(entry, metric, higher)] if len(x) else "–"

    heads, out = [""], [[f"|G| = {entry.row['goal_dim']}, {technique(entry.row)}"] for entry in rows]
    for metric, column in COLUMNS.items():
        level = ["of standing still", "share explained"] if metric == "lgr_v" else []
        heads += [LABELS[metric], "paper", *level]
        for line, entry in zip(out, rows, strict=True):
            line += [ours(entry, metric), entry.row.get(column, "–"), *(explained(entry) if level else ())]
    more = [m for m in OURS if any(len(entry.values(m)) for entry in rows)]
    for line, entry in zip(out, rows, strict=True):
        cell = entry.cell
        effort = f"{cell['steps']:,} × {len(cell['seeds'])}{so_far(cell)}" if cell else NOT_RUN
        line += [*(ours(entry, m) for m in more), effort]
    return Table([*heads, *(LABELS[m] for m in more), "steps × seeds"], out)


def so_far(cell: Cell) -> str:
    return "" if is_finished(cell) else ", unfinished"


def sizes_and_hardware(jobs: list[Job], cells: dict[str, Cell]) -> Table:
    """Returns a table of the sizes, the time, the engine, the hardware and the versions of each program."""
    rows = []
    for job in jobs:
        c = cells.get(job.name)
        if c is None:
            rows.append([job.name, str(len(job.rows)), NOT_RUN, *["–"] * 9])
            continue
        numbers = (
            f"{c['steps']:,}{so_far(c)}",
            len(c["seeds"]),
            c["envs"],
            f"{c['updates_per_step']:g}",
            c["episodes"],
        )
        numbers += (c["targets"]["count"], f"{c['wall_seconds'] / 60:.1f}", f"{c['minutes_per_row']:.1f}")
        rows.append([job.name, str(len(job.rows)), *map(str, numbers), engine(c), f"{where(c)}; {stack(c)}"])
    heads = ["program", "rows", "steps", "seeds", "environments", "updates per step", "episodes", "targets"]
    return Table([*heads, "minutes", "minutes per row", "engine", "hardware and versions"], rows)


def where(cell: Cell) -> str:
    """Returns the machine that trained a program, and that of its last evaluation if it was another."""
    trained = cell["hardware"]
    last = cell.get("measured_on", trained)
    return trained if last == trained else f"{trained}, measured on {last}"


def engine(cell: Cell) -> str:
    """Returns the simulator that trained a program, how, and that of its last evaluation if it was another."""
    trained = cell["config"]["engine"]
    last = cell.get("measured_by", trained)
    how = ", fast physics" * (cell["config"].get("physics") == "fast")
    how += ", episodes end with a fall" * bool(cell["config"].get("terminate"))
    return trained + how if last == trained else f"{trained}{how}, measured by {last}"


def stack(cell: Cell) -> str:
    """Returns the versions of the software that trained a program."""
    return ", ".join(f"{k} {v}" for k, v in cell["versions"].items()) or "versions not recorded"


def pairs(contrast: PairedClaim, rows: list[Entry]) -> list[tuple[Entry, Entry]]:
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

    run = [(on, off) for on, off in pairs(PairedClaim("", (knob,), lambda row: True), rows) if on.cell]
    out = [
        [f"{off.job.name}, {technique(off.row)}", *(x for m in ("lgr_z", "F") for x in change(on, off, m))]
        for on, off in run
    ]
    return Table(["", *(x for m in ("lgr_z", "F") for x in (f"change of {LABELS[m]}", "paper"))], out)


def verdict(contrast: PairedClaim, rows: list[Entry], higher: bool) -> Claim:
    """Judges a claim by the differences of paired seeds: it holds where their mean is at least half the paper's."""
    metric, both = contrast.metric, pairs(contrast, rows)
    up = higher_is_better(metric, higher)
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
    full = max(change, 0.0) / 2 if up else min(change, 0.0) / 2
    sentence = f"{contrast.sentence} [so far]" if any(a.unfinished for a, _ in both) else contrast.sentence
    found, mean, ci95 = judge(gains, least=0, full=full, higher=up)
    opposite = change < 0 if up else change > 0
    return Claim(sentence, AGAINST if found == HOLDS and opposite else found, mean, ci95, paper)


def knows(score: float, higher: bool) -> bool:
    """Returns whether an LGR(z) says that q knows nearly every goal at the state reached."""
    return score >= 0.9 if higher else score <= 0.05


def guesses(score: float, higher: bool) -> bool:
    """Returns whether an LGR(z) says that q knows next to no goal; for goals in [−1, 1] always answering 0 has 1/3."""
    return score <= 0.05 if higher else score >= 1 / 3


def movement(rows: list[Entry], higher: bool) -> Table:
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
        theirs = by_chance(each, higher)
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
    ]
    heads += ["rows in all", "median velocity spread, m/s", "of the targets", f"the paper's LGR_v where {unknown}"]
    return Table(heads, out)


def by_chance(rows: list[Entry], higher: bool) -> list[float]:
    """Returns the paper's LGR_v of rows in which its own q hardly knows the goal."""
    papers = ((e.paper("lgr_z"), e.paper("lgr_v")) for e in rows)
    return [v for z, v in papers if z is not None and v is not None and guesses(z, higher)]


def slower(rows: list[Entry], higher: bool) -> str:
    """Returns a sentence on bodies whose targets were probably slower in the paper; empty where there are none.

    There, rows of the paper whose q hardly knows the goal have less than half our LGR_v of standing still.
    """
    names = []
    for env, each in of_bodies(rows).items():
        levels, theirs = [level for e in each if (level := still(e)) is not None], by_chance(each, higher)
        if levels and theirs and np.median(theirs) < levels[0] / 2:
            names.append(env)
    reported = (
        f"{', '.join(names)}: where the paper's q hardly knows the goal, its LGR_v is still less than half that of "
        "standing still on our targets; so its targets were probably slower."
    )
    return reported if names else ""


def headline(rows: list[Entry], higher: bool) -> str:
    count = Counter(marked(entry, "lgr_v", higher) for entry in rows)
    judged = sum(count[kind] for kind in (BETTER, EQUAL, WORSE))
    why = Counter(unjudged(entry) for entry in rows if marked(entry, "lgr_v", higher) == UNJUDGED)
    reasons = "; ".join(f"{n} {reason}" for reason, n in why.items())
    left_out = f"{count[UNJUDGED]} not judged ({reasons}), " if why else ""
    return (
        f"LGR_v against the paper's in {judged} of {len(rows)} rows: {count[BETTER]} better, {count[EQUAL]} equal, "
        f"{count[WORSE]} worse; {left_out}{count[NOT_RUN]} not run. {LEVELS}"
    )


def extent(jobs: list[Job], cells: dict[str, Cell]) -> str:
    """Returns a sentence: how many programs, steps and seeds the numbers come from."""
    steps, seeds = ([f(cell) for cell in cells.values()] for f in (lambda c: c["steps"], lambda c: len(c["seeds"])))
    done = sum(map(is_finished, cells.values()))
    more = f" and {len(cells) - done} as far as they were trained" if done < len(cells) else ""
    return (
        f"{done} of {len(jobs)} programs finished{more}: {least_to_most(steps)} steps of the paper's {STEPS:,}, "
        f"{least_to_most(seeds)} seeds; the last table has each."
    )


def compare(jobs: list[Job], cells: dict[str, Cell], contrasts: tuple[PairedClaim, ...], higher: bool) -> Outcome:
    rows = entries(jobs, cells)
    table, aside = [e for e in rows if "aside" not in e.row], [e for e in rows if "aside" in e.row]
    bodies = of_bodies(table)
    tables = {"Rows against the paper": summary(table, higher), "Do skills move?": movement(table, higher)}
    tables |= {f"{env} beside the paper: {signs(rows, higher)}": beside(each, higher) for env, each in bodies.items()}
    figures = {}
    if any(e.cell for e in table):
        figures["Beside the paper"] = scatter(table, higher)
    for env, each in bodies.items():
        if any(e.cell for e in each):
            figures[f"Learning curves, {env}"] = curves(each)
    for title in dict.fromkeys(e.row["aside"] for e in aside):
        each = [e for e in aside if e.row["aside"] == title]
        tables[f"{title} ({each[0].job.name})"] = beside(each, higher)
        if any(e.cell for e in each):
            figures[title] = curves(each)
    for knob, name in TECHNIQUES.items():
        if any(knob in contrast.knobs for contrast in contrasts):
            title = f"What {name} changes, by paired seeds: {signs_of_change(rows, higher)}"
            tables[title] = changes(knob, rows, higher)
    tables[BEHIND] = sizes_and_hardware(jobs, cells)
    claims = [verdict(contrast, rows, higher) for contrast in contrasts]
    reported = (headline(table, higher), extent(jobs, cells), slower(table, higher), NOISE)
    finding = " ".join(filter(None, reported))
    return Outcome(claims, tables, figures, finding)
