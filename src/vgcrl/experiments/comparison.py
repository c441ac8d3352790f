"""Every row of a grid beside the paper's."""

from collections import Counter

from vgcrl.experiments.cells import STEPS, Cell, Job
from vgcrl.experiments.drawings import curves, scatter
from vgcrl.experiments.entries import COLUMNS, TECHNIQUES, Entry, entries, is_finished, of_bodies, so_far, technique
from vgcrl.experiments.marks import (
    BETTER,
    EQUAL,
    NOT_RUN,
    SIGNS,
    UNJUDGED,
    WORSE,
    legend,
    legend_of_changes,
    mark_of_row,
    why_unjudged,
)
from vgcrl.experiments.movement import moving_skills, share_explained, slower_targets
from vgcrl.experiments.paired_claims import PairedClaim, changes, verdict
from vgcrl.experiments.program_tables import BEHIND, sizes_and_hardware
from vgcrl.experiments.result_folder import Outcome
from vgcrl.measure.statistics import interval
from vgcrl.show.figures import LABELS
from vgcrl.show.tables import Table, least_to_most, with_interval

OURS = ("F_replay", "spread_v", "spread_x")  # what the paper does not have
LEVELS = (
    "The paper's target states are not published, so levels of LGR_v and LGR(s) do not compare with its own: LGR(s) is "
    "not judged in any row; LGR_v is, but never in favour of skills that stand still."
)
NOISE = (
    "Intervals of verdicts are over seeds: the rows named share them, so their mean is taken for each seed first, and "
    "Student's interval is that of these means."
)


def counts_of_marks(rows: list[Entry], higher: bool) -> Table:
    """Returns a table of how many rows are better, equal, worse, not judged and not run in each metric."""
    kinds = (BETTER, EQUAL, WORSE, UNJUDGED, NOT_RUN)
    counts = {metric: Counter(mark_of_row(entry, metric, higher) for entry in rows) for metric in COLUMNS}
    return Table(["metric", *kinds], [[LABELS[m], *(str(c[kind]) for kind in kinds)] for m, c in counts.items()])


def rows_beside_paper(rows: list[Entry], higher: bool) -> Table:
    """Returns a table of all rows: our value with its sign beside the paper's, then what the paper does not have."""

    def ours(entry: Entry, metric: str) -> str:
        x = entry.values(metric)
        return with_interval(x.mean(), interval(x)) + SIGNS[mark_of_row(entry, metric, higher)] if len(x) else "–"

    heads, out = [""], [[f"|G| = {entry.row['goal_dim']}, {technique(entry.row)}"] for entry in rows]
    for metric, column in COLUMNS.items():
        level = ["of standing still", "share explained"] if metric == "lgr_v" else []
        heads += [LABELS[metric], "paper", *level]
        for line, entry in zip(out, rows, strict=True):
            line += [ours(entry, metric), entry.row.get(column, "–"), *(share_explained(entry) if level else ())]
    more = [m for m in OURS if any(len(entry.values(m)) for entry in rows)]
    for line, entry in zip(out, rows, strict=True):
        cell = entry.cell
        effort = f"{cell['steps']:,} × {len(cell['seeds'])}{so_far(cell)}" if cell else NOT_RUN
        line += [*(ours(entry, m) for m in more), effort]
    return Table([*heads, *(LABELS[m] for m in more), "steps × seeds"], out)


def headline(rows: list[Entry], higher: bool) -> str:
    count = Counter(mark_of_row(entry, "lgr_v", higher) for entry in rows)
    judged = sum(count[kind] for kind in (BETTER, EQUAL, WORSE))
    why = Counter(why_unjudged(entry) for entry in rows if mark_of_row(entry, "lgr_v", higher) == UNJUDGED)
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
    tables = {"Rows against the paper": counts_of_marks(table, higher), "Do skills move?": moving_skills(table, higher)}
    tables |= {
        f"{env} beside the paper: {legend(rows, higher)}": rows_beside_paper(each, higher)
        for env, each in bodies.items()
    }
    figures = {}
    if any(e.cell for e in table):
        figures["Beside the paper"] = scatter(table, higher)
    for env, each in bodies.items():
        if any(e.cell for e in each):
            figures[f"Learning curves, {env}"] = curves(each)
    for title in dict.fromkeys(e.row["aside"] for e in aside):
        each = [e for e in aside if e.row["aside"] == title]
        tables[f"{title} ({each[0].job.name})"] = rows_beside_paper(each, higher)
        if any(e.cell for e in each):
            figures[title] = curves(each)
    for knob, name in TECHNIQUES.items():
        if any(knob in contrast.knobs for contrast in contrasts):
            title = f"What {name} changes, by paired seeds: {legend_of_changes(rows, higher)}"
            tables[title] = changes(knob, rows, higher)
    tables[BEHIND] = sizes_and_hardware(jobs, cells)
    claims = [verdict(contrast, rows, higher) for contrast in contrasts]
    reported = (headline(table, higher), extent(jobs, cells), slower_targets(table, higher), NOISE)
    finding = " ".join(filter(None, reported))
    return Outcome(claims, tables, figures, finding)
