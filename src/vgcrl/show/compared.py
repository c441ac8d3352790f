"""Several runs side by side: what they reached, whether they differ, and their learning curves in one picture."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from vgcrl.errors import UsageError
from vgcrl.measure.statistics import difference
from vgcrl.show.figures import draw_scale, over_time
from vgcrl.show.scales import Scale, scales
from vgcrl.show.subplots import mark_steps, subplots
from vgcrl.show.tables import LABELS, Table, with_interval
from vgcrl.training import option_groups, trainer
from vgcrl.training.fields import flag, spoken
from vgcrl.training.logs import read_lines
from vgcrl.training.program import Program, RunState

MOST_CURVES = 10  # colours that can be told apart
NOT_MEASURED = "engine", "envs", "workers", "alive_bonus"  # how it is run and trained in
ENVIRONMENT = [name for name in option_groups.GROUPS["environment"] if name not in NOT_MEASURED]
HEADS = ("steps", "seeds", "minutes")


class EvaluatedRun(NamedTuple):
    """A run folder that was evaluated at least once."""

    folder: Path
    program: Program
    runs: RunState
    counters: dict[str, Any]
    lines: list[dict[str, Any]]  # its evaluations


def read_run(folder: Path) -> EvaluatedRun:
    program, runs, counters = trainer.restore(folder, lambda text: None)
    lines = read_lines(folder / "metrics.jsonl", program.config.runs)
    if not lines:
        raise UsageError(
            f"{folder / 'metrics.jsonl'} holds no evaluation; valid: a run that was measured at least once"
        )
    return EvaluatedRun(folder, program, runs, counters, lines)


class Kind(NamedTuple):
    """Numbers that can be drawn on one axis: LGR(z) of skills is a share, of continuous goals an error."""

    metric: str
    label: str
    higher: bool  # whether higher is better


class Entry(NamedTuple):
    """A setting of a run folder; `known` has what was measured of the run."""

    name: str
    program: Program
    lines: list[dict[str, Any]]
    setting: int
    known: dict[str, Scale]

    def values(self, metric: str) -> np.ndarray:
        """Returns the numbers of the seeds at the last evaluation; NaN where a seed has none."""
        (last,) = over_time(self.lines[-1:], lambda row: row.get(metric, np.nan))
        return np.split(last, len(self.program.config.settings))[self.setting]

    def summary(self, line: dict[str, Any], metric: str) -> tuple[float | None, list[float] | None]:
        """Returns mean and interval at an evaluation; None where it has none, as those of older versions."""
        one = line.get("settings", [line])[self.setting]
        return one["mean"].get(metric), one["ci95"].get(metric)

    def kinds(self) -> list[Kind]:
        return [Kind(name, scale.label, scale.higher) for name, scale in self.known.items()]

    def scale(self, kind: Kind) -> Scale | None:
        return self.known[kind.metric] if kind in self.kinds() else None

    def environment(self) -> dict[str, Any]:
        """Returns the options of the environment that it was measured in."""
        config, usual = self.program.config, {"physics": "exact"}
        values = {name: getattr(config, name) or usual.get(name) for name in ENVIRONMENT}
        return {name: config.settings[self.setting].get(name, value) for name, value in values.items()}

    def measured(self, kind: Kind) -> tuple | None:
        """Returns what is the same for numbers that may be compared; None where there are none."""
        scale, goals = self.scale(kind), self.program.goals
        if scale is None:
            return None
        pursued = kind.metric in ("F", "lgr_z")  # other numbers are of targets, one for each episode, or of all paths
        of = (goals.dim, goals.entropy) if pursued else self.program.config.evaluate_episodes
        return self.environment(), scale.chance, scale.best, of


def names_of(folders: Sequence[Path]) -> list[str]:
    """Returns the names of folders, with as much of their paths as tells them apart."""
    names = [folder.resolve().name for folder in folders]
    if len(set(names)) == len(names):
        return names
    paths = [folder.resolve() for folder in folders]
    shared = os.path.commonpath([path.parent for path in paths])
    return [os.path.relpath(path, shared) for path in paths]


def entries_of(runs: Sequence[EvaluatedRun]) -> list[Entry]:
    found = []
    for name, run in zip(names_of([run.folder for run in runs]), runs, strict=True):
        rows = [row for line in run.lines for row in line["seeds"]]
        known = {k: x for k, x in scales(run.program).items() if any(row.get(k) is not None for row in rows)}
        for i, setting in enumerate(run.program.config.setting_names):
            found.append(Entry(", ".join(filter(None, (name, setting))), run.program, run.lines, i, known))
    return found


def kinds_of(entries: Sequence[Entry]) -> list[Kind]:
    """Returns what any entry has, in the order in which a reader wants it."""
    every = {kind for entry in entries for kind in entry.kinds()}
    return sorted(every, key=lambda kind: (list(LABELS).index(kind.metric), kind.label, not kind.higher))


def environments_differ(entries: Sequence[Entry]) -> list[str]:
    """Returns the options of the environment in which entries differ."""
    every = [entry.environment() for entry in entries]
    return [name for name in ENVIRONMENT if len({each[name] for each in every}) > 1]


def differing(runs: Sequence[EvaluatedRun], names: Sequence[str]) -> dict[str, list[str]]:
    """Returns those of the options `names` that differ between runs, with the value of each run: whole where that is
    needed to tell them apart."""
    found = {}
    for name in names:
        values = [getattr(run.program.config, name) for run in runs]
        if len(set(values)) > 1:
            briefly = [option_groups.brief(value) for value in values]
            found[name] = briefly if len(set(briefly)) == len(set(values)) else list(map(spoken, values))
    return found


def options(runs: Sequence[EvaluatedRun]) -> Table | None:
    """Returns a table with a row for each option that differs, or None where none does."""
    names = [name for group in option_groups.GROUPS.values() for name in group]
    rows = [[name if name == "method" else flag(name), *values] for name, values in differing(runs, names).items()]
    return Table(["", *names_of([run.folder for run in runs])], rows) if rows else None


def shared_levels(entries: Sequence[Entry], kind: Kind) -> Scale | None:
    """Returns a Scale with chance and best of all entries, or None where they differ."""
    found = [scale for entry in entries if (scale := entry.scale(kind))]
    return found[0] if len({(scale.chance, scale.best) for scale in found}) == 1 else None


def last_evaluations(entries: Sequence[Entry], kinds: Sequence[Kind]) -> Table:
    """Returns a row for each entry with its last evaluation."""

    def cell(entry: Entry, kind: Kind) -> str:
        return with_interval(*entry.summary(entry.lines[-1], kind.metric)) if entry.scale(kind) else "–"

    def row(entry: Entry) -> list[str]:
        last = entry.lines[-1]
        facts = f"{last['step']:,}", str(entry.program.config.seeds), f"{last['wall'] / 60:.1f}"
        return [entry.name, *(cell(entry, kind) for kind in kinds), *facts]

    first = "mean ± 95 % over seeds; ↑ higher, ↓ lower is better"
    return Table([first, *map(head, kinds), *HEADS], [row(entry) for entry in entries])


def levels(entries: Sequence[Entry], kinds: Sequence[Kind]) -> Table:
    """Returns chance and best: one row where they are the same for all entries, else a row for each."""

    def cell(scale: Scale | None) -> str:
        return " to ".join("?" if x is None else f"{x:.3g}" for x in (scale.chance, scale.best)) if scale else "–"

    shared = [shared_levels(entries, kind) for kind in kinds]
    rows = [["all", *map(cell, shared)]]
    if not all(shared):
        rows = [[entry.name, *(cell(entry.scale(kind)) for kind in kinds)] for entry in entries]
    return Table(["from chance to best; ?: not known", *map(head, kinds)], rows)


def head(kind: Kind) -> str:
    """Returns its label with an arrow that says which way is better."""
    return f"{kind.label}\N{NO-BREAK SPACE}{'↑' if kind.higher else '↓'}"


def differences(entries: Sequence[Entry], kinds: Sequence[Kind]) -> Table:
    """Returns by how much each entry differs from the first, where they may be compared."""
    first, *others = entries
    kinds = [kind for kind in kinds if first.scale(kind)]

    def cell(entry: Entry, kind: Kind) -> str:
        if entry.measured(kind) != first.measured(kind):
            return "–"
        mean, ci = difference(entry.values(kind.metric), first.values(kind.metric))
        if ci is None or ci[0] <= 0 <= ci[1]:
            return with_interval(mean, ci)
        return with_interval(mean, ci) + (" ▲" if (ci[0] > 0) == kind.higher else " ▼")

    rows = [[entry.name, *(cell(entry, kind) for kind in kinds)] for entry in others]
    return Table([f"difference from {first.name}", *map(head, kinds)], rows)


def curves(entries: Sequence[Entry], kinds: Sequence[Kind]) -> Figure:
    """Draws the mean over seeds of each entry over environment steps, in its colour, and its 95 % interval."""
    across = 2 if len(kinds) == 4 else min(3, len(kinds))
    down = -(-len(kinds) // across)
    figure, axes = subplots(down, across, figsize=(3.6 * across, 2.8 * down), squeeze=False)
    for axis, kind in zip(axes.flat, kinds, strict=False):
        for i, entry in enumerate(entries):
            if entry.scale(kind):
                draw_curve(axis, entry, kind.metric, f"C{i}")
        scale = shared_levels(entries, kind)
        if scale:
            draw_scale(axis, scale)
        mark_steps(axis)
        axis.set(title=head(kind), xlabel="environment steps")
        axis.grid(alpha=0.3)
    for axis in axes.flat[len(kinds) :]:
        axis.remove()
    return figure


def key(entries: Sequence[Entry]) -> list[tuple[str, str]]:
    """Returns the colour and the name of each curve: the page writes them, since a name may be any text."""
    return [(to_hex(f"C{i}"), entry.name) for i, entry in enumerate(entries)]


def draw_curve(axis: Any, entry: Entry, metric: str, colour: str) -> None:
    steps, each = [line["step"] for line in entry.lines], [entry.summary(line, metric) for line in entry.lines]
    mean = np.array([mean for mean, _ in each], float)
    low, high = np.array([ci or (None, None) for _, ci in each], float).T
    axis.plot(steps, mean, "-" if len(steps) > 1 else ".", color=colour)
    axis.fill_between(steps, low, high, color=colour, alpha=0.15, linewidth=0)
