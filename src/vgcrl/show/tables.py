"""Numbers as a reader sees them: with their intervals, in rows."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from vgcrl.training import summary
from vgcrl.training.fields import knobs_in_words

# Names of numbers: the paper's where it has one, else plain words.
LABELS = {
    "F": "F",
    "lgr_z": "LGR(z)",
    "lgr_s": "LGR(s)",
    "lgr_v": "LGR_v",
    "spread_v": "velocity spread, m/s",
    "spread_x": "spread of distance, m",
    "log_q": "E[log q]",
    "F_replay": "F on replay",
    "lgr_z_steps": "LGR(z) of all steps",
    "coverage": "cells covered",
    "success": "places reached",
    "success_end": "reached at the end",
    "time_near": "time near",
    "distance_left": "distance left, m",
    "env_success": "environment's success",
    "env_success_end": "its success at the end",
}


class Table(NamedTuple):
    columns: list[str]
    rows: list[list[str]]


def aligned(table: Table) -> list[str]:
    """Returns the lines of a table for a terminal, with aligned columns."""
    rows = [table.columns, *table.rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(table.columns))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def number(x: float | None) -> str:
    return "–" if x is None else f"{x:.3f}" if abs(x) < 1000 else f"{x:.0f}"


def counted(n: int, noun: str) -> str:
    return f"{n} {noun}{'s' * (n != 1)}"


def least_to_most(values: Sequence[float], form: str = ",") -> str:
    return " to ".join(f"{x:{form}}" for x in sorted({min(values), max(values)}))


def with_interval(mean: float | None, ci: list[float] | None) -> str:
    if mean is None or ci is None:
        return number(mean)
    return f"{number(mean)} ± {number((ci[1] - ci[0]) / 2)}"


def reached(measured: dict[str, float]) -> str:
    """Returns what a policy reaches in a few words: its share of places where that was measured, else F and LGR."""
    about = ("success", "coverage") if "success" in measured else ("F", "lgr_z", "lgr_s", "lgr_v")
    shown = [name for name in about if name in measured]
    told = {name: f"{measured[name]:,.0f}" if name == "coverage" else number(measured[name]) for name in shown}
    return ", ".join(f"{LABELS[name]} {value}" for name, value in told.items())


def metrics_table(record: dict[str, Any]) -> Table:
    """Returns a table with a row for every run, then one for the mean over seeds of each setting."""
    groups = record.get("settings", [record])
    names = [n for n in summary.SUMMARISED if any(row[n] is not None for row in record["seeds"])]
    swept = [k for k in groups[0] if k not in record] if "settings" in record else []

    def label(row: dict[str, Any], what: str) -> str:
        return ", ".join([what, *knobs_in_words({k: row[k] for k in swept})])

    rows = [[label(row, f"seed {row['seed']}"), *(number(row[n]) for n in names)] for row in record["seeds"]]
    for group in groups:
        cells = (with_interval(group["mean"][n], group["ci95"][n]) for n in names)
        rows.append([label(group, "mean ± 95 %"), *cells])
    return Table(["run", *(LABELS.get(name, name) for name in names)], rows)
